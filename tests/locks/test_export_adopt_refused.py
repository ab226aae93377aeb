"""Refused exports and adoptions."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import redis

from indexed import keys_but_indexes
from lockwork import ConfigError, LockLost, Lockwork, NotHeld
from lockwork.locks.grant import read_export
from processes import until


def test_after_the_lease(lw: Lockwork, other: Lockwork) -> None:
    lock = lw.lock("x")
    lock.acquire()
    text = lock.export(lease=0.2)
    until(lambda: not lock.locked(), "the lease ended: nobody renews what is on its way")
    with pytest.raises(LockLost, match="ended before the grant was adopted"):
        other.lock("x").adopt(text)
    assert not lock.locked()


def test_exported_grant_is_not_renewed(url: str, other: Lockwork) -> None:
    with Lockwork(url, lock_lease=1) as lw:
        lock = lw.lock("x")
        lock.acquire()
        threading.Event().wait(0.5)  # time for one renewal
        text = lock.export()
        until(lambda: not other.lock("x").locked(), "the lease ended", 5)
        with pytest.raises(LockLost):
            other.lock("x").adopt(text)


def test_adopt_is_refused_after_another_grant(lw: Lockwork, other: Lockwork) -> None:
    lock = lw.lock("x")
    lock.acquire()
    text = lock.export()
    assert lock.force_release()
    with lock as grant:
        with pytest.raises(LockLost):
            other.lock("x").adopt(text)
        assert not grant.lost
        assert lock.inspect().fence == grant.fence


def test_by_the_wrong_lock(lw: Lockwork, other: Lockwork, url: str) -> None:
    lock = lw.lock("x")
    lock.acquire()
    text = lock.export()
    with pytest.raises(ConfigError, match="cannot be adopted by"):
        other.lock("y").adopt(text)
    with Lockwork(url, prefix="else") as elsewhere, pytest.raises(ConfigError, match="cannot be adopted by"):
        elsewhere.lock("x").adopt(text)
    assert not other.lock("y").locked()
    other.lock("x").adopt(text).release()


GARBAGE = [
    "", " ", "x", "====", "W10=", "e30=", "bnVsbA==", "WyJhIl0=", "WzEsMiwzXQ==", "naïve", "\x00", "A" * 10_000,
    "-_" * 40,
]  # fmt: skip


@pytest.mark.parametrize("text", [*GARBAGE, None, 7, b"W10="], ids=repr)
def test_adopt_refuses_garbage(lw: Lockwork, admin: redis.Redis, text: object) -> None:
    with pytest.raises(ConfigError, match=r"not a text that a lock.s export\(\)"):
        lw.lock("x").adopt(text)  # type: ignore[arg-type]
    assert not keys_but_indexes(admin)


def test_adopt_refuses_a_truncated_or_changed_text(lw: Lockwork, other: Lockwork) -> None:
    lock = lw.lock("x")
    lock.acquire()
    text = lock.export()
    for at in range(len(text)):
        for changed in (text[:at], text[:at] + ("A" if text[at] != "A" else "B") + text[at + 1 :]):
            try:
                other.lock("x").adopt(changed)
            except (ConfigError, LockLost):
                continue
            # the change hit unused bits, so the text names the same grant
            assert read_export(changed, lock._key) == read_export(text, lock._key)
            other.lock("x").release()
            return
    other.lock("x").adopt(text).release()


def test_export_by_another_thread_is_refused(lw: Lockwork) -> None:
    lock = lw.lock("x")
    with pytest.raises(NotHeld):
        lock.export()
    with lock as grant, ThreadPoolExecutor(1) as pool:
        with pytest.raises(NotHeld):
            pool.submit(lock.export).result()
        assert not grant.lost


def test_lost_grant_cannot_be_exported(lw: Lockwork) -> None:
    lock = lw.lock("x", lease=0.1)
    grant = lock.acquire()
    until(lambda: grant.lost, "the lease ended")
    with pytest.raises(LockLost):
        lock.export()


def test_holder_cannot_adopt_its_own_lock(lw: Lockwork) -> None:
    lock = lw.lock("x")
    lock.acquire()
    text = lock.export()
    assert lock.force_release()
    with lock as grant:
        with pytest.raises(ConfigError, match="already held by this thread or task"):
            lock.adopt(text)
        assert grant.depth == 1
    assert not lock.locked()
