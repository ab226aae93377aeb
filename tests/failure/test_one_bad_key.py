"""A key that cannot be renewed or released costs only its own lease, and no other lease of the same call."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
import redis

from lockwork import Lockwork, LockworkError
from lockwork.compat.plain import PlainLock
from lockwork.compat.timestamp import TimestampLock
from lockwork.protocol import keys
from lockwork.runtime.embedded import Embedded
from processes import until

COUNT = 30
LEASE = 3.0

KINDS: dict[str, tuple[Callable[[Lockwork, str, Any], Any], Callable[[str], str]]] = {
    "lock": (lambda lw, name, on_lost: lw.lock(name, on_lost=on_lost), lambda name: keys.lock("lw", name)),
    "semaphore": (
        lambda lw, name, on_lost: lw.semaphore(name, 2, on_lost=on_lost),
        lambda name: f"lw:{{sem:{name}}}",
    ),
    "rwlock": (lambda lw, name, on_lost: lw.rwlock(name, on_lost=on_lost).write(), lambda name: f"lw:{{rw:{name}}}"),
    "plain": (lambda lw, name, on_lost: PlainLock(lw, name, on_lost=on_lost), lambda name: name),
    "timestamp": (lambda lw, name, on_lost: TimestampLock(lw, name, on_lost=on_lost), lambda name: name),
}


class Held:
    """Many grants of one kind, and the numbers of the grants reported as lost."""

    def __init__(self, lw: Lockwork, kind: str) -> None:
        make, self.key = KINDS[kind]
        self.lost: list[int] = []
        self.changed = threading.Event()
        self.grants = [make(lw, self.name(at), partial(self._note, at)).acquire() for at in range(COUNT)]

    def _note(self, at: int, _: object) -> None:
        self.lost.append(at)
        self.changed.set()

    def loses_only(self, bad: int) -> None:
        assert self.changed.wait(20)
        self.changed.clear()
        assert not self.changed.wait(2 * LEASE)
        assert self.lost == [bad]

    @staticmethod
    def name(at: int) -> str:
        return f"x{at:02}"

    def release(self) -> None:
        for grant in self.grants:
            if not grant.lost:
                grant.release()


@pytest.fixture
def own(spoiled: Embedded) -> Iterator[Lockwork]:
    with Lockwork(spoiled.url, lock_lease=LEASE) as app:
        yield app


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bad", [0, COUNT // 2])
def test_foreign_key_costs_its_own_lease(own: Lockwork, spoil: redis.Redis, kind: str, bad: int) -> None:
    held = Held(own, kind)
    spoil.delete(held.key(held.name(bad)))
    if kind in ("plain", "timestamp"):
        spoil.hset(held.key(held.name(bad)), "field", "value")
    else:
        spoil.set(held.key(held.name(bad)), "text")
    held.loses_only(bad)
    held.release()


def test_foreign_key_costs_its_own_run(own: Lockwork, spoil: redis.Redis) -> None:
    """Runs of `once` are renewed in one call, too."""
    gate, running = threading.Event(), threading.Barrier(6)
    results: list[object] = []

    def wait() -> str:
        running.wait(20)
        gate.wait(30)
        return "done"

    def run(at: int) -> None:
        try:
            results.append(own.once(f"x{at}", every="1d").run(wait))
        except LockworkError as error:
            results.append(error)

    threads = [threading.Thread(target=run, args=(at,)) for at in range(5)]
    for thread in threads:
        thread.start()
    running.wait(20)
    spoil.set(keys.once("lw", "x2"), "text")
    threading.Event().wait(2 * LEASE)
    gate.set()
    for thread in threads:
        thread.join()
    assert sorted(isinstance(result, LockworkError) for result in results) == [False] * 4 + [True]


@pytest.mark.parametrize("bad", [0, COUNT // 2])
def test_key_without_permission_costs_its_own_lease(spoiled: Embedded, spoil: redis.Redis, bad: int) -> None:
    """The server refuses the whole call without naming the key."""
    rules = ("resetkeys", *(f"~{keys.lock('lw', Held.name(at))}" for at in range(COUNT)))
    spoil.execute_command("ACL", "SETUSER", "some", "on", ">secret", "&*", "+@all", *rules)  # type: ignore[no-untyped-call]
    with Lockwork(spoiled.url.replace("://", "://some:secret@", 1), lock_lease=LEASE) as app:
        held = Held(app, "lock")
        kept = ("resetkeys", *(f"~{keys.lock('lw', Held.name(at))}" for at in range(COUNT) if at != bad))
        spoil.execute_command("ACL", "SETUSER", "some", *kept)  # type: ignore[no-untyped-call]
        held.loses_only(bad)
        held.release()


def test_multilock_with_a_foreign_key_releases_the_others(own: Lockwork, spoil: redis.Redis) -> None:
    both = own.multilock("a", "b", "c")
    both.acquire()
    spoil.set(keys.lock("lw", "b"), "text")
    with pytest.raises(LockworkError):
        both.release()
    for name in ("a", "c"):
        assert own.lock(name).inspect().owner is None


def test_failed_multilock_with_a_foreign_key_releases_the_others(own: Lockwork, spoil: redis.Redis) -> None:
    own.lock("c").acquire()
    failed: list[BaseException] = []

    def ask() -> None:
        try:
            own.multilock("a", "b", "c").acquire()
        except LockworkError as error:
            failed.append(error)

    asking = threading.Thread(target=ask)
    asking.start()
    until(lambda: own.lock("b").inspect().owner is not None, "it waits for the last")
    spoil.set(keys.lock("lw", "a"), "text")
    asking.join(30)
    assert "data of another program" in str(failed[0])
    assert own.lock("b").inspect().owner is None
