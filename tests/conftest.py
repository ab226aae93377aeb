"""A real server for the whole run, and the rule that no test leaves anything behind on it or in this process."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import redis

from lockwork import Lockwork
from lockwork.runtime.embedded import Embedded, start_private
from lockwork.runtime.embedded import server as embedded_server
from proxy import Proxy, proxied

_PASSING = ("lock", "sem", "rw", "quorum", "latch", "barrier", "limiter", "once")
"""Kinds of keys that nobody deletes, and that must go by themselves."""


def pytest_configure() -> None:
    """LOCKWORK_TEST_SERVER names another server program to test against, such as /usr/bin/redis-server."""
    # a shell's background job ignores Ctrl-C, nohup a hang-up, and so would the programs that the tests interrupt
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)
    given = os.environ.get("LOCKWORK_TEST_SERVER")
    if given:
        pytest.MonkeyPatch().setattr(embedded_server, "program", lambda: Path(given))


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Embedded]:
    """A Valkey server of this run's own."""
    with start_private(tmp_path_factory.mktemp("server")) as started:
        yield started


@pytest.fixture(scope="session")
def url(server: Embedded) -> str:
    return server.url


@pytest.fixture
def admin(url: str) -> Iterator[redis.Redis]:
    """A plain client, to look at the server from outside; the database is empty before and after each test."""
    with redis.Redis.from_url(url) as client:
        client.flushall()
        yield client
        client.flushall()


@pytest.fixture
def lw(url: str, admin: redis.Redis) -> Iterator[Lockwork]:
    """An app on the run's server, for synchronous tests."""
    with Lockwork(url) as app:
        yield app


@pytest.fixture
async def alw(url: str, admin: redis.Redis) -> AsyncIterator[Lockwork]:
    """An app on the run's server, for asyncio tests."""
    async with Lockwork(url) as app:
        yield app


@pytest.fixture
def other(url: str, admin: redis.Redis) -> Iterator[Lockwork]:
    """Another app on it, as another process would be."""
    with Lockwork(url) as app:
        yield app


@pytest.fixture
async def aother(url: str, admin: redis.Redis) -> AsyncIterator[Lockwork]:
    """The same for asyncio tests."""
    async with Lockwork(url) as app:
        yield app


@pytest.fixture
def proxy(url: str) -> Iterator[Proxy]:
    """A proxy before it, which can lose requests and replies."""
    with proxied(url) as made:
        yield made


@pytest.fixture(autouse=True)
def nothing_left_behind(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test that leaves threads, sockets, or keys which nobody would ever collect."""
    threads = set(threading.enumerate())
    sockets = _sockets()
    uses_server = {"lw", "alw", "admin"} & set(request.fixturenames)
    client = request.getfixturevalue("admin") if uses_server else None
    yield
    for thread in set(threading.enumerate()) - threads:
        thread.join(5)  # a thread that was told to end may need a moment; one that was not is a leak
    left = [thread.name for thread in threading.enumerate() if thread not in threads and not _pooled(thread)]
    assert not left, f"threads left behind: {left}"
    gc.collect()
    assert len(_sockets()) <= len(sockets) + (1 if client else 0), f"sockets left behind: {_sockets() - sockets}"
    if client is not None:
        _check_keys(client)


def _check_keys(client: redis.Redis) -> None:
    for key in client.scan_iter(match="*", count=1000):
        name = key.decode()
        if any(f"{{{kind}:" in name for kind in _PASSING):
            assert client.ttl(key) > 0, f"a key without an expiry: {name}"
        assert ":run:" not in name, f"jobs still leased: {name} {client.hgetall(key)}"


def _pooled(thread: threading.Thread) -> bool:
    return thread.name.startswith(("ThreadPoolExecutor", "asyncio_"))


def _sockets() -> set[str]:
    found = set()
    for entry in Path("/proc/self/fd").iterdir() if Path("/proc/self/fd").exists() else ():
        with contextlib.suppress(OSError):
            target = str(entry.readlink())
            if target.startswith("socket:"):
                found.add(target)
    return found
