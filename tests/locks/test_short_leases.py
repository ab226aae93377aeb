"""Leases that would end during a call are refused, for every kind of lock."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lockwork import ConfigError, Lockwork
from lockwork.compat.plain import PlainLock
from lockwork.compat.timestamp import TimestampLock

SAID = r"lease must be at least 0\.1 s, not 0\.001: a shorter one ends during a call"
KINDS: dict[str, Callable[[Lockwork, float], object]] = {
    "lock": lambda lw, lease: lw.lock("a", lease=lease),
    "rwlock": lambda lw, lease: lw.rwlock("a", lease=lease),
    "semaphore": lambda lw, lease: lw.semaphore("a", 2, lease=lease),
    "multilock": lambda lw, lease: lw.multilock("a", "b", lease=lease),
    "queue lock": lambda lw, lease: lw.queue("mail").lock("a", lease=lease),
    "quorum lock": lambda lw, lease: lw.quorum(["redis://a", "redis://b", "redis://c"]).lock("a", lease=lease),
    "plain lock": lambda lw, lease: PlainLock(lw, "a", lease=lease),
    "timestamp lock": lambda lw, lease: TimestampLock(lw, "a", lease=lease),
    "export": lambda lw, lease: lw.lock("a").export(lease=lease),
}


@pytest.mark.parametrize("kind", KINDS)
def test_short_lease_is_refused(lw: Lockwork, kind: str) -> None:
    with lw.lock("a", wait=5), pytest.raises(ConfigError, match=SAID):
        KINDS[kind](lw, 0.001)


def test_grants_are_not_extended_by_a_short_lease(lw: Lockwork) -> None:
    for lock in (lw.lock("a"), lw.semaphore("b", 2), lw.rwlock("c").read(), lw.multilock("d", "e")):
        with lock as grant, pytest.raises(ConfigError, match=SAID):
            grant.extend(0.001)


def test_renewed_leases_have_time_for_a_renewal() -> None:
    with pytest.raises(ConfigError, match=r"lock_lease must be at least 0\.3 s, not '100ms': locks are renewed every"):
        Lockwork("redis://localhost:1", lock_lease="100ms")
    Lockwork("redis://localhost:1", lock_lease=0.3).close()
