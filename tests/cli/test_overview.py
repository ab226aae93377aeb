"""Overviews read in several calls: only real deadlocks are reported."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, TypeVar

import pytest
import redis

from lockwork import LockTimeout, Lockwork
from lockwork.protocol.effects import Call, Indexed, Protocol, Shards
from lockwork.protocol.locks.overview import Overview, read_locks
from processes import script, until

T = TypeVar("T")
Entry = list[Any]
LISTING = """
from lockwork import Lockwork
with Lockwork() as lw:
    while len(locks := lw.locks().locks) < 3:
        pass
    print(*[each.name for each in locks])
"""


def lock(name: str, holder: str, fence: int, *line: tuple[str, int]) -> Entry:
    """Return the script's entry for a lock; `line` has the waiters, each with its waiting time in ms."""
    waiters = [[owner.encode(), f"{owner}.r".encode(), 1, ms] for owner, ms in line]
    return [f"lw:{{lock:{name}}}".encode(), b"lock", 1, 0, 0, 0, [[holder.encode(), b"r", fence, 1, 900, 100]], waiters]


def played(*replies: Sequence[Entry]) -> Overview:
    """Return the overview made from these replies."""
    protocol = read_locks("lw")
    effect = next(protocol)
    left, reply = iter([[7, [b"{lock:a}", b"{lock:b}"]], *replies]), None
    while not isinstance(effect, Call) or (reply := next(left, None)) is not None:
        try:
            given = [] if isinstance(effect, Indexed) else 1 if isinstance(effect, Shards) else reply
            effect = protocol.send(given)
        except StopIteration as end:
            seen: Overview = end.value
            return seen
    pytest.fail(f"it asks for more: {effect}")


CIRCLE = [lock("a", "A", 7, ("B", 100)), lock("b", "B", 8, ("A", 100))]


def test_deadlock_seen_by_two_checks() -> None:
    (found,) = played(CIRCLE, CIRCLE).deadlocks
    assert str(found) == "A holds lock a and waits for lock b; B holds lock b and waits for lock a"


@pytest.mark.parametrize(
    "later",
    [
        [],
        [lock("a", "A", 7), lock("b", "B", 8)],
        [lock("a", "A", 7, ("B", 100)), lock("b", "B", 9, ("A", 100))],  # the owner has a new grant
        [lock("a", "A", 7, ("B", 100)), lock("b", "B", 8, ("A", 2))],  # the waiter left, and waits again
        [lock("a", "C", 9, ("B", 100)), lock("b", "B", 8, ("A", 100))],
    ],
)
def test_deadlock_of_the_first_inspection_alone_is_not_reported(later: list[Entry]) -> None:
    seen = played(CIRCLE, later)
    assert seen.deadlocks == ()
    assert len(seen.waits) == 2


def test_lock_granted_to_earlier_call_of_waiter() -> None:
    """The waiter's next call receives the grant, so it is not a deadlock of one owner."""
    seen = played([lock("a", "A", 7, ("A", 5), ("B", 3))])
    assert seen.deadlocks == ()
    assert [(edge.waiter, edge.blocker) for edge in seen.waits] == [("B", "A")]


NAMES = [f"{{sem:s{at}}}" for at in range(20)]


def limited(protocol: Protocol[T], client: redis.Redis, work: int) -> tuple[T, int]:
    """Run a protocol whose script reads at most `work` entries in one call; return its result and number of calls."""
    calls, value = 0, None
    while True:
        try:
            effect = protocol.send(value)
        except StopIteration as end:
            return end.value, calls
        if isinstance(effect, Indexed | Shards):
            value = 1 if isinstance(effect, Shards) else NAMES
            continue
        assert isinstance(effect, Call)
        source = effect.script.source
        calls += "local budget = 10000" in source
        value = client.eval(
            source.replace("budget = 10000", f"budget = {work}"), len(effect.keys), *effect.keys, *effect.args
        )


def test_overview_is_read_in_steps(lw: Lockwork, admin: redis.Redis) -> None:
    grants = [lw.semaphore(f"s{at}", 3).acquire() for at in range(20) for _ in range(3)]
    whole, calls = limited(read_locks("lw"), admin, 10000)
    assert calls == 1
    in_steps, calls = limited(read_locks("lw"), admin, 7)
    assert 5 < calls < 15
    assert [each.name for each in in_steps.locks] == [each.name for each in whole.locks]
    assert all(len(each.holders) == 3 for each in in_steps.locks)
    for grant in grants:
        grant.release()


