"""The table of locks with unusual owners and names."""

from __future__ import annotations

import io
import re
import threading

import pytest
import redis
from rich.console import Console

from lockwork import Lockwork
from lockwork.cli.locks import report
from lockwork.protocol.locks.overview import Overview
from lockwork.words import time_left
from processes import until


def shown(seen: Overview, width: int = 120) -> str:
    out = io.StringIO()
    Console(file=out, width=width, highlight=False).print(*report(seen).body)
    return out.getvalue()


def test_threads_of_one_name_are_distinguished(lw: Lockwork) -> None:
    done = threading.Event()

    def hold(name: str) -> None:
        with lw.lock(name):
            done.wait()

    threads = [threading.Thread(target=hold, args=[name], name="same") for name in "ab"]
    for thread in threads:
        thread.start()
    until(lambda: len(lw.locks().locks) == 2, "both hold")
    numbers = re.findall(r" same #(\d+) ", shown(lw.locks()))
    assert len(set(numbers)) == 2
    done.set()
    for thread in threads:
        thread.join()


@pytest.mark.parametrize("width", [60, 120])
def test_control_characters_from_clients_do_not_reach_the_terminal(
    lw: Lockwork, admin: redis.Redis, width: int
) -> None:
    admin.hset("lw:{lock:\x1b[2J[red]x}", mapping={"o": "\x1b[31mme", "r": "r;\x1b]0;t", "f": 7, "d": 9 * 10**15})
    admin.expire("lw:{lock:\x1b[2J[red]x}", 60)
    admin.zadd("lw:{lockwork}:index:locks", {"{lock:\x1b[2J[red]x}": 1})
    text = shown(lw.locks(), width)
    assert "\x1b" not in text
    assert "?[2J[red]x" in text
    assert "?[31mme" in text


def test_minimum_hold_needs_no_renewal(lw: Lockwork) -> None:
    with lw.lock("x", at_least=30):
        pass
    (seen,) = lw.locks().locks
    assert seen.holders == ()
    assert 0 < seen.kept_for <= 30
    assert "free after its minimum time" in shown(lw.locks())


def test_held_lock_never_shows_0_left() -> None:
    assert [time_left(seconds) for seconds in (0, 0.001, 0.04, 0.1, 0.3, 0.301, 59.99, 61)] == [
        "0.0 s", "0.1 s", "0.1 s", "0.1 s", "0.3 s", "0.4 s", "1 min", "1 min 1 s"
    ]  # fmt: skip
