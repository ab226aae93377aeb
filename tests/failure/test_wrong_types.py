"""Lockwork keys that contain data of another program: one clear error, and no partial effect."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import redis

from indexed import keys_but_indexes
from lockwork import Lockwork, ServerRefused
from lockwork.protocol.keys import QueueKeys, lock

KEYS = QueueKeys("lw", "default")
BOOKS, HOLDS = KEYS.stock("phone")


def snapshot(client: redis.Redis) -> dict[bytes, bytes | None]:
    """Return the contents of all keys except the indexes of names, because another thread writes these."""
    return {key: client.dump(key) for key in keys_but_indexes(client)}


def refused(client: redis.Redis, call: Callable[[], object]) -> None:
    before = snapshot(client)
    with pytest.raises(ServerRefused) as caught:
        call()
    text = str(caught.value)
    assert "a Lockwork key" in text
    assert "contains data of another program" in text
    assert "use another prefix" in text
    assert snapshot(client) == before


def test_lock(lw: Lockwork, admin: redis.Redis) -> None:
    admin.set(lock("lw", "x"), "text", ex=100)
    for call in (lw.lock("x").acquire, lw.lock("x").try_acquire, lw.lock("x").inspect):
        refused(admin, call)
    admin.delete(lock("lw", "x"))
    with lw.lock("x"):
        pass


def test_lock_overwritten_while_held_is_refused_once(lw: Lockwork, admin: redis.Redis) -> None:
    with pytest.raises(ServerRefused, match="data of another program"), lw.lock("x"):
        admin.set(lock("lw", "x"), "text", ex=100)
    admin.delete(lock("lw", "x"))
    with lw.lock("x", wait=0), lw.lock("y"):
        pass


@pytest.mark.parametrize("key", [KEYS.jobs, KEYS.ready[1], KEYS.idle_workers, KEYS.stats])
def test_enqueue(lw: Lockwork, admin: redis.Redis, key: str) -> None:
    @lw.task
    def work() -> None: ...

    work.enqueue()
    admin.set(key, "text")
    refused(admin, work.enqueue)
    refused(admin, lambda: work.enqueue_many([()] * 3))
    admin.delete(key)
    work.enqueue()


def test_enqueue_for_later(lw: Lockwork, admin: redis.Redis) -> None:
    @lw.task
    def work() -> None: ...

    admin.set(KEYS.due, "text")
    refused(admin, work.options(delay=5).enqueue)


@pytest.mark.parametrize("key", [BOOKS, HOLDS, KEYS.jobs, KEYS.ready[1], KEYS.stats, KEYS.idle_workers])
def test_stock_with_a_job(lw: Lockwork, admin: redis.Redis, key: str) -> None:
    @lw.task
    def work() -> None: ...

    phones = lw.stock("phone", 5)
    held = phones.reserve("bob")
    admin.set(key, "text")
    steps: list[Callable[[], Any]] = [
        lambda: phones.reserve("eve", enqueue=work.call()),
        lambda: phones.confirm(held, enqueue=work.call()),
        lambda: phones.release(held, enqueue=work.call()),
    ]
    for step in steps:
        refused(admin, step)


@pytest.mark.parametrize("key", [*KEYS.ready, KEYS.due, KEYS.dead, KEYS.stats, KEYS.workers])
def test_status(lw: Lockwork, admin: redis.Redis, key: str) -> None:
    admin.set(key, "text")
    refused(admin, lw.queue().status)


@pytest.mark.parametrize("key", [KEYS.jobs, *KEYS.results, KEYS.due, KEYS.watch])
def test_result(lw: Lockwork, admin: redis.Redis, key: str) -> None:
    @lw.task
    def work() -> None: ...

    job = work.options(delay=60).enqueue() if key != KEYS.due else work.enqueue()
    admin.set(key, "text")
    refused(admin, lambda: job.result(0.1))
