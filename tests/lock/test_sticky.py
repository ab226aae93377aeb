"""A sticky lock stays in its process after the release, until somebody else wants it."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import redis

from commandstats import script_calls
from lockwork import BlockingCallError, ConfigError, Grant, LockLost, LockTimeout, Lockwork, NotHeld
from lockwork.runtime import kept
from processes import script, until

SOON = 5.0
"""Seconds within which a kept lock is given back, asked once or twice; the leases here are much longer."""

KEEPER = """
import sys
from lockwork import Lockwork
lw = Lockwork(lock_lease=60)
with lw.lock("x", sticky=True) as grant:
    print(grant.fence, flush=True)
sys.stdin.readline()
with lw.lock("x", sticky=True) as grant:
    print(grant.fence, flush=True)
    sys.stdin.readline()
if len(sys.argv) > 1:
    import os; os._exit(0)
"""


def test_taking_it_again_costs_no_call(lw: Lockwork, admin: redis.Redis) -> None:
    lock = lw.lock("x", sticky=True)
    with lock as first:
        pass
    assert lock.locked()
    assert not lock.held()
    before = script_calls(admin)
    for _ in range(100):
        with lock as grant:
            assert grant.fence == first.fence
            assert lock.held()
            assert not grant.lost
        assert grant.lost
    assert script_calls(admin) - before <= 1  # a renewal


async def test_taking_it_again_costs_a_task_no_call(alw: Lockwork, admin: redis.Redis) -> None:
    lock = alw.lock("x", sticky=True)
    async with lock as first:
        pass
    before = script_calls(admin)
    for _ in range(100):
        async with lock as grant:
            assert grant.fence == first.fence
    assert script_calls(admin) - before <= 1


def test_another_thread_takes_it_over(lw: Lockwork, admin: redis.Redis) -> None:
    lock = lw.lock("x", sticky=True)
    with lock as grant:
        pass
    before = script_calls(admin)

    def take() -> int:
        with lock as mine:
            return mine.fence

    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(take).result() == grant.fence
    assert script_calls(admin) - before <= 1


def test_it_is_re_entrant(lw: Lockwork) -> None:
    lock = lw.lock("x", sticky=True)
    for _ in range(2):
        with lock as outer:
            with lock as inner:
                assert inner is outer
                assert inner.depth == 2
            assert lock.held()
        assert not lock.held()
        with pytest.raises(NotHeld):
            lock.release()


def test_threads_of_one_process_exclude_each_other(lw: Lockwork) -> None:
    lock = lw.lock("x", sticky=True)
    with lock, ThreadPoolExecutor(1) as pool:
        assert pool.submit(lock.try_acquire).result() is None
        with pytest.raises(LockTimeout):
            pool.submit(lock.acquire, 0.05).result()
        waiting = pool.submit(lambda: lock.acquire().release())
        until(lambda: lock.state().waiters, "it waits")
        assert not waiting.done()
        lock.release()
        waiting.result()
        lock.acquire()


async def test_tasks_of_one_process_exclude_each_other(alw: Lockwork) -> None:
    lock = alw.lock("x", sticky=True)
    inside = most = turns = 0

    async def turn() -> None:
        nonlocal inside, most, turns
        for _ in range(5):
            async with lock:
                inside += 1
                most = max(most, inside)
                turns += 1
                await asyncio.sleep(0)
                inside -= 1

    await asyncio.gather(*(turn() for _ in range(10)))
    assert (most, turns) == (1, 50)


def test_given_back_at_once_when_somebody_waits(lw: Lockwork, other: Lockwork) -> None:
    with lw.lock("x", sticky=True) as grant:
        threading.Event().wait(0.2)  # its engine listens
    began = time.monotonic()
    with other.lock("x") as theirs:
        assert time.monotonic() - began < 0.9
        assert theirs.fence > grant.fence
        assert lw.lock("x", sticky=True).try_acquire() is None
    assert not lw.runtime.keeper.all


def test_given_back_after_somebody_only_tried(lw: Lockwork, other: Lockwork) -> None:
    with lw.lock("x", sticky=True):
        pass

    def tried() -> bool:
        grant = other.lock("x").try_acquire()
        if grant is not None:
            grant.release()
        return grant is not None

    until(tried, "a second or third try", SOON)


def test_given_back_even_when_asked_before_the_engine_listened(lw: Lockwork, other: Lockwork) -> None:
    with lw.lock("x", sticky=True):
        pass
    with other.lock("x", wait=SOON):
        pass


def test_given_back_when_it_is_in_use(lw: Lockwork, other: Lockwork) -> None:
    lock = lw.lock("x", sticky=True)
    with ThreadPoolExecutor(1) as pool:
        with lock as grant:
            waiting = pool.submit(lambda: other.lock("x", wait=30).acquire())
            until(lambda: lock.state().waiters, "it waits")
            with lock:  # who has it may enter it again
                pass
            assert not grant.lost
            threading.Event().wait(0.3)
            assert not waiting.done()
        theirs = waiting.result(SOON)
        assert theirs.fence > grant.fence
        theirs.release()


def test_two_handles_of_one_process_one_of_them_not_sticky(lw: Lockwork) -> None:
    with lw.lock("x", sticky=True) as grant:
        with lw.lock("x") as again:
            assert again is grant
    with lw.lock("x", wait=SOON) as plain:
        assert plain.fence > grant.fence
    assert not lw.lock("x").locked()
    with lw.lock("x", sticky=True):
        pass
    assert lw.lock("x").locked()


def test_released_through_a_handle_that_is_not_sticky(lw: Lockwork, other: Lockwork) -> None:
    lw.lock("x", sticky=True).acquire()
    lw.lock("x").release()
    with lw.lock("x", sticky=True), pytest.raises(LockTimeout):
        other.lock("x").acquire(wait=0.05)
    with other.lock("x", wait=SOON):
        pass


def test_two_processes_pass_it_to_and_fro(lw: Lockwork, url: str) -> None:
    lock = lw.lock("x", sticky=True)
    with script(KEEPER, url=url) as keeper:
        fence = int(keeper.line())
        with lw.lock("x", sticky=True, wait=30) as mine:
            assert mine.fence > fence
            keeper.tell("again")
            until(lambda: lock.state().waiters, "it waits")
        again = int(keeper.line())
        assert again > mine.fence
        assert lock.try_acquire() is None
        keeper.tell("end")
        assert keeper.wait() == 0
    assert not lock.locked()  # it gave it back when it ended


def test_a_killed_keeper_delays_the_next_by_its_lease(lw: Lockwork, url: str) -> None:
    code = KEEPER.replace("lock_lease=60", "lock_lease=1")
    with script(code, url=url) as keeper:
        keeper.line()
        keeper.process.kill()
        keeper.process.wait()
        began = time.monotonic()
        with lw.lock("x", wait=30):
            assert time.monotonic() - began < 1 + 1.5


def test_no_more_than_a_thousand_are_kept(url: str, admin: redis.Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "MOST", 20)
    with Lockwork(url) as lw:
        for number in range(50):
            with lw.lock(f"x{number}", sticky=True):
                pass
        assert len(lw.runtime.keeper.idle) == 20
        assert len(lw.runtime.keeper.all) == 20
        until(lambda: not any(lw.lock(f"x{number}").locked() for number in range(30)), "the oldest are free", SOON)
        assert all(lw.lock(f"x{number}").locked() for number in range(30, 50))
        with lw.lock("x49", sticky=True):
            pass


def test_the_cap_is_a_thousand() -> None:
    assert kept.MOST == 1000


def test_closing_gives_back(url: str, other: Lockwork) -> None:
    lw = Lockwork(url, lock_lease=60)
    with lw, lw.lock("x", sticky=True):
        pass
    assert not other.lock("x").locked()
    with lw.lock("x", sticky=True):  # opened again
        assert other.lock("x").locked()
    lw.close()
    assert not other.lock("x").locked()


async def test_closing_by_a_task_gives_back(url: str, other: Lockwork) -> None:
    async with Lockwork(url, lock_lease=60) as lw, lw.lock("x", sticky=True):
        pass
    assert not await other.lock("x").alocked()
    await other.aclose()


def test_a_forked_child_keeps_nothing(lw: Lockwork) -> None:
    lock = lw.lock("x", sticky=True)
    with lock as grant:
        pass
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        found = "nothing"
        try:
            assert not lw.runtime.keeper.idle
            # the parent keeps it: asked, it gives it back, which the child cannot do in its name
            mine = lock.acquire(wait=20)
            found = "fence rose" if mine.fence > grant.fence else "the parent's fence"
            lock.release()
            lw.close()
        except BaseException as error:  # noqa: BLE001 - the parent reports it
            found = repr(error)
        finally:
            os.write(writer, found.encode())
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        assert pipe.read() == "fence rose"
    os.waitpid(child, 0)
    with lock as again:
        assert again.fence > grant.fence


def test_asked_twice_it_is_given_back_once(lw: Lockwork, other: Lockwork) -> None:
    """The second answer must not end the grant that this process has taken since."""
    lock = lw.lock("x", sticky=True)
    key = lock._key
    for _ in range(20):
        with lock:
            pass
        for _ in range(3):
            lw.runtime.engine._deliver("!", f"asked {key}")
        lw.runtime.engine._ring()
        with other.lock("x", wait=SOON) as theirs:
            assert not theirs.lost
            assert other.lock("x").state().fence == theirs.fence


def test_asked_for_a_lock_that_is_not_kept(lw: Lockwork) -> None:
    with lw.lock("x") as grant:
        lw.runtime.engine._deliver("!", f"asked {lw.lock('x')._key}")
        lw.runtime.engine._deliver("!", "asked lw:{lock:unheard-of}")
        lw.runtime.engine._deliver("!", "nonsense")
        lw.runtime.engine._deliver("!", "")
        lw.runtime.engine._ring()
        threading.Event().wait(0.1)
        assert not grant.lost


def test_lost_while_it_is_kept(url: str, admin: redis.Redis, other: Lockwork) -> None:
    with Lockwork(url, lock_lease=0.6) as lw:
        lock = lw.lock("x", sticky=True)
        with lock as grant:
            pass
        admin.delete("lw:{lock:x}")
        until(lambda: not lw.runtime.keeper.all, "the engine noticed", SOON)
        with other.lock("x", wait=0) as theirs:
            assert lock.try_acquire() is None
            assert not theirs.lost
        with lock as again:
            assert again.fence > grant.fence


def test_lost_while_it_is_in_use(url: str, admin: redis.Redis) -> None:
    told: list[Grant] = []
    with Lockwork(url, lock_lease=0.6) as lw:
        lock = lw.lock("x", sticky=True, on_lost=told.append)
        with lock:
            pass
        with pytest.raises(LockLost), lock as grant:
            admin.delete("lw:{lock:x}")
            until(lambda: told, "the holder is told", SOON)
            assert grant.lost
        assert told == [grant]
        assert not lw.runtime.keeper.all
        with lock as again:
            assert not again.lost
        assert len(told) == 1


async def test_a_body_is_cancelled_when_a_kept_lock_is_lost_in_use(url: str, admin: redis.Redis) -> None:
    async with Lockwork(url, lock_lease=0.6) as lw:
        lock = lw.lock("x", sticky=True)
        async with lock:
            pass
        with pytest.raises(LockLost, match="body was cancelled"):
            async with lock:
                admin.delete("lw:{lock:x}")
                await asyncio.sleep(30)
        async with lock:
            pass


def test_on_lost_is_not_called_for_a_lock_that_is_only_kept(url: str, admin: redis.Redis) -> None:
    told: list[Grant] = []
    with Lockwork(url, lock_lease=0.6) as lw:
        with lw.lock("x", sticky=True, on_lost=told.append):
            pass
        admin.delete("lw:{lock:x}")
        until(lambda: not lw.runtime.keeper.all, "the engine noticed", SOON)
    assert not told


def test_taken_again_in_a_body_that_has_lost_it(url: str, admin: redis.Redis) -> None:
    """The thread has not left its body yet; a lock that another thread of the process keeps is not for that body."""
    with Lockwork(url, lock_lease=0.6) as lw, ThreadPoolExecutor(1) as pool:
        lock = lw.lock("x", sticky=True)

        def take() -> None:
            with lock:
                pass

        with pytest.raises(LockLost), lock as grant:
            admin.delete("lw:{lock:x}")
            until(lambda: grant.lost, "the holder is told", SOON)
            pool.submit(take).result()
            assert lw.runtime.keeper.idle
            with pytest.raises(LockLost):
                lock.acquire()
        with lock as again:
            assert not again.lost
        with pytest.raises(NotHeld):
            lock.release()


def test_it_is_renewed_while_it_is_kept(url: str, admin: redis.Redis) -> None:
    with Lockwork(url, lock_lease=0.6) as lw:
        lock = lw.lock("x", sticky=True)
        with lock as grant:
            pass
        threading.Event().wait(1.5)
        with lock as again:
            assert again.fence == grant.fence


def test_closing_while_it_is_in_use(url: str, other: Lockwork) -> None:
    """It ends with its lease: nobody renews it behind the back of a closed app."""
    lw = Lockwork(url, lock_lease=0.6)
    lock = lw.lock("x", sticky=True)
    grant = lock.acquire()
    lw.close()
    until(lambda: grant.lost, "the lease ended", SOON)
    with other.lock("x", wait=SOON) as theirs:
        with pytest.raises(LockLost):
            lock.release()
        assert not theirs.lost
    with lock as again:
        assert not again.lost
    lw.close()


@pytest.mark.parametrize("options", [{"lease": 5}, {"at_least": 5}, {"lease": 5, "at_least": 1}])
def test_what_a_sticky_lock_cannot_be(lw: Lockwork, options: dict[str, int]) -> None:
    with pytest.raises(ConfigError, match="sticky lock"):
        lw.lock("x", sticky=True, **options)  # type: ignore[arg-type]


async def test_a_blocking_call_on_the_loops_thread(alw: Lockwork) -> None:
    lock = alw.lock("x", sticky=True)
    async with lock:
        pass
    with pytest.raises(BlockingCallError):
        lock.acquire()
    async with lock as grant:
        for call in (lock.release, grant.release, lock.release_all):
            with pytest.raises(BlockingCallError):
                call()
        assert lock.held()
        assert grant.depth == 1


def test_a_line_that_waits_is_served_in_order(lw: Lockwork, other: Lockwork) -> None:
    """A keeper that is busy with its lock does not come before those who wait (L7)."""
    lock = lw.lock("x", sticky=True)
    served: list[str] = []
    lock.acquire()
    with ThreadPoolExecutor(4) as pool:
        for count, (name, app) in enumerate([("a", other), ("b", lw), ("c", other), ("d", lw)], 1):

            def turn(name: str = name, app: Lockwork = app) -> None:
                with app.lock("x", sticky=True, wait=30):
                    served.append(name)

            pool.submit(turn)
            until(lambda count=count: lock.state().waiters == count, "it waits")  # type: ignore[misc]
        lock.release()
    assert served == ["a", "b", "c", "d"]
    with lw.lock("x", wait=SOON):
        pass
