"""A real server for the whole run, and a check that each test leaves nothing behind there and in this process."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import sys
import threading
import weakref
from collections.abc import AsyncIterator, Callable, Iterator
from itertools import count
from pathlib import Path

import pytest
import redis
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants

import bytecode
import conformance
import ordering
import zygote
from app_modules import Load, load_app
from clients import client_of
from clusters import clustered
from history import History
from leftovers import check_keys, open_sockets, own_threads
from lockwork import Lockwork
from lockwork.app import lockwork as lockwork_module
from lockwork.runtime.embedded import Embedded, start_private
from lockwork.runtime.embedded import folder as embedded_folder
from lockwork.runtime.embedded import server as embedded_server
from processes import Started, worker
from proxy import Proxy, proxied
from roles import as_role
from sentinels import watched
from simulator.server import Server

pytest_plugins = ["mutants"]

DONT_WRITE_BYTECODE = sys.dont_write_bytecode
"""True if modules that tests import are not written as bytecode."""
sys.dont_write_bytecode = False  # but pytest writes the test modules, so that it need not rewrite them in each run

# the same examples in every run, and no example fails because the machine was busy with something else
settings.register_profile(
    "lockwork", deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("lockwork")
# Hypothesis would draw some values from constants in loaded modules, so that examples depend on the loaded modules
providers._get_local_constants = Constants

TOPOLOGY = os.environ.get("LOCKWORK_TEST_TOPOLOGY", "single")
RESP = os.environ.get("LOCKWORK_TEST_RESP", "2")
SILENCE = 15_000
"""Milliseconds. No server of the conformance suite fails, but on a busy machine a server may be silent for seconds."""
APPS = str(Path(__file__).parent / "apps")
"""Modules that apps of several folders import."""
TESTS = count(1)
"""Number of tests so far; each 200th also collects garbage among the objects that are exempt."""
CLIENT_SOCKETS = {"single": 1, "sentinel": 3, "cluster": 4}


def pytest_configure(config: pytest.Config) -> None:
    """Configure the run. LOCKWORK_TEST_SERVER names another server program to test, such as /usr/bin/redis-server."""
    # a shell's background job ignores SIGINT, and nohup ignores SIGHUP: interrupted programs would inherit that
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)
    zygote.remember_version_of_redis()
    gc.disable()  # until all tests are collected: nearly all that collecting makes stays
    sys.path.append(APPS)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (os.environ.get("PYTHONPATH"), APPS)))  # for workers
    given = os.environ.get("LOCKWORK_TEST_SERVER")
    if given:
        for module in (embedded_server, embedded_folder):  # the embedded server, and the nodes of topologies
            pytest.MonkeyPatch().setattr(module, "program", lambda: Path(given))
    if not hasattr(config, "workerinput"):  # once per run, not in each xdist worker
        bytecode.write(config)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Import only the modules of the conformance suite, or of its core, if the run selects no other tests."""
    return conformance.skips(collection_path, config.option.markexpr, TOPOLOGY) or None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Select the tests of the topology, and let the long ones begin first."""
    conformance.select(config, items, TOPOLOGY)
    items[:] = ordering.long_first(items, getattr(config, "workerinput", {}).get("workercount", 1))


def pytest_collection_finish() -> None:
    """Exempt all present objects from garbage collection, because they stay for the whole run."""
    sys.dont_write_bytecode = DONT_WRITE_BYTECODE
    gc.enable()
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Embedded]:
    """A private Valkey server for this run."""
    with start_private(tmp_path_factory.mktemp("server")) as started:
        yield started


@pytest.fixture(scope="session", autouse=True)
def forked_workers() -> None:
    """Start workers of this run as copies of one process."""
    zygote.start()


@pytest.fixture(scope="session")
def url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The run's server, or what LOCKWORK_TEST_TOPOLOGY names: cluster or sentinel."""
    if TOPOLOGY == "cluster":
        with clustered(tmp_path_factory.mktemp("cluster"), silence=SILENCE) as nodes:
            yield nodes.url
    elif TOPOLOGY == "sentinel":
        with watched(tmp_path_factory.mktemp("sentinel"), silence=SILENCE) as servers:
            yield servers.url
    else:
        yield request.getfixturevalue("server").url


@pytest.fixture(scope="session")
def app_url(url: str) -> str:
    """URL for the apps under test; with LOCKWORK_TEST_ROLES it names a user with limited rights."""
    return as_role(url)


def app_at(url: str) -> Lockwork:
    """Make an app. With LOCKWORK_TEST_RESP=3 its client speaks RESP3."""
    return Lockwork(url) if RESP == "2" else Lockwork(client=client_of(url, protocol=int(RESP)))


