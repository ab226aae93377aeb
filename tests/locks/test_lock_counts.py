"""Lost leases and hand-overs are counted by all processes, on the server."""

from __future__ import annotations

import signal
import threading
import time

import pytest
import redis

from commandstats import script_calls
from lockwork import LockLost, Lockwork
from lockwork.protocol.locks import counts
from lockwork.telemetry.families import LockFamilies
from processes import script, until
from roles import as_role

WAITER = """
import sys
from lockwork import Lockwork
with Lockwork() as lw:
    print("ready", flush=True)
    with lw.lock("x"):
        pass
"""


def counted(lw: Lockwork) -> dict[str, int]:
    return lw.runtime.run(counts.read("lw"))


def hand_over(lw: Lockwork, url: str, kind: str = "lock") -> float:
    """Let an app hand a lock over to another; return an upper bound of the duration, in seconds."""

    def lock(app: Lockwork) -> object:
        return {"lock": app.lock("x"), "sem": app.semaphore("x", 1), "rw": app.rwlock("x").write()}[kind]

    with Lockwork(url) as one, Lockwork(url) as other:
        mine, theirs = lock(one), lock(other)
        mine.acquire()  # type: ignore[attr-defined]
        waiter = threading.Thread(target=lambda: theirs.acquire(wait=30).release())  # type: ignore[attr-defined]
        waiter.start()
        until(lambda: [line for each in lw.locks().locks for line in each.line], "somebody waits")
        began = time.monotonic()
        mine.release()  # type: ignore[attr-defined]
        waiter.join()
        return time.monotonic() - began


@pytest.mark.parametrize(("kind", "label"), [("lock", "lock"), ("sem", "semaphore"), ("rw", "rwlock")])
def test_hand_over_is_timed(lw: Lockwork, url: str, kind: str, label: str) -> None:
    most = hand_over(lw, url, kind)
    counters = counted(lw)
    assert sum(amount for name, amount in counters.items() if name.startswith(f"handed:{label}:")) == 1
    assert 0 <= counters[f"sum:{label}"] <= most * 1e6
    assert f"lost:{label}" not in counters


def test_frozen_waiter_counts_as_a_late_hand_over(lw: Lockwork, url: str) -> None:
    with lw.lock("x") as grant, script(WAITER, url=url) as waiter:
        assert waiter.line() == "ready"
        until(lambda: lw.lock("x").inspect().waiters, "it waits")
        waiter.send(signal.SIGSTOP)
        began = time.monotonic()
        grant.release()
        threading.Event().wait(0.5)
        waiter.send(signal.SIGCONT)
        assert waiter.wait() == 0
        most = time.monotonic() - began
    assert 0.45e6 <= counted(lw)["sum:lock"] <= most * 1e6


def test_lost_lease_is_counted_once(lw: Lockwork, url: str, admin: redis.Redis) -> None:
    with Lockwork(url) as other:
        late = other.lock("late", lease=0.3).acquire()
        until(lambda: late.lost, "the lease has run out")
        with pytest.raises(LockLost):
            late.release()
        taken = other.lock("taken", lease=60).acquire()
        admin.delete("lw:{lock:taken}")
        with pytest.raises(LockLost):
            taken.release()
        with other.semaphore("kept", 2):
            pass
    assert counted(lw) == {"lost:lock": 2}


def test_uncontended_locks_cost_no_counting_call(url: str, lw: Lockwork, admin: redis.Redis) -> None:
    with Lockwork(url) as other:
        with other.lock("x"):
            pass
        before = script_calls(admin)
        for _ in range(20):
            with other.lock("x"):
                pass
        assert script_calls(admin) == before + 40
    assert counted(lw) == {}


def test_repeated_count_call_adds_nothing(lw: Lockwork) -> None:
    assert lw.runtime.run(counts.add("lw", "p:1", {"lost:lock": 2}))
    assert not lw.runtime.run(counts.add("lw", "p:1", {"lost:lock": 2}))
    assert lw.runtime.run(counts.add("lw", "p:2", {"lost:lock": 1}))
    assert counted(lw) == {"lost:lock": 3}


def test_metrics_show_them(lw: Lockwork, url: str) -> None:
    hand_over(lw, url)
    lost, handed = LockFamilies(lw.runtime, "lw").counts()
    assert {sample.labels["kind"]: sample.value for sample in lost.samples} == dict.fromkeys(counts.KINDS, 0)
    counters = {sample.suffix: sample.value for sample in handed.samples if sample.labels["kind"] == "lock"}
    assert counters["_count"] == counters["_bucket"] == 1
    assert counters["_sum"] >= 0


def test_locks_role_counts_and_viewer_role_reads(lw: Lockwork, url: str, admin: redis.Redis) -> None:
    try:
        hand_over(lw, as_role(url, "locks"))
        with Lockwork(as_role(url, "viewer")) as reader:
            assert "sum:lock" in counted(reader)
    finally:
        admin.acl_deluser("locks", "viewer")
