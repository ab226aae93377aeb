"""The release of a queue's lock and the enqueue of a job are atomic."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any

import pytest
import redis
from click.testing import CliRunner

from cancelling import nothing_here, swept
from lockwork import ConfigError, LockLost, LockTimeout, Lockwork, NotHeld, ServerRefused
from lockwork.cli.locks import locks
from lockwork.errors import QueueFull
from lockwork.protocol.keys import QueueKeys
from lockwork.tasks.task import Task
from processes import until
from proxy import Phase, Proxy

Ship = Task[[int], None, None]
KEY = QueueKeys("lw", "mail").lock("order:42")


def enqueued(lw: Lockwork) -> int:
    status = lw.queue("mail").status()
    assert status.enqueued == status.ready + status.scheduled
    return status.enqueued


def test_release_and_enqueue_does_both(lw: Lockwork, other: Lockwork, ship: Ship, admin: redis.Redis) -> None:
    lock = lw.queue("mail").lock("order:42")
    grant = lock.acquire()
    assert admin.ttl(KEY) > 0
    job = grant.release_and_enqueue(ship.call(42))
    assert (job.queue, job.state()) == ("mail", "ready")
    assert not lock.held()
    with other.queue("mail").lock("order:42", wait=0) as next_grant:
        assert next_grant.fence > grant.fence
    assert enqueued(lw) == 1
    assert admin.ttl(KEY) > 0


def test_queue_lock_is_separate_from_other_locks(lw: Lockwork) -> None:
    with lw.queue("mail").lock("a"), lw.queue("news").lock("a", wait=0), lw.lock("a", wait=0):
        pass


def test_next_waiter_gets_the_lock(lw: Lockwork, other: Lockwork, ship: Ship) -> None:
    grant = lw.queue("mail").lock("a").acquire()
    seen: list[int] = []

    def wait() -> None:
        with other.queue("mail").lock("a", wait=30):
            seen.append(enqueued(other))

    thread = threading.Thread(target=wait)
    thread.start()
    until(lambda: lw.queue("mail").lock("a").inspect().waiters, "it waits")
    grant.release_and_enqueue(ship.call(1))
    thread.join(30)
    assert seen == [1]


def test_release_and_enqueue_ends_a_reentered_lock(lw: Lockwork, other: Lockwork, ship: Ship) -> None:
    lock = lw.queue("mail").lock("a")
    with lock as grant, lock:
        grant.release_and_enqueue(ship.options(delay="1h").call(1))
        with other.queue("mail").lock("a", wait=0):
            pass
        with pytest.raises(NotHeld, match="nothing was enqueued"):
            grant.release_and_enqueue(ship.call(2))
    assert enqueued(lw) == 1


def test_revoked_lease_enqueues_no_job(lw: Lockwork, other: Lockwork, ship: Ship) -> None:
    grant = lw.queue("mail").lock("a").acquire()
    assert other.queue("mail").lock("a").force_release()
    with other.queue("mail").lock("a"):
        with pytest.raises(LockLost, match="nothing was enqueued"):
            grant.release_and_enqueue(ship.call(1))
        assert enqueued(lw) == 0
        assert not grant.remaining


def test_expired_lease_enqueues_no_job(lw: Lockwork, ship: Ship) -> None:
    grant = lw.queue("mail").lock("a", lease="100ms").acquire()
    until(lambda: grant.lost, "it ran out")
    with pytest.raises(LockLost, match="nothing was enqueued"):
        grant.release_and_enqueue(ship.call(1))
    assert enqueued(lw) == 0
    assert not lw.queue("mail").lock("a").locked()


def test_server_rejects_a_lost_lease(lw: Lockwork, ship: Ship, admin: redis.Redis) -> None:
    grant = lw.queue("mail").lock("order:42").acquire()
    admin.hset(KEY, "f", grant.fence + 1)
    with pytest.raises(LockLost):
        grant.release_and_enqueue(ship.call(1))
    assert enqueued(lw) == 0
    assert int(admin.hget(KEY, "d") or 0) > 0, "the new holder keeps the lock"


def test_wrong_arguments_are_refused_before_the_lock_is_released(lw: Lockwork, ship: Ship) -> None:
    with lw.queue("default").lock("a") as grant:
        with pytest.raises(
            ConfigError, match=r"with queue 'default' and the task's queue is 'mail'.*lw\.queue\('mail'\)"
        ):
            grant.release_and_enqueue(ship.call(1))
        with pytest.raises(ConfigError, match=r"such as send\.call\(42\)"):
            grant.release_and_enqueue(ship)  # type: ignore[arg-type]
        with pytest.raises(ConfigError, match="cannot expire"):
            grant.release_and_enqueue(ship.options(expires="1h").call(1))
        assert not grant.lost
    with pytest.raises(ConfigError, match="a lock's name must be text, not 5"):
        lw.queue("mail").lock(5)  # type: ignore[arg-type]


def test_lock_is_held_for_its_minimum_after_the_enqueue(lw: Lockwork, other: Lockwork, ship: Ship) -> None:
    grant = lw.queue("mail").lock("a", at_least="1m").acquire()
    grant.release_and_enqueue(ship.call(1))
    assert enqueued(lw) == 1
    with pytest.raises(LockTimeout):
        other.queue("mail").lock("a").acquire(wait=0)


def test_queue_lock_behaves_like_a_lock(lw: Lockwork, other: Lockwork, ship: Ship) -> None:
    lock = lw.queue("mail").lock("a", tags=["ours"])
    lock.acquire()
    adopted = other.queue("mail").lock("a").adopt(lock.export())
    adopted.release_and_enqueue(ship.call(1))
    assert enqueued(lw) == 1

    @lw.queue("mail").lock("order:{order}")
    def packed(order: int) -> bool:
        return other.queue("mail").lock(f"order:{order}").locked()

    assert packed(7)
    assert lock.try_acquire() is not None
    lock.release()


def test_queue_lock_is_listed_and_released_from_outside(lw: Lockwork, url: str) -> None:
    with lw.queue("mail").lock("a", tags=["ours"]) as grant:
        (seen,) = lw.locks().locks
        assert (seen.kind, seen.name, seen.holders[0].fence) == ("queuelock", "mail/a", grant.fence)
        shown = CliRunner().invoke(locks, ["--url", url])
        assert "queuelock mail/a" in shown.output
        released = CliRunner().invoke(locks, ["release", "--url", url, "--yes", "mail/a"])
        assert "1 released" in released.output
        with pytest.raises(LockLost):
            grant.release()


def test_lock_is_released_when_memory_for_the_job_is_missing(
    lw: Lockwork, other: Lockwork, ship: Ship, admin: redis.Redis
) -> None:
    grant = lw.queue("mail").lock("a").acquire()
    admin.config_set("maxmemory", 1)
    try:
        with pytest.raises(ServerRefused, match="memory"):
            grant.release_and_enqueue(ship.call(1))
        until(lambda: not other.queue("mail").lock("a").locked(), "the engine releases it")
    finally:
        admin.config_set("maxmemory", 0)
    assert enqueued(lw) == 0


def test_full_queue_releases_the_lock_without_a_job(lw: Lockwork, other: Lockwork, ship: Ship) -> None:
    lw.queue("mail").limit(size=1)
    lw.queue("mail").lock("a").acquire().release_and_enqueue(ship.call(1))
    grant = lw.queue("mail").lock("a").acquire()
    with pytest.raises(QueueFull):
        grant.release_and_enqueue(ship.call(2))
    until(lambda: not other.queue("mail").lock("a").locked(), "the engine releases it")
    assert enqueued(lw) == 1


def test_keys_of_another_type_raise_server_refused(
    lw: Lockwork, other: Lockwork, ship: Ship, admin: redis.Redis
) -> None:
    keys = QueueKeys("lw", "mail")
    for key in (keys.jobs, keys.ready[1], keys.stats):
        grant = lw.queue("mail").lock("a", wait=5).acquire()
        admin.set(key, "x")
        with pytest.raises(ServerRefused):
            grant.release_and_enqueue(ship.call(1))
        admin.delete(key)
        until(lambda: not other.queue("mail").lock("a").locked(), "the engine gives it back")
    assert enqueued(lw) == 0


@pytest.mark.parametrize("phase", ["request", "reply", "late"])
def test_lost_call_is_applied_once(admin: redis.Redis, proxy: Proxy, other: Lockwork, phase: Phase) -> None:
    with Lockwork(proxy.url) as lw:

        @lw.task(queue="mail")
        def ship(order: int) -> None: ...

        grant = lw.queue("mail").lock("a").acquire()
        grant.release_and_enqueue(ship.options(delay="1h").call(0))  # loads the script
        grant = lw.queue("mail").lock("a").acquire()
        proxy.lose('"ship"', phase)
        job = grant.release_and_enqueue(ship.call(1))
        assert proxy.lost == 1
        if phase == "late":
            proxy.deliver_late()
        assert job.state() == "ready"
        assert enqueued(other) == 2
        assert not other.queue("mail").lock("a").locked()


async def test_cancelled_release_and_enqueue_is_atomic(alw: Lockwork, aother: Lockwork) -> None:
    @alw.task(queue="mail")
    def ship(order: int) -> None: ...

    lock = alw.queue("mail").lock("a")
    done = 0

    async def leave() -> None:
        await (await lock.aacquire()).arelease_and_enqueue(ship.call(1))

    async def clean(where: str) -> None:
        nonlocal done
        assert not await aother.queue("mail").lock("a").alocked(), where
        nothing_here(alw, where)
        status = await aother.queue("mail").astatus()
        assert status.enqueued in (done, done + 1), where
        done = status.enqueued

    sweep = await swept(leave, clean)
    assert sweep.finished
    assert done >= sweep.finished


async def test_async_release_and_enqueue(alw: Lockwork) -> None:
    @alw.task(queue="mail")
    async def ship(order: int) -> None: ...

    lock = alw.queue("mail").lock("a")
    async with lock as grant:
        with pytest.raises(Exception, match="the async version"):
            grant.release_and_enqueue(ship.call(1))
        job = await grant.arelease_and_enqueue(ship.call(1))
    assert await job.astate() == "ready"
    grants = await asyncio.gather(*(_pass(alw, ship) for _ in range(20)))
    assert len(set(grants)) == 20
    assert (await alw.queue("mail").astatus()).enqueued == 21


async def _pass(alw: Lockwork, ship: Task[[int], None, Coroutine[Any, Any, None]]) -> int:
    grant = await alw.queue("mail").lock("a").aacquire()
    await grant.arelease_and_enqueue(ship.call(1))
    return grant.fence
