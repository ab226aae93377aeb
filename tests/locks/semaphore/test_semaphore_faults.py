"""Semaphores when holders die, waiters are cancelled and messages are lost; named bugs of other libraries by name."""

from __future__ import annotations

import asyncio
import contextlib
from concurrent.futures import ThreadPoolExecutor

import pytest
import redis

from commandstats import command_calls
from lockwork import LockLost, Lockwork, ServerRefused
from lockwork.protocol import keys
from processes import script, until

HOLD = """
import sys
from lockwork import Lockwork
lw = Lockwork(lock_lease=1)
grants = [lw.semaphore("gpu", 3).acquire() for _ in range(int(sys.argv[1]))]
print("held", flush=True)
sys.stdin.readline()
"""
WAIT = """
from lockwork import Lockwork
lw = Lockwork()
print("waits", flush=True)
lw.semaphore("gpu", 3, units=3).acquire()
"""


def test_permits_of_a_killed_holder_come_back(lw: Lockwork, url: str) -> None:
    """Redisson #2045, #4462: the permits of a crashed holder were lost for ever."""
    gpu = lw.semaphore("gpu", 3)
    for _ in range(3):
        with script(HOLD, 2, url=url) as process:
            assert process.line() == "held"
            assert gpu.available() == 1
        with lw.semaphore("gpu", 3, units=3, wait=10):
            assert gpu.available() == 0
    assert gpu.available() == 3


def test_holder_of_ended_lease_is_notified_and_releases_once(lw: Lockwork) -> None:
    gpu = lw.semaphore("gpu", 2, lease=0.2)
    late = gpu.acquire()
    grants = [lw.semaphore("gpu", 2, wait=10).acquire() for _ in range(2)]
    with pytest.raises(LockLost):
        late.release()
    assert gpu.available() == 0
    for grant in grants:
        grant.release()
    assert gpu.available() == 2


async def test_cancelled_waiters_add_no_permits(alw: Lockwork) -> None:
    """Redisson 4.6.1: cancelled waiters released permits without holding any."""
    gpu = alw.semaphore("gpu", 2)
    for turns in range(12):
        held = [await gpu.aacquire() for _ in range(2)]
        waiters = [asyncio.create_task(gpu.aacquire()) for _ in range(4)]
        for _ in range(turns):
            await asyncio.sleep(0)
        for waiter in waiters[::2]:
            waiter.cancel()
        for grant in held:
            await grant.arelease()
        for waiter in waiters[::2]:
            with contextlib.suppress(asyncio.CancelledError):
                await (await waiter).arelease()
        for waiter in waiters[1::2]:
            await (await waiter).arelease()
        state = await gpu.ainspect()
        assert (state.used, state.held, state.waiting) == (0, 0, 0)


def test_lost_message_delays_a_waiter_only_briefly(url: str, admin: redis.Redis) -> None:
    """Redisson's semaphore: a waiter slept without a time limit, so that a lost message left it asleep."""
    with Lockwork(url) as lw, Lockwork(url) as other:
        held = lw.semaphore("gpu", 1).acquire()
        with ThreadPoolExecutor(1) as pool:
            got = pool.submit(lambda: other.semaphore("gpu", 1).acquire(wait=20))
            until(lambda: lw.semaphore("gpu", 1).inspect().waiting == 1, "it waits")
            channel = keys.channel("lw", other.runtime.process)
            until(lambda: admin.pubsub_numsub(channel)[0][1] == 1, "it listens")
            admin.client_kill_filter(_type="pubsub", skipme=True)
            held.release()
            got.result().release()
        assert lw.semaphore("gpu", 1).available() == 1


def test_killed_waiter_is_skipped(lw: Lockwork, url: str) -> None:
    gpu = lw.semaphore("gpu", 3)
    with gpu:
        with script(WAIT, url=url) as process:
            assert process.line() == "waits"
            until(lambda: gpu.inspect().waiting == 1, "it waits")
        with lw.semaphore("gpu", 3, wait=20):
            assert gpu.available() == 1


def test_forked_child_holds_no_grant(lw: Lockwork, url: str) -> None:
    code = """
import os, sys
from lockwork import Lockwork, NotHeld
lw = Lockwork()
gpu = lw.semaphore("gpu", 2)
with gpu:
    child = os.fork()
    if not child:
        ok = not gpu.held()
        try:
            gpu.release()
        except NotHeld:
            os._exit(0 if ok else 1)
        os._exit(2)
    print(os.waitpid(child, 0)[1], gpu.available(), flush=True)
print(gpu.available(), flush=True)
"""
    with script(code, url=url) as process:
        assert process.line() == "0 1"
        assert process.line() == "2"


def test_permits_survive_a_script_flush(lw: Lockwork, admin: redis.Redis) -> None:
    gpu = lw.semaphore("gpu", 2)
    with gpu:
        admin.script_flush()
        with gpu:
            admin.script_flush()
            assert gpu.available() == 0
        admin.script_flush()
    assert gpu.available() == 2


def test_key_of_another_kind_is_refused(lw: Lockwork, admin: redis.Redis) -> None:
    admin.set("lw:{sem:gpu}", "text", ex=60)
    with pytest.raises(ServerRefused):
        lw.semaphore("gpu", 2).acquire()
    assert admin.get("lw:{sem:gpu}") == b"text"


def test_permits_come_back_when_the_server_is_out_of_memory(lw: Lockwork, admin: redis.Redis) -> None:
    gpu = lw.semaphore("gpu", 2)
    grants = [gpu.acquire(), gpu.acquire()]
    admin.config_set("maxmemory", 1)
    try:
        grants[0].extend()
        for grant in grants:
            grant.release()
        with pytest.raises(ServerRefused):
            gpu.acquire()
    finally:
        admin.config_set("maxmemory", 0)
    assert gpu.available() == 2


async def test_body_is_cancelled_when_its_permit_is_lost(alw: Lockwork) -> None:
    gpu = alw.semaphore("gpu", 2, lease=0.2)
    kept = await alw.semaphore("gpu", 2).aacquire()
    with pytest.raises(LockLost, match="semaphore 'gpu'"):
        async with gpu:
            await asyncio.Event().wait()
    assert not kept.lost
    await kept.arelease()


def test_thousands_of_holders_cost_no_more_than_a_few(lw: Lockwork, admin: redis.Redis) -> None:
    """The number of fields that a call reads grows with the depth of the heap, not with the number of holders."""
    crowd = lw.semaphore("crowd", 2000)
    grants = [crowd.acquire() for _ in range(2000)]
    before = command_calls(admin, "hget", "hmget")
    for grant in grants[:10]:
        grant.release()
    assert 0 < command_calls(admin, "hget", "hmget") - before < 10 * 30
    for grant in grants[10:]:
        grant.release()
    assert crowd.available() == 2000