def test_sticky_lock_has_its_thread_as_holder_only_in_its_block(lw: Lockwork, url: str) -> None:
    """Outside of the block any thread of the process may use the lock, so the first thread is not its holder."""
    with lw.lock("kept", sticky=True, tags=["t"]):
        (held,) = lw.locks().locks[0].holders
        assert (held.holder.label, held.holder.tags) == ("MainThread", ("t",))
        assert "~" in held.holder.owner


def test_exported_grant_has_no_holder(lw: Lockwork, url: str) -> None:
    """Two threads wait for each other's lock, but one lock is an exported grant: adopting it ends the wait."""
    with Lockwork(url) as other, lw.lock("b"):
        moved: list[str] = []

        def export_and_wait() -> None:
            lock = other.lock("a")
            lock.acquire()
            moved.append(lock.export())
            other.lock("b").acquire().release()

        def wait() -> None:
            lw.lock("a").acquire().release()

        threads = [threading.Thread(target=export_and_wait)]
        threads[0].start()
        until(lambda: len(lw.locks().waits) == 1, "it waits for b")
        owner = lw.locks("a").locks[0].holders[0].holder.owner
        assert owner.partition("~")[0] == lw.locks("b").locks[0].line[0].holder.owner
        assert "~" in owner
        assert lw.locks().deadlocks == ()
        with pytest.raises(LockTimeout):
            lw.lock("a").acquire(wait=0)
        lw.lock("a").adopt(moved[0]).release()
        lw.lock("b").release_all()
        lw.lock("b").acquire()
        threads[0].join()


async def test_alocks_selects_locks_by_pattern(alw: Lockwork) -> None:
    async with alw.lock("a"):
        assert [each.name for each in (await alw.alocks("a*")).locks] == ["a"]
        assert (await alw.alocks("b*")).locks == ()


def multilock(lw: Lockwork) -> None:
    with lw.multilock("a", "b", "c"):
        pass


def test_waiting_multilock_holds_no_later_lock(lw: Lockwork) -> None:
    with lw.lock("b") as held:
        thread = threading.Thread(target=multilock, args=[lw], name="multi")
        thread.start()
        until(lambda: lw.locks("b").locks[0].line and len(lw.locks().locks) > 1, "it waits, and holds a")
        seen = lw.locks()
        assert [each.holders[0].holder.label for each in seen.locks] == ["multi", "MainThread"], (
            "and has nothing behind b"
        )
        assert seen.deadlocks == ()
        held.release()
        thread.join()


def test_other_processes_list_the_locks_that_a_waiting_multilock_holds(lw: Lockwork, url: str) -> None:
    with lw.lock("c") as held:
        thread = threading.Thread(target=multilock, args=[lw])
        thread.start()
        with script(LISTING, url=url) as other:
            assert other.line() == "a b c"
        held.release()
        thread.join()


def test_locks_taken_in_order_report_no_deadlock(lw: Lockwork) -> None:
    """All threads take the locks in order of their names, so no overview may report a deadlock."""
    done = threading.Event()

    def work(number: int) -> None:
        everything = (
            (lw.lock("a"), lw.rwlock("r").read()),
            (lw.lock("a", sticky=True), lw.rwlock("r").write()),
            (lw.multilock("b", "a"), lw.semaphore("s", 2)),
            (lw.lock("b", sticky=True), lw.rwlock("r").read()),
            (lw.rwlock("r").read(), lw.semaphore("s", 2, units=2)),
        )
        turn = number
        while not done.is_set():
            first, second = everything[turn % len(everything)]
            turn += 1
            with first, second:
                pass

    threads = [threading.Thread(target=work, args=[number]) for number in range(6)]
    for thread in threads:
        thread.start()
    try:
        seen = [lw.locks() for _ in range(100)]
    finally:
        done.set()
        for thread in threads:
            thread.join()
    assert sum(1 for each in seen if each.waits) > 50
    assert [str(found) for each in seen for found in each.deadlocks] == []
