"""Holders of locks killed and frozen at random while they work: no two hold one at once, and no write is lost.

LOCKWORK_CHAOS_SECONDS makes each run longer; the seed of a run is printed with a failure.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import redis

from chaos.checkers import lock_problems
from history import History
from lockwork.runtime.embedded import start_private
from processes import Started, alive, started, until

SECONDS = float(os.environ.get("LOCKWORK_CHAOS_SECONDS", "20"))
SEED = int(os.environ.get("LOCKWORK_CHAOS_SEED", "0")) or random.randrange(1 << 30)
APPS = Path(__file__).parent / "apps"

pytestmark = pytest.mark.timeout(SECONDS * 4 + 120)


@pytest.fixture
def chaos_url(tmp_path: Path) -> Iterator[str]:
    with start_private(tmp_path / "server") as server:
        yield server.url


def send(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        if alive(pid):
            os.kill(pid, number)


def freeze(pids: list[int], seconds: float) -> None:
    """Stop processes past their lease, and let them go on as if nothing had been."""
    for pid in pids:
        send(pid, signal.SIGSTOP)
    threading.Event().wait(seconds)
    for pid in pids:
        send(pid, signal.SIGCONT)


def stopped_inside(history: History) -> int:
    """Stop a process that has the lock."""
    while True:
        pid: int = history.lines("enter")[-1]["pid"]
        send(pid, signal.SIGSTOP)
        threading.Event().wait(0.001)
        if [line["event"] for line in history.lines() if line["pid"] == pid][-1] != "exit":
            return pid
        send(pid, signal.SIGCONT)


def turns(url: str, folder: Path, kind: str, seconds: float) -> tuple[list[dict[str, Any]], list[int], int]:
    """Eight processes take turns, one is killed or frozen now and then; returns the history and what the store has."""
    draw = random.Random(SEED)
    folder.mkdir()
    history = History(folder / "history")
    with redis.Redis.from_url(url) as client:
        client.flushall()
    command = [sys.executable, str(APPS / "turns.py"), history.path, kind]
    with ExitStack() as stack:

        def one_more() -> Started:
            return stack.enter_context(started(command, folder=folder, url=url))

        players = [one_more() for _ in range(8)]
        until(lambda: len({line["pid"] for line in history.lines("enter")}) == 8, "each had a turn", 60)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            victim = draw.randrange(8)
            if draw.random() < 0.6:
                pid = stopped_inside(history) if draw.random() < 0.8 else players[victim].pid
                freeze([pid], draw.choice((0.2, 1.5)))
            else:
                players[victim].end()
                players[victim] = one_more()
                threading.Event().wait(draw.uniform(0, 0.5))
        before = len(history.lines("enter"))
        until(lambda: len(history.lines("enter")) > before + 20, "they still take turns", 60)
    with redis.Redis.from_url(url, decode_responses=True) as client:
        accepted = [int(fence) for fence in client.lrange("accepted", 0, -1)]
        return history.lines(), accepted, int(client.hget("store", "value") or 0)


def test_locks(chaos_url: str, tmp_path: Path) -> None:
    lines, accepted, value = turns(chaos_url, tmp_path / "turns", "real", SECONDS / 2)
    print(f"seed {SEED}: {len(lines)} lines, {len(accepted)} writes")
    assert lock_problems(lines, accepted, value) == []
    assert len(accepted) > 20


def test_the_broken_lock_is_caught(chaos_url: str, tmp_path: Path) -> None:
    """A bare SET NX without an owner: who was frozen past its lease goes on, and deletes the next one's lock."""
    problems: list[str] = []
    for round in range(10):
        lines, accepted, value = turns(chaos_url, tmp_path / f"turns{round}", "broken", 4)
        problems = lock_problems(lines, accepted, value)
        if problems:
            break
    assert any("believed in its lock" in problem for problem in problems), problems
