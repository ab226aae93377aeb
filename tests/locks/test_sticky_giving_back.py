"""Release of a cached sticky lock on request: once, and with its waiters served in order."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import redis

from locks.keeping import SOON
from lockwork import LockTimeout, Lockwork
from processes import script, until

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
"""


def test_released_at_once_when_another_caller_waits(lw: Lockwork, other: Lockwork, admin: redis.Redis) -> None:
    with lw.lock("x", sticky=True) as grant:
        until(lambda: admin.pubsub_numsub(lw.runtime.channel)[0][1] == 1, "its engine listens")
    began = time.monotonic()
    with other.lock("x") as theirs:
        assert time.monotonic() - began < 0.9
        assert theirs.fence > grant.fence
        assert lw.lock("x", sticky=True).try_acquire() is None
    assert not lw.runtime.sticky_cache.all


def test_released_after_a_try_without_waiting(lw: Lockwork, other: Lockwork) -> None:
    with lw.lock("x", sticky=True):
        pass

    def tried() -> bool:
        grant = other.lock("x").try_acquire()
        if grant is not None:
            grant.release()
        return grant is not None

    until(tried, "a second or third try", SOON)


def test_request_before_the_subscription_releases_the_lock(lw: Lockwork, other: Lockwork) -> None:
    with lw.lock("x", sticky=True):
        pass
    with other.lock("x", wait=SOON):
        pass


def test_given_back_when_it_is_in_use(lw: Lockwork, other: Lockwork) -> None:
    lock = lw.lock("x", sticky=True)
    with ThreadPoolExecutor(1) as pool:
        with lock as grant:
            waiting = pool.submit(lambda: other.lock("x", wait=30).acquire())
            until(lambda: lock.inspect().waiters, "it waits")
            with lock:  # its owner may enter again
                pass
            assert not grant.lost
            threading.Event().wait(0.3)
            assert not waiting.done()
        theirs = waiting.result(SOON)
        assert theirs.fence > grant.fence
        theirs.release()


def test_released_through_a_handle_that_is_not_sticky(lw: Lockwork, other: Lockwork) -> None:
    lw.lock("x", sticky=True).acquire()
    lw.lock("x").release()
    with lw.lock("x", sticky=True), pytest.raises(LockTimeout):
        other.lock("x").acquire(wait=0.05)
    with other.lock("x", wait=SOON):
        pass


def test_processes_exchange_a_sticky_lock(lw: Lockwork, url: str) -> None:
    lock = lw.lock("x", sticky=True)
    with script(KEEPER, url=url) as keeper:
        fence = int(keeper.line())
        with lw.lock("x", sticky=True, wait=30) as mine:
            assert mine.fence > fence
            keeper.tell("again")
            until(lambda: lock.inspect().waiters, "it waits")
        again = int(keeper.line())
        assert again > mine.fence
        assert lock.try_acquire() is None
        keeper.tell("end")
        assert keeper.wait() == 0
    assert not lock.locked()  # its process released it on exit


def test_killed_process_delays_the_next_by_its_lease(lw: Lockwork, url: str) -> None:
    code = KEEPER.replace("lock_lease=60", "lock_lease=1")
    with script(code, url=url) as keeper:
        keeper.line()
        keeper.process.kill()
        keeper.process.wait()
        began = time.monotonic()
        with lw.lock("x", wait=30):
            assert time.monotonic() - began < 1 + 1.5


def test_repeated_requests_release_the_lock_once(lw: Lockwork, other: Lockwork) -> None:
    """The second request must not end a grant that this process acquired since."""
    lock = lw.lock("x", sticky=True)
    key = lock._key
    for _ in range(20):
        with lock:
            pass
        for _ in range(3):
            lw.runtime.engine._deliver("!", f"asked {key}")
        lw.runtime.engine._wake_up()
        with other.lock("x", wait=SOON) as theirs:
            assert not theirs.lost
            assert other.lock("x").inspect().fence == theirs.fence


def test_request_for_a_lock_that_is_not_sticky_is_ignored(lw: Lockwork) -> None:
    with lw.lock("x") as grant:
        lw.runtime.engine._deliver("!", f"asked {lw.lock('x')._key}")
        lw.runtime.engine._deliver("!", "asked lw:{lock:unknown}")
        lw.runtime.engine._deliver("!", "nonsense")
        lw.runtime.engine._deliver("!", "")
        lw.runtime.engine._wake_up()
        threading.Event().wait(0.1)
        assert not grant.lost


def test_waiters_are_served_in_order(lw: Lockwork, other: Lockwork) -> None:
    """A process that uses its sticky lock does not overtake waiters (L7)."""
    lock = lw.lock("x", sticky=True)
    served: list[str] = []
    lock.acquire()
    with ThreadPoolExecutor(4) as pool:
        for count, (name, app) in enumerate([("a", other), ("b", lw), ("c", other), ("d", lw)], 1):

            def turn(name: str = name, app: Lockwork = app) -> None:
                with app.lock("x", sticky=True, wait=30):
                    served.append(name)

            pool.submit(turn)
            until(lambda count=count: lock.inspect().waiters == count, "it waits")  # type: ignore[misc]
        lock.release()
    assert served == ["a", "b", "c", "d"]
    with lw.lock("x", wait=SOON):
        pass
