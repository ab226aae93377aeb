"""Inspection of a lock: its owner and remaining lease."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest
import redis

from indexed import keys_but_indexes
from lockwork import ConfigError, Lockwork
from lockwork.protocol.effects import script_call
from lockwork.protocol.locks import grants
from lockwork.protocol.locks.overview import plain
from models.bench import Bench
from processes import script, until
from simulator.server import Build, Server

HOLDER = """
from lockwork import Lockwork
with Lockwork() as lw, lw.lock("x", tags=["batch", "eu"]):
    print("held", flush=True)
    input()
"""


def test_free_lock_has_no_owner(lw: Lockwork) -> None:
    lock = lw.lock("x")
    assert (lock.locked(), lock.owner(), lock.remaining()) == (False, None, 0)
    with lock:
        pass
    assert (lock.locked(), lock.owner(), lock.remaining()) == (False, None, 0)


def test_lock_is_held_until_the_last_microsecond_of_its_lease(url: str) -> None:
    """Otherwise an acquire would fail on a lock that inspection calls free."""
    with closing(Server(url)) as server:
        bench = Bench(server, Build())
        bench.call(script_call("locks/acquire", "x", ["owner", "request", 1000, 1000, 0, ""]))
        bench.now += 1_000_000 - 2
        last = bench.run(grants.state("x"))
        assert last.owner == "owner"
        assert last.expires_in > 0
        over = bench.run(grants.state("x"))
        assert (over.owner, over.expires_in) == (None, 0)


async def test_free_lock_has_no_owner_when_inspected_by_a_task(alw: Lockwork) -> None:
    lock = alw.lock("x")
    assert (await lock.alocked(), await lock.aowner(), await lock.aremaining()) == (False, None, 0)


def test_owner_names_host_process_and_thread(lw: Lockwork, url: str) -> None:
    with lw.lock("x", tags=["nightly", "eu-1"]), Lockwork(url) as other:
        lock = other.lock("x")
        owner = lock.owner()
        assert owner is not None
        assert (owner.host, owner.pid) == (plain(socket.gethostname()), os.getpid())
        assert owner.label == plain(threading.current_thread().name)
        assert owner.tags == ("nightly", "eu-1")
        assert lock.locked()
        assert 10 < lock.remaining() <= 15


async def test_owner_names_the_asyncio_task(alw: Lockwork) -> None:
    seen = asyncio.Event()

    async def hold() -> None:
        async with alw.lock("x", tags=("t",)):
            await seen.wait()

    task = asyncio.create_task(hold(), name="the importer: 7")
    while (owner := await alw.lock("x").aowner()) is None:
        await asyncio.sleep(0)
    assert (owner.label, owner.pid, owner.tags) == ("the_importer_7", os.getpid(), ("t",))
    assert await alw.lock("x").alocked()
    seen.set()
    await task
    assert not await alw.lock("x").alocked()


def test_owner_names_another_process(lw: Lockwork, url: str) -> None:
    with script(HOLDER, url=url) as holder:
        assert holder.line() == "held"
        owner = lw.lock("x").owner()
        assert owner is not None
        assert (owner.pid, owner.label, owner.tags) == (holder.pid, "MainThread", ("batch", "eu"))
        holder.tell("end")
        holder.wait()
    until(lambda: not lw.lock("x").locked(), "it was released")


def test_sticky_lock_shows_its_owner_and_tags(lw: Lockwork) -> None:
    lock = lw.lock("x", sticky=True, tags=["cache"])
    with lock:
        owner = lock.owner()
        assert owner is not None
        assert (owner.pid, owner.tags) == (os.getpid(), ("cache",))
        assert owner.label == plain(threading.current_thread().name)


def test_thread_with_an_odd_name_can_hold_a_lock(lw: Lockwork) -> None:
    """Owner ids contain thread names; separators divide the parts of an id."""
    seen = []

    def hold() -> None:
        with lw.lock("x"):
            seen.append(lw.lock("x").owner())

    for name in ("a:b/c~d;e", "naïve 線程", "", "x" * 500):
        thread = threading.Thread(target=hold, name=name)
        thread.start()
        thread.join()
    assert all(owner is not None and owner.pid == os.getpid() for owner in seen)
    assert len(seen) == 4
    assert not lw.lock("x").locked()


def test_lock_with_an_expired_lease_is_free(lw: Lockwork) -> None:
    lw.lock("x", lease=0.1).acquire()
    until(lambda: not lw.lock("x").locked(), "the lease ended")
    assert lw.lock("x").owner() is None
    assert lw.lock("x").remaining() == 0
    with pytest.raises(Exception, match="ended before it was released"):
        lw.lock("x").release()


def test_waiters_are_counted_and_do_not_change_the_owner(lw: Lockwork) -> None:
    with lw.lock("x") as grant, ThreadPoolExecutor(3) as pool:
        waiting = [pool.submit(lambda: lw.lock("x").acquire().release()) for _ in range(3)]
        until(lambda: lw.lock("x").inspect().waiters == 3, "three wait")
        assert lw.lock("x").inspect().fence == grant.fence
        grant.release()
        for one in waiting:
            one.result()
    lw_state = lw.lock("x").inspect()
    assert (lw_state.owner, lw_state.waiters) == (None, 0)


@pytest.mark.parametrize("tags", ["one", [7], 5])
def test_wrong_tags_are_refused(lw: Lockwork, admin: redis.Redis, tags: object) -> None:
    with pytest.raises(ConfigError):
        lw.lock("x", tags=tags)  # type: ignore[arg-type]
    assert not keys_but_indexes(admin)


@pytest.mark.parametrize("tag", ["semi;colon", "~wave", "dot.ted", "a:b/c", "{brace}", "ünï", "", "a,b", "100%", "a b"])
@pytest.mark.parametrize("sticky", [False, True])
def test_tags_with_separators_are_returned_unchanged(lw: Lockwork, tag: str, sticky: bool) -> None:
    lock = lw.lock("x", tags=["first", tag], sticky=sticky)
    with lock:
        owner = lock.owner()
        assert owner is not None
        assert owner.tags == ("first", tag)
        assert (owner.pid, owner.label) == (os.getpid(), plain(threading.current_thread().name))
    with lw.lock("x", wait=5):
        pass
