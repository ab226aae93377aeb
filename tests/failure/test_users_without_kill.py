"""Users that may not run CLIENT KILL, CLIENT ID or INFO: they cannot stop a late call, so it must have no effect."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from itertools import count

import pytest
import redis

from lockwork import Lockwork
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queue import leases
from lockwork.protocol.queue.leases import Outcome
from lockwork.runtime import endpoint
from lockwork.runtime.embedded import Embedded
from proxy import Proxy, proxied

_KEYS = QueueKeys("lw", "default")
_WORKER = "host/1/a"
_WINDOW_MS = 600_000
# Redis 6.2 supports rules for subcommands only in the form +command|subcommand
_REQUESTS = count()
RULES = ["-client +client|id", "-client", "-info"]


def set_user(client: redis.Redis, name: str, *rules: str) -> None:
    """Create a user with all keys and channels, and these commands."""
    words = ("ACL", "SETUSER", name, "on", ">secret", "~*", "&*", *rules)
    client.execute_command(*words)  # type: ignore[no-untyped-call]


@pytest.fixture
def proxy(spoiled: Embedded) -> Iterator[Proxy]:
    with proxied(spoiled.url) as made:
        yield made


@pytest.fixture(autouse=True)
def nothing_said_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint, "_warned", set())


@pytest.fixture(params=RULES)
def limited(request: pytest.FixtureRequest, proxy: Proxy, spoil: redis.Redis) -> str:
    """Return the URL, through the proxy, of a user without some of the commands."""
    set_user(spoil, "limited", "+@all", *request.param.split())
    return proxy.url.replace("://", "://limited:secret@", 1)


@pytest.fixture
def app(spoiled: Embedded) -> Iterator[Lockwork]:
    """An app of a user with all rights."""
    with Lockwork(spoiled.url) as made:
        yield made


def run_all(app: Lockwork) -> list[str]:
    """Run all ready jobs like a worker; return their ids."""
    app.runtime.run(leases.beat(_KEYS, {_WORKER: True}, 600_000, 1.0))
    leased = app.runtime.run(leases.reserve(_KEYS, _WORKER, 100, f"r{next(_REQUESTS)}", "")).jobs
    outcomes = [Outcome(job.id, job.token, "s", b"null") for job in leased]
    assert all(app.runtime.run(leases.settle(_KEYS, _WORKER, outcomes, _WINDOW_MS)))
    return [job.id for job in leased]


WAYS = ["one", "many", "until", "unique"]


def ways(app: Lockwork) -> dict[str, tuple[Callable[[], object], Callable[[], Awaitable[object]]]]:
    @app.task
    def work(n: int) -> None: ...

    @app.task(unique=True)
    def alone(n: int) -> None: ...

    soon = work.options(expires="10m")
    return {
        "one": (lambda: work.enqueue(1), lambda: work.aenqueue(1)),
        "many": (lambda: work.enqueue_many([(1,), (2,)]), lambda: work.aenqueue_many([(1,), (2,)])),
        "until": (lambda: soon.enqueue(1), lambda: soon.aenqueue(1)),
        "unique": (lambda: alone.enqueue(1), lambda: alone.aenqueue(1)),
    }


@pytest.mark.parametrize("way", WAYS)
def test_late_enqueue_of_a_job_that_has_ended(limited: str, proxy: Proxy, app: Lockwork, way: str) -> None:
    with Lockwork(limited) as late:
        enqueue = ways(late)[way][0]
        enqueue()  # the server has the scripts
        ran = len(run_all(app))
        proxy.lose('["', "late")
        enqueue()
        assert proxy.lost == 1
        assert len(run_all(app)) == ran
        proxy.deliver_late()
        assert run_all(app) == []


@pytest.mark.parametrize("way", WAYS)
async def test_late_enqueue_in_asyncio(limited: str, proxy: Proxy, app: Lockwork, way: str) -> None:
    async with Lockwork(limited) as late:
        enqueue = ways(late)[way][1]
        await enqueue()
        ran = len(await asyncio.to_thread(run_all, app))
        proxy.lose('["', "late")
        await enqueue()
        assert proxy.lost == 1
        assert len(await asyncio.to_thread(run_all, app)) == ran
        await asyncio.to_thread(proxy.deliver_late)
        assert await asyncio.to_thread(run_all, app) == []


def test_warning_names_the_acl_rule(limited: str, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(2):
        with Lockwork(limited) as app, app.lock("x"):
            app.queue().status()
    (warning,) = [text for text in caplog.messages if "this user may not run" in text]
    assert "INFO" in warning or "CLIENT KILL" in warning
    assert "+info +client|id +client|kill" in warning
    assert "secret" not in warning


def test_user_with_these_rights_gets_no_warning(
    proxy: Proxy, spoil: redis.Redis, caplog: pytest.LogCaptureFixture
) -> None:
    rules = ["-@all", "+@read", "+@write", "+@scripting", "+@pubsub", "+time", "+info", "+client|id", "+client|kill"]
    set_user(spoil, "granted", *rules)
    with Lockwork(proxy.url.replace("://", "://granted:secret@", 1)) as app, app.lock("x"):
        app.queue().status()
    assert not caplog.messages


def test_looking_for_the_right_ends_no_connection(spoil: redis.Redis, spoiled: Embedded) -> None:
    before = spoil.client_id()
    with Lockwork(spoiled.url) as app, app.lock("x"):
        assert spoil.client_id() == before
