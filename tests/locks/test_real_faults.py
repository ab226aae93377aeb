"""Locks whose holders are stopped or frozen: the lease ends, the holder is notified, and no two holders overlap."""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
import redis

from lockwork import LockLost, Lockwork
from lockwork.runtime.clock import now
from processes import script, until

GIL_BOUND = """
import ctypes, sys
from lockwork import LockLost, Lockwork
from lockwork.runtime.clock import now
notified_at = []
with Lockwork(lock_lease=1) as lw:
    try:
        with lw.lock("x", on_lost=lambda grant: notified_at.append(now()), sticky=len(sys.argv) > 1) as grant:
            print(grant.fence, flush=True)
            ctypes.PyDLL(None).sleep(3)  # a call of C that keeps the interpreter to itself
            print("lost" if grant.lost else "held", flush=True)
    except LockLost:
        print("LockLost", flush=True)
"""

EXITS = """
import sys
from lockwork import Lockwork
lw = Lockwork(lock_lease=2)
grant = lw.lock("x", sticky=sys.argv[2] == "sticky").acquire()
print(grant.fence, flush=True)
if sys.argv[1] == "raises":
    raise ValueError("mine")
if sys.argv[1] == "kills itself":
    import os; os.abort()
"""


@pytest.mark.parametrize("kind", [(), ("sticky",)], ids=["plain", "sticky"])
def test_holder_that_blocks_the_interpreter_loses_its_lock(lw: Lockwork, url: str, kind: tuple[str, ...]) -> None:
    """No thread of the process can renew. It loses the lock like a stopped process, and sees that at its next check."""
    with script(GIL_BOUND, *kind, url=url) as holder:
        fence = int(holder.line())
        with lw.lock("x", wait=30) as grant:
            assert grant.fence > fence
            assert holder.line() == "lost"
            assert holder.line() == "LockLost"
            assert not grant.lost
            assert lw.lock("x").inspect().fence == grant.fence


@pytest.mark.parametrize("kind", ["plain", "sticky"])
@pytest.mark.parametrize("how", ["returns", "raises", "kills itself"])
def test_process_that_exits_while_holding_a_lock(lw: Lockwork, url: str, how: str, kind: str) -> None:
    """The process ends at once and without an error from Lockwork; its lock ends with the lease."""
    with script(EXITS, how, kind, url=url) as holder:
        fence = int(holder.line())
        status = holder.wait(10)
        assert status == {"returns": 0, "raises": 1, "kills itself": -signal.SIGABRT}[how]
        assert "lockwork" not in holder.errors.lower().replace("import lockwork", "")
        with lw.lock("x", wait=30) as grant:
            assert grant.fence > fence


def test_stopped_process_does_not_reuse_its_sticky_lock(lw: Lockwork, url: str) -> None:
    """SIGSTOP lasts longer than the lease of the cached lock."""
    code = (
        "import sys\nfrom lockwork import Lockwork\nlw = Lockwork(lock_lease=1)\nlock = lw.lock('x', sticky=True)\n"
        "with lock as grant: pass\nprint(grant.fence, flush=True)\nsys.stdin.readline()\n"
        "print(lock.try_acquire(), flush=True)\nlw.close()\n"
    )
    with script(code, url=url) as keeper:
        fence = int(keeper.line())
        keeper.send(signal.SIGSTOP)
        with lw.lock("x", wait=30) as grant:
            assert grant.fence > fence
            keeper.send(signal.SIGCONT)
            keeper.tell("try")
            assert keeper.line() == "None"
            assert not grant.lost
        assert keeper.wait() == 0


def test_stopped_waiter_is_skipped_and_served_later(lw: Lockwork, url: str) -> None:
    waiter = (
        "from lockwork import Lockwork\nwith Lockwork() as lw:\n"
        "    with lw.lock('x') as grant:\n        print(grant.fence, grant.lost, flush=True)\n"
    )
    lock = lw.lock("x")
    first = lock.acquire()
    with script(waiter, url=url) as stopped:
        until(lambda: lock.inspect().waiters == 1, "it waits")
        stopped.send(signal.SIGSTOP)
        with ThreadPoolExecutor(1) as pool:
            next_one = pool.submit(lambda: lw.lock("x", wait=40).acquire())
            until(lambda: lock.inspect().waiters == 2, "the next one waits")
            lock.release()
            second = next_one.result()
            assert second.fence > first.fence
        stopped.send(signal.SIGCONT)
        threading.Event().wait(0.3)
        assert not second.lost
        second.release()
        fence, lost = stopped.line().split()
        assert int(fence) > second.fence
        assert lost == "False"


