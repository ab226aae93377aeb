"""Bugs of locks in Go, PHP and Java, and of those on other servers, by project, that a lock of our kind could have."""

from __future__ import annotations

import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import redis

from commandstats import script_calls
from lockwork import LockLost, LockTimeout, Lockwork, NotHeld
from processes import script, until


def test_redsync_149_a_server_that_forgot_everything(other: Lockwork, url: str, admin: redis.Redis) -> None:
    """redsync PR #149: a restarted node forgot the lock; extending set it again, though others could have had it."""
    with Lockwork(url, lock_lease=0.6) as lw:
        grant = lw.lock("x").acquire()
        admin.flushall()
        with other.lock("x", wait=0) as theirs:
            until(lambda: grant.lost, "the first is notified", 5)
            assert theirs.fence > grant.fence
            assert other.lock("x").inspect().fence == theirs.fence
        with pytest.raises(LockLost):
            grant.release()


def test_rueidislock_602_waiter_does_not_poll(lw: Lockwork, other: Lockwork, admin: redis.Redis) -> None:
    """rueidislock #602: a waiter asked the server again and again without a pause."""
    with ThreadPoolExecutor(5) as pool:
        lock = other.lock("x")
        lock.acquire()
        waiting = [pool.submit(lambda: lw.lock("x", wait=30).acquire().release()) for _ in range(5)]
        until(lambda: lock.inspect().waiters == 5, "all wait")
        before = script_calls(admin)
        threading.Event().wait(2)
        # on a Cluster each asks once more when its subscription is confirmed
        assert script_calls(admin) - before <= 15
        lock.release()
        for one in waiting:
            one.result()


def test_rueidislock_546_an_extended_lock_still_wakes_waiters(url: str, other: Lockwork) -> None:
    """rueidislock #546: after an extension, neither waiters nor the holder received any notification."""
    with Lockwork(url, lock_lease=30) as lw, ThreadPoolExecutor(1) as pool:
        notified = threading.Event()
        grant = lw.lock("x", on_lost=lambda _: notified.set()).acquire()
        waiting = pool.submit(lambda: other.lock("x", wait=20).acquire())
        until(lambda: other.lock("x").inspect().waiters == 1, "it waits")
        grant.extend("1h")
        began = time.monotonic()
        grant.release()
        theirs = waiting.result()
        assert time.monotonic() - began < 2
        theirs.extend("1h")
        theirs.release()
        assert not notified.is_set()


def test_laravel_26213_non_holder_cannot_release(lw: Lockwork, other: Lockwork) -> None:
    """Laravel #26213: any caller could release a lock, even after its own lease."""
    grant = lw.lock("x", lease=0.1).acquire()
    until(lambda: not lw.lock("x").locked(), "the lease ended")
    with other.lock("x", wait=0) as theirs:
        with pytest.raises(LockLost):
            lw.lock("x").release()
        with pytest.raises(NotHeld):
            lw.lock("x").release()
        assert other.lock("x").inspect().fence == theirs.fence
        assert grant.lost


def test_jepsen_etcd_a_paused_holder_is_refused_by_the_store(lw: Lockwork, url: str, admin: redis.Redis) -> None:
    """Jepsen on etcd 3.4.3: a holder that was paused past its lease wrote after the next one. The fence tells."""
    code = (
        "import os, sys\nfrom clients import client_of\nfrom lockwork import LockLost, Lockwork\n"
        "store = client_of(os.environ['LOCKWORK_URL'])\n"
        "write = store.register_script(\"if tonumber(ARGV[1]) < tonumber(redis.call('GET', KEYS[1]) or '0') then "
        "return 0 end redis.call('SET', KEYS[1], ARGV[1], 'EX', 60) return 1\")\n"
        "with Lockwork(lock_lease=1) as lw:\n    try:\n        with lw.lock('x') as grant:\n"
        "            print(grant.fence, flush=True)\n            sys.stdin.readline()\n"
        "            print(write(keys=['store'], args=[grant.fence]), flush=True)\n"
        "    except LockLost:\n        print('LockLost', flush=True)\n"
    )
    with script(code, url=url) as holder:
        holder.line()
        holder.send(signal.SIGSTOP)
        with lw.lock("x", wait=30) as grant:
            admin.set("store", grant.fence, ex=60)
            holder.send(signal.SIGCONT)
            holder.tell("write")
            assert holder.line() == "0"
            assert holder.line() == "LockLost"
            assert int(admin.get("store") or 0) == grant.fence


def test_etcd_a_waiter_with_an_expired_lease_is_not_granted(lw: Lockwork, other: Lockwork) -> None:
    """Jepsen on etcd 3.4.3: the lease was not checked after the wait, so a waiter got the lock without a lease."""
    with ThreadPoolExecutor(1) as pool:
        lock = other.lock("x")
        lock.acquire()
        waiting = pool.submit(lambda: lw.lock("x", lease=0.5, wait=30).acquire())
        until(lambda: lock.inspect().waiters == 1, "it waits")
        threading.Event().wait(1.2)  # longer than the requested lease
        lock.release()
        grant = waiting.result()
        assert 0 < grant.remaining <= 0.5
        assert not grant.lost
        grant.release()


def test_redis_docs_a_wrong_client_clock_has_no_effect(
    lw: Lockwork, other: Lockwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Redlock, Redisson's fair lock and others decide by the client's wall clock; a jump gives two holders."""
    with lw.lock("x") as grant:
        with monkeypatch.context() as patch:
            patch.setattr(time, "time", lambda: 4_000_000_000.0)
            patch.setattr(time, "time_ns", lambda: 4_000_000_000 * 10**9)
            with pytest.raises(LockTimeout):
                other.lock("x").acquire(wait=0)
        assert not grant.lost
    with other.lock("x", wait=0) as theirs:
        assert theirs.fence > grant.fence


def test_shedlock_a_job_that_ends_at_once_runs_once_per_period(lw: Lockwork, other: Lockwork) -> None:
    """ShedLock has lockAtLeastFor because machines whose clocks differ ran a quick job twice."""
    ran = []
    for app in (lw, other, lw, other):
        try:
            with app.lock("nightly", at_least=20, wait=0):
                ran.append(app)
        except LockTimeout:
            pass
    assert ran == [lw]


def test_consul_a_program_is_notified_of_its_lost_lock_in_time(url: str, admin: redis.Redis) -> None:
    """Consul has a lock-delay since holders learned too late that their session was invalid.

    Here the holder counts its lease from before it asked: it knows before the server lets in the next one.
    """
    with Lockwork(url, patience=1) as lw, Lockwork(url) as other:
        grant = lw.lock("x", lease=0.5).acquire()
        with other.lock("x", wait=10):
            assert grant.lost
        with pytest.raises(LockLost):
            grant.release()
