"""Lists find queues, stocks, limiters and locks by an index of names that costs no extra commands."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
import redis
from click.testing import CliRunner

from commandstats import script_calls
from lockwork import Lockwork
from lockwork.cli.commands import cli
from lockwork.protocol.index import index
from lockwork.protocol.index.index import LOCKS, QUEUES
from processes import until


def names(admin: redis.Redis, kind: index.IndexedKind) -> set[str]:
    """Return the names in an index."""
    found: Any = admin.zrange(kind.index_key("lw"), 0, -1)
    return {name.decode() for name in found}


def test_uncontended_pair_and_enqueue_cost_one_call_each(lw: Lockwork, admin: redis.Redis) -> None:
    @lw.task
    def send(number: int) -> None: ...

    send.enqueue(0)
    lw.lock("a").acquire().release()
    until(lambda: names(admin, QUEUES) == {"default"}, "the queue is listed")
    before = script_calls(admin)
    for number in range(500):
        with lw.lock("a"):
            pass
        send.enqueue(number)
    assert 1500 <= script_calls(admin) - before <= 1505  # a slow machine may hold a lock for a second


def test_lock_is_listed_after_a_second(lw: Lockwork, admin: redis.Redis) -> None:
    with lw.lock("a"), lw.queue().lock("b"), lw.semaphore("s", 2), lw.rwlock("r").read():
        assert len(lw.locks().locks) == 4, "of this process, at once"
        until(lambda: names(admin, LOCKS) == {"{lock:a}", "{q:default}:lock:b", "{sem:s}", "{rw:r}"}, "listed")
        assert names(admin, QUEUES) == set()


def test_waiter_lists_its_lock_after_a_second(lw: Lockwork, admin: redis.Redis) -> None:
    with lw.lock("a"):
        until(lambda: names(admin, LOCKS) == {"{lock:a}"}, "the holder lists it")
        admin.delete(LOCKS.index_key("lw"))
        lw.runtime.names.forget()  # as in another process
        waiter = threading.Thread(target=lambda: lw.lock("a").acquire().release())
        waiter.start()
        until(lambda: names(admin, LOCKS) == {"{lock:a}"}, "the waiter lists it")
    waiter.join()


def test_whole_name_finds_a_lock_that_is_not_listed(lw: Lockwork, admin: redis.Redis) -> None:
    with lw.lock("a*"), lw.queue("mail").lock("b/c"), lw.rwlock("a*").write():
        seen = lw.runtime.names.locks
        lw.runtime.names.locks = tuple  # as in another process
        admin.delete(LOCKS.index_key("lw"))
        assert [each.kind for each in lw.locks("a[*]").locks] == ["lock", "rwlock"]
        assert [each.name for each in lw.locks("mail/b/c").locks] == ["mail/b/c"]
        lw.runtime.names.locks = seen


SCRIPT = """
import asyncio, os, sys
from lockwork import Lockwork
lw = Lockwork(os.environ["URL"])
@lw.task(queue="mail")
def send(): ...
async def main():
    await send.aenqueue()
    {inside}
{ends}
"""


@pytest.mark.parametrize(
    ("ends", "inside"),
    [
        ("send.enqueue()", ""),
        ("send.enqueue(); lw.close()", ""),
        ("send.enqueue(); raise KeyboardInterrupt", ""),
        ("asyncio.run(main())", ""),
        ("asyncio.run(main())", "await lw.aclose()"),
    ],
)
def test_script_that_ends_lists_its_queue(lw: Lockwork, url: str, ends: str, inside: str, tmp_path: Path) -> None:
    code = tmp_path / "script.py"
    code.write_text(SCRIPT.format(ends=ends, inside=inside))
    subprocess.run([sys.executable, code], env=os.environ | {"URL": url}, capture_output=True, check=False)
    assert lw.queues() == ["mail"]


def test_name_is_listed_again_after_data_loss(lw: Lockwork, admin: redis.Redis) -> None:
    @lw.task
    def send() -> None: ...

    send.enqueue()
    until(lambda: names(admin, QUEUES) == {"default"}, "listed")
    admin.flushall()
    admin.script_flush()
    assert lw.queues() == []
    send.enqueue()
    until(lambda: names(admin, QUEUES) == {"default"}, "listed again")


def test_old_names_are_checked_when_others_are_added(lw: Lockwork, admin: redis.Redis) -> None:
    admin.hset("lw:{q:there}:stats", "enqueued", 1)
    admin.zadd(QUEUES.index_key("lw"), {"there": 1, "gone": 1})
    assert lw.queues() == ["there"]
    lw.runtime.run(index.put("lw", QUEUES, ["new"]))
    assert names(admin, QUEUES) == {"there", "new"}
    assert (admin.zscore(QUEUES.index_key("lw"), "there") or 0) > 1


def test_list_reads_more_names_than_a_page(lw: Lockwork, admin: redis.Redis) -> None:
    many = [f"q{number}" for number in range(2500)]
    lw.runtime.run(index.put("lw", QUEUES, many))
    assert set(lw.runtime.run(index.read("lw", QUEUES))) == set(many)


def test_doctor_scan_lists_names_of_an_older_version(lw: Lockwork, admin: redis.Redis, url: str) -> None:
    @lw.task
    def send() -> None: ...

    send.enqueue()
    lw.stock("tickets", 5).reserve("ann")
    until(lambda: len(names(admin, QUEUES) | names(admin, index.STOCKS)) == 2, "listed")
    admin.delete(QUEUES.index_key("lw"))
    admin.delete(index.STOCKS.index_key("lw"))
    assert (lw.queues(), lw.stocks()) == ([], [])
    seen = CliRunner(env={"COLUMNS": "200"}).invoke(cli, ["doctor", "--scan", "--url", url]).stdout
    assert "1 queue was in no list: default" in seen
    assert "1 stock was in no list: tickets of queue default" in seen
    assert (lw.queues(), len(lw.stocks())) == (["default"], 1)
    assert "no list" not in CliRunner().invoke(cli, ["doctor", "--scan", "--url", url]).stdout