@pytest.mark.parametrize("kind", ["normal", "pubsub"])
def test_renewed_lock_survives_closed_connections(url: str, admin: redis.Redis, kind: str) -> None:
    """Renewal and release requests use new connections."""
    with Lockwork(url, lock_lease=2) as keeper, Lockwork(url) as other:
        lock = keeper.lock("x", sticky=True)
        with lock as grant:
            pass
        end = time.monotonic() + 2.7
        while time.monotonic() < end:
            admin.execute_command("CLIENT", "KILL", "TYPE", kind, "SKIPME", "yes")  # type: ignore[no-untyped-call]
            threading.Event().wait(0.05)
        with lock as again:
            assert again.fence == grant.fence
        with other.lock("x", wait=5) as theirs:
            assert theirs.fence > grant.fence


def test_scripts_are_flushed_under_every_operation(lw: Lockwork, admin: redis.Redis) -> None:
    lock = lw.lock("x", tags=["t"], at_least=0.01)
    steps: list[Callable[[], object]] = [
        lock.acquire,
        lock.inspect,
        lock.extend,
        lambda: lw.lock("x").adopt(lock.export()),
        lock.release,
        lambda: until(lambda: not lock.locked(), "free"),
        lock.acquire,
        lock.force_release,
        lambda: pytest.raises(LockLost, lock.release),  # noqa: RUF061 - one step of many
    ]
    for step in steps:
        admin.script_flush()
        step()
    assert not lock.locked()


async def test_scripts_are_flushed_under_every_operation_of_a_task(alw: Lockwork, admin: redis.Redis) -> None:
    lock = alw.lock("x")
    for step in (lock.aacquire, lock.ainspect, lock.aextend, lock.arelease, lock.aacquire, lock.aforce_release):
        admin.script_flush()
        await step()
    admin.script_flush()
    with pytest.raises(LockLost):
        await lock.arelease()


async def test_blocked_loop_sees_loss_on_next_check(url: str, admin: redis.Redis) -> None:
    """The lease ends while the loop is blocked; the body is cancelled at its first await, and `lost` is true before."""
    notified_at: list[float] = []
    async with Lockwork(url, lock_lease=0.6) as lw:
        with pytest.raises(LockLost):
            async with lw.lock("x", on_lost=lambda _: notified_at.append(now())) as grant:
                deadline = now() + grant.remaining
                admin.delete("lw:{lock:x}")
                time.sleep(2.5)  # noqa: ASYNC251 - that is the point
                assert grant.lost
                assert notified_at, "the callback runs on another thread"
                assert notified_at[0] < deadline + 1.5  # L5
                await asyncio.sleep(30)


async def test_fixed_lease_ends_while_the_loop_is_blocked(alw: Lockwork) -> None:
    with pytest.raises(LockLost):
        async with alw.lock("x", lease=0.3) as grant:
            time.sleep(0.8)  # noqa: ASYNC251 - that is the point
            assert grant.lost
    async with alw.lock("x", wait=0):
        pass


def test_holder_knows_the_end_of_its_lease_while_the_server_is_frozen(url: str, admin: redis.Redis) -> None:
    """The holder counts its lease from before its request, so it needs no reply from the server."""
    notified_at: list[float] = []
    with Lockwork(url, lock_lease=1, patience=5) as lw:
        with pytest.raises(LockLost), lw.lock("x", on_lost=lambda _: notified_at.append(now())) as grant:
            threading.Event().wait(0.5)
            deadline = now() + grant.remaining
            admin.execute_command("CLIENT", "PAUSE", "2500", "ALL")  # type: ignore[no-untyped-call]
            until(lambda: grant.lost, "it knows", 5)
            until(lambda: notified_at, "it is notified", 5)
            assert notified_at[0] <= deadline + 1.5
        with lw.lock("x", wait=10) as again:
            assert again.fence > grant.fence
