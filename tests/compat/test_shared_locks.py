"""Behavior of all locks in shared formats: lost calls, cancellation, a full server, and the cost of waiting."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import redis

from commandstats import script_calls
from indexed import keys_but_indexes
from lockwork import ConfigError, LockLost, LockTimeout, Lockwork, NotHeld, ServerRefused
from lockwork.compat.plain import PlainLock
from lockwork.compat.timestamp import TimestampLock
from lockwork.protocol.scripts import script
from lockwork.runtime.embedded import start_private
from processes import until
from proxy import Phase, Proxy

Kind = type[PlainLock] | type[TimestampLock]
PHASES: list[Phase] = ["request", "reply"]
KEY = "goods:100 {of the day}"


KINDS: list[Kind] = [PlainLock, TimestampLock]


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> Kind:
    chosen: Kind = request.param
    return chosen


@pytest.mark.parametrize("phase", PHASES)
def test_lost_calls(lw: Lockwork, kind: Kind, proxy: Proxy, phase: Phase) -> None:
    """The retry after a lost reply finds its own token, and a release is no loss by being sent again."""
    other = kind(lw, KEY)
    with Lockwork(proxy.url) as app:
        with kind(app, "warm"):
            pass
        proxy.lose(script(kind.scripts.acquire).sha, phase)
        with kind(app, KEY, wait=0) as grant:
            assert other.locked()
            assert other.try_acquire() is None
            proxy.lose(script(kind.scripts.renew).sha, phase)
            grant.extend(60)
            assert grant.remaining > 50
            proxy.lose(script(kind.scripts.release).sha, phase)
        assert proxy.lost == 3
        assert not other.locked()


def test_repeated_release_does_not_end_the_next_grant(lw: Lockwork, kind: Kind, proxy: Proxy) -> None:
    with Lockwork(proxy.url) as app, ThreadPoolExecutor(1) as pool:

        def turn() -> None:
            with kind(app, KEY):
                proxy.lose(script(kind.scripts.release).sha, "reply")
                proxy.refuse(True)

        with kind(app, "warm"):
            pass
        mine = pool.submit(turn)
        until(lambda: proxy.lost, "the reply was lost")
        with kind(lw, KEY, wait=0) as grant:
            proxy.refuse(False)
            mine.result(30)
            held = kind(lw, KEY).inspect()
            assert held.expires_in
            assert not grant.lost


async def test_cancelled_while_it_waits_or_takes(alw: Lockwork, kind: Kind, admin: redis.Redis) -> None:
    lock = kind(alw, KEY)
    async with kind(alw, "warm"):
        pass
    for pause in range(40):  # anywhere between the call's beginning and its end
        task = asyncio.create_task(lock.aacquire())
        for _ in range(pause):
            await asyncio.sleep(0)
        task.cancel()
        got = (await asyncio.gather(task, return_exceptions=True))[0]
        if not isinstance(got, BaseException):
            await got.arelease()
        assert not admin.exists(KEY), pause
    async with lock:
        waiting = asyncio.create_task(kind(alw, KEY).aacquire())
        await asyncio.sleep(0.05)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert await lock.alocked()
    assert not admin.exists(KEY)


def test_commands_sent_while_waiting(lw: Lockwork, kind: Kind, admin: redis.Redis) -> None:
    """At most about six calls to begin with and four a second from then on, for each that waits."""
    with kind(lw, KEY):
        before, began = script_calls(admin), time.monotonic()
        with pytest.raises(LockTimeout):
            _other_thread(lambda: kind(lw, KEY).acquire(wait=2))
        spent, calls = time.monotonic() - began, script_calls(admin) - before
        assert 5 <= calls <= 8 + spent / 0.18


def _other_thread(what: Callable[[], object]) -> None:
    with ThreadPoolExecutor(1) as pool:
        pool.submit(what).result(30)


def test_threads_take_turns(lw: Lockwork, kind: Kind) -> None:
    inside, most, turns = 0, 0, 0

    def turn() -> None:
        nonlocal inside, most, turns
        for _ in range(5):
            with kind(lw, KEY):
                inside += 1
                most = max(most, inside)
                turns += 1
                inside -= 1

    with ThreadPoolExecutor(6) as pool:
        for done in [pool.submit(turn) for _ in range(6)]:
            done.result(60)
    assert (most, turns) == (1, 30)


def test_shared_lock_is_reentrant_and_owned_by_its_thread(lw: Lockwork, kind: Kind) -> None:
    lock = kind(lw, KEY)
    with lock as one, lock as two:
        assert one is two
        assert lock.held()
        with pytest.raises(NotHeld):
            _other_thread(lock.release)
    assert not lock.held()
    assert not lock.locked()
    with pytest.raises(NotHeld):
        lock.release()


def test_everything_held_is_released_at_once(lw: Lockwork, kind: Kind, admin: redis.Redis) -> None:
    """A1's unlockAll."""
    for number in range(3):
        kind(lw, f"{KEY}:{number}").acquire()
    assert lw.release_all() == 3
    assert not keys_but_indexes(admin)


def test_holder_is_notified_when_key_is_deleted(admin: redis.Redis, url: str, kind: Kind) -> None:
    told = threading.Event()
    with Lockwork(url, lock_lease=0.9) as app:
        grant = kind(app, KEY, on_lost=lambda grant: told.set()).acquire()
        admin.delete(KEY)
        assert told.wait(30)
        with pytest.raises(LockLost):
            grant.release()


def test_full_server_still_renews_and_releases(kind: Kind, tmp_path: Path) -> None:
    with start_private(tmp_path / "full") as server, Lockwork(server.url) as app:
        with redis.Redis.from_url(server.url) as client, kind(app, KEY) as grant:
            client.config_set("maxmemory", 1)
            grant.extend(60)
            assert grant.remaining > 50
            with pytest.raises(ServerRefused, match="out of memory"):
                kind(app, "another").try_acquire()
        assert not kind(app, KEY).locked()


def test_key_of_another_type_is_refused(lw: Lockwork, kind: Kind, admin: redis.Redis) -> None:
    """A Redisson lock is a hash: sharing the key with one is a mistake that must be seen."""
    admin.hset(KEY, "uuid:1", 1)
    with pytest.raises(ServerRefused, match="shares its key with a hash"):
        kind(lw, KEY).acquire()
    assert admin.type(KEY) == b"hash"


@pytest.mark.parametrize("key", ["", "x" * 1001, None, 7, b"bytes", "\ud800"])
def test_bad_keys(lw: Lockwork, kind: Kind, key: object) -> None:
    with pytest.raises(ConfigError, match="key of a shared lock"):
        kind(lw, key)  # type: ignore[arg-type]


async def test_body_is_cancelled_when_the_key_is_deleted(url: str, admin: redis.Redis, kind: Kind) -> None:
    async with Lockwork(url, lock_lease=0.9) as app:
        with pytest.raises(LockLost):
            async with kind(app, KEY):
                admin.delete(KEY)
                await asyncio.sleep(30)
