"""Unusable servers: each causes one clear error, in threads and asyncio tasks, and no partial effect."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import redis

from fake_server import VERSION, confused_server, old_server
from indexed import keys_but_indexes
from lockwork import Lockwork, ServerRefused, ServerUnavailable, ServerUnsuitable
from lockwork.runtime.embedded import Embedded, start_private
from ports import free_port
from processes import until

SECRET = "s3cr3t"


def every_way(app: Lockwork) -> list[Callable[[], object]]:
    @app.task
    def work() -> None: ...

    return [
        app.lock("x").acquire,
        app.lock("x").try_acquire,
        app.lock("x").inspect,
        work.enqueue,
        lambda: work.enqueue_many([()] * 3),
        app.stock("phone", 5).inspect,
        lambda: app.stock("phone", 5).reserve("bob", enqueue=work.call()),
        app.queue().status,
        lambda: app.job("id").result(0.1),
    ]


def refused(app: Lockwork, kind: type[Exception]) -> set[str]:
    """Check that every call raises this error, in a thread and in a task; return the messages."""
    texts = set()
    for call in every_way(app):
        with pytest.raises(kind) as caught:
            call()
        texts.add(str(caught.value))

    async def main() -> None:
        for coroutine in (app.lock("x").aacquire, app.queue().astatus, app.stock("phone", 5).ainspect):
            with pytest.raises(kind) as caught:
                await coroutine()
            texts.add(str(caught.value))
        await app.aclose()

    asyncio.run(main())
    return texts


def test_missing_server_is_one_clear_error() -> None:
    port = free_port()
    with Lockwork(f"redis://user:{SECRET}@127.0.0.1:{port}/3", patience=0.05) as app:
        for text in refused(app, ServerUnavailable):
            assert "gave up after 0." in text
            assert f"no server answers at redis://127.0.0.1:{port}/3: " in text
            assert SECRET not in text


def test_missing_socket_is_one_clear_error(tmp_path: Path) -> None:
    with Lockwork(f"unix://{tmp_path}/none.sock", patience=0) as app:
        for text in refused(app, ServerUnavailable):
            assert f"no server answers at unix://{tmp_path}/none.sock: No such file or directory. Is it running" in text


def test_unresolvable_name_is_one_clear_error() -> None:
    with Lockwork("redis://nowhere.invalid:6379", patience=0) as app:
        with pytest.raises(ServerUnavailable, match=r"redis://nowhere\.invalid:6379/0"):
            app.lock("x").acquire()


def test_waiter_survives_without_subscription() -> None:
    with Lockwork(f"redis://127.0.0.1:{free_port()}") as app:
        for call in (app.lock("x", wait=0.2).acquire, lambda: app.job("id").result(0.2)):
            began = time.monotonic()
            with pytest.raises(ServerUnavailable):
                call()
            assert time.monotonic() - began < 5


def test_foreign_program_on_the_port_is_one_clear_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        other.settimeout(10)
        port = other.getsockname()[1]
        with Lockwork(f"redis://127.0.0.1:{port}", patience=0) as app:

            async def main() -> None:
                async def greet() -> None:
                    connection, _ = await asyncio.to_thread(other.accept)
                    with connection:
                        connection.sendall(b"SSH-2.0-OpenSSH_9.6\r\n")
                        await asyncio.to_thread(connection.recv, 4096)

                task = asyncio.create_task(greet())
                with pytest.raises((ServerUnavailable, ServerRefused), match=f"127.0.0.1:{port}"):
                    await app.lock("x").aacquire()
                await task
                await app.aclose()

            asyncio.run(main())


def test_wrong_password_is_one_clear_error(spoiled: Embedded, spoil: redis.Redis) -> None:
    spoil.config_set("requirepass", SECRET)
    path = spoiled.url.removeprefix("unix://")
    for url in (spoiled.url, f"unix://:wr0ng@{path}"):
        with Lockwork(url, patience=0) as app:
            for text in refused(app, ServerRefused):
                assert "password" in text or "NOAUTH" in text
                assert "wr0ng" not in text
    with Lockwork(f"unix://:{SECRET}@{path}") as app, app.lock("x"):
        pass
    assert not [key for key in keys_but_indexes(spoil) if b"lock:x" not in key]


def test_missing_password_error_names_the_fix(spoiled: Embedded, spoil: redis.Redis) -> None:
    spoil.config_set("requirepass", SECRET)
    with Lockwork(spoiled.url, patience=0) as app, pytest.raises(ServerRefused, match="password.*check the URL"):
        app.lock("x").acquire()


def test_user_without_rights_is_refused(spoiled: Embedded, spoil: redis.Redis) -> None:
    spoil.execute_command("ACL", "SETUSER", "reader", "on", f">{SECRET}", "~*", "&*", "+@read", "+info", "+ping")  # type: ignore[no-untyped-call]
    path = spoiled.url.removeprefix("unix://")
    with Lockwork(f"unix://reader:{SECRET}@{path}", patience=0) as app:
        for text in refused(app, ServerRefused):
            assert "does not let this user do that" in text
            assert SECRET not in text
    assert keys_but_indexes(spoil) == []


def test_too_old() -> None:
    with old_server() as (url, asked), Lockwork(url, patience=0) as app:
        for text in refused(app, ServerUnsuitable):
            assert f"the server at {url} is version {VERSION}: use Redis 6.2 or later, or Valkey" in text
        assert not {b"EVAL", b"EVALSHA"} & set(asked)


async def test_nonsense_reply_is_one_clear_error() -> None:
    """asyncio callers got the parser's error instead of ServerUnavailable."""
    with confused_server() as (url, asked), Lockwork(url, patience="0.2s") as app:
        for attempt in (app.lock("x").aacquire(), asyncio.to_thread(app.lock("x").acquire)):
            with pytest.raises(ServerUnavailable, match=rf"{url}.* Protocol error.* Is it running"):
                await attempt
        assert not {b"EVAL", b"EVALSHA"} & set(asked)
        await app.aclose()