@pytest.fixture
def admin(url: str) -> Iterator[redis.Redis]:
    """A redis-py client that inspects the server. The database is empty before and after each test."""
    with client_of(url) as client:
        client.flushall()
        yield client
        client.flushall()


@pytest.fixture
def lw(app_url: str, admin: redis.Redis) -> Iterator[Lockwork]:
    """An app on the run's server, for synchronous tests."""
    with app_at(app_url) as app:
        yield app


@pytest.fixture
async def alw(app_url: str, admin: redis.Redis) -> AsyncIterator[Lockwork]:
    """An app on the run's server, for asyncio tests."""
    async with app_at(app_url) as app:
        yield app


@pytest.fixture
def other(app_url: str, admin: redis.Redis) -> Iterator[Lockwork]:
    """A second app on the run's server, like another process."""
    with app_at(app_url) as app:
        yield app


@pytest.fixture
async def aother(app_url: str, admin: redis.Redis) -> AsyncIterator[Lockwork]:
    """A second app on the run's server, for asyncio tests."""
    async with app_at(app_url) as app:
        yield app


@pytest.fixture
def proxy(url: str) -> Iterator[Proxy]:
    """A proxy in front of the server that can lose requests and replies."""
    with proxied(url) as made:
        yield made


@pytest.fixture
def simulated(url: str) -> Iterator[Server]:
    """The server with the simulator's virtual time. Each test has its own connection, as a time-out may break it."""
    server = Server(url)
    yield server
    server.close()


@pytest.fixture(scope="module")
def apps(request: pytest.FixtureRequest) -> Path:
    """The folder with the app modules of the tests in this folder."""
    return Path(request.path.parent / "apps")


@pytest.fixture(scope="module")
def load(apps: Path) -> Load:
    """Load a fresh copy of an app module, bound to the server at `url`."""
    return lambda url, name: load_app(apps, name, url)


@pytest.fixture(scope="session")
def at_work(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[Path, str], str]]:
    """The URL of an app's own server, never emptied, where a worker is at work for all tests that do it no harm."""
    urls: dict[str, str] = {}
    with contextlib.ExitStack() as stack:

        def url_of(apps: Path, name: str) -> str:
            if name not in urls:
                url = as_role(stack.enter_context(start_private(tmp_path_factory.mktemp(name))).url)
                stack.enter_context(worker(f"{name}:lw", "--lease", "5", "--concurrency", "20", url=url, folder=apps))
                urls[name] = url
            return urls[name]

        yield url_of


@pytest.fixture
def own_url(url: str) -> Iterator[str]:
    """A database of the run's server for a test whose workers or apps are its own, and may leave it in any state."""
    own = f"{url}?db=1" if TOPOLOGY == "single" else url
    with client_of(own) as client:
        client.flushdb()
        yield own
        client.flushdb()


@pytest.fixture
def only_its_apps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide the apps of other tests from a test that runs all jobs and schedules of the process."""
    monkeypatch.setattr(lockwork_module, "_apps", weakref.WeakSet())


@pytest.fixture
def history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> History:
    """A log of jobs, at the path in the environment variable HISTORY, which apps read in their processes."""
    found = History(tmp_path / "history")
    monkeypatch.setenv("HISTORY", found.path)
    return found


@pytest.fixture
def work(own_url: str, apps: Path, history: History) -> Callable[..., contextlib.AbstractContextManager[Started]]:
    """Starts a worker of an app on the test's own database, for the length of a `with` block."""

    def start(app: str, *options: str) -> contextlib.AbstractContextManager[Started]:
        return worker(app if ":" in app else f"{app}:lw", "--lease", "5", *options, url=own_url, folder=apps)

    return start


@pytest.fixture(autouse=True)
def nothing_left_behind(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test that leaves threads, sockets, or keys without an expiry or owner."""
    threads = set(threading.enumerate())
    sockets = open_sockets()
    uses_server = {"lw", "alw", "admin"} & set(request.fixturenames)
    client = request.getfixturevalue("admin") if uses_server else None
    yield
    for thread in set(threading.enumerate()) - threads:
        thread.join(5)  # a thread that is ending may need a moment; a thread that is not is a leak
    left = [thread.name for thread in own_threads() if thread not in threads]
    assert not left, f"threads left behind: {left}"
    if next(TESTS) % 200 == 0:
        gc.unfreeze()
    gc.collect()
    gc.freeze()  # the next test need not visit what this one leaves alive: modules, caches, reports
    most = len(sockets) + (CLIENT_SOCKETS[TOPOLOGY] if client else 0)
    assert len(open_sockets()) <= most, f"sockets left: {open_sockets() - sockets}"
    if client is not None:
        check_keys(client)