def test_read_only_replica_is_refused(spoiled: Embedded, spoil: redis.Redis, tmp_path: Path) -> None:
    port = free_port()
    with start_private(tmp_path / "primary") as primary, redis.Redis.from_url(primary.url) as admin:
        admin.config_set("repl-diskless-sync-delay", 0)
        admin.config_set("port", port)
        spoil.replicaof("127.0.0.1", str(port))
        until(lambda: spoil.info("replication")["master_link_status"] == "up", "it follows")
        with Lockwork(spoiled.url, patience=0) as app:
            for text in refused(app, ServerUnsuitable):
                assert f"{spoiled.url} is a read-only replica: connect to its primary" in text
        assert keys_but_indexes(spoil) == []


@pytest.mark.parametrize("policy", ["allkeys-lru", "volatile-ttl"])
def test_eviction_policy_that_may_delete_keys_is_refused(spoiled: Embedded, spoil: redis.Redis, policy: str) -> None:
    spoil.config_set("maxmemory-policy", policy)
    with Lockwork(spoiled.url) as app:
        for text in refused(app, ServerUnsuitable):
            assert f"may evict locks and jobs (maxmemory-policy {policy}): set it to noeviction" in text
            assert "allow_eviction=True" in text
    assert keys_but_indexes(spoil) == []
    with Lockwork(spoiled.url, allow_eviction=True) as app, app.lock("x"):
        pass


def test_out_of_memory(spoiled: Embedded, spoil: redis.Redis) -> None:
    """The server refuses acquire and enqueue; holders can still release."""
    with Lockwork(spoiled.url) as app:

        @app.task
        def work() -> None: ...

        lock, phones = app.lock("x"), app.stock("phone", 5)
        lock.acquire()
        held = phones.reserve("bob")
        work.enqueue()
        spoil.config_set("maxmemory", 1)
        before = keys_but_indexes(spoil)
        calls: tuple[Callable[[], Any], ...] = (
            app.lock("y").acquire,
            work.enqueue,
            lambda: phones.reserve("eve", enqueue=work.call()),
        )
        for call in calls:
            with pytest.raises(ServerRefused, match="is out of memory and refuses writes: raise maxmemory"):
                call()
        assert keys_but_indexes(spoil) == before
        lock.release()
        phones.release(held)
        spoil.config_set("maxmemory", 0)
        assert lock.inspect().owner is None
        assert phones.inspect().available == 5
        work.enqueue()
