"""A primary named by Sentinels: found at first use, and followed after it is killed, hangs or is demoted."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import redis.asyncio.sentinel
import redis.sentinel

from forking import in_a_child
from lockwork import ConfigError, Lockwork, ServerRefused, ServerUnavailable, ServerUnsuitable
from lockwork.runtime.endpoint import Endpoint
from lockwork.runtime.sentinel import Address, Sentinels
from ports import free_port
from processes import until, worker
from sentinels import NAME, Node, Watched, watched


@pytest.fixture(scope="module")
def still(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    """Servers that no test changes."""
    with watched(tmp_path_factory.mktemp("still")) as servers:
        yield servers


@pytest.fixture
def moving(tmp_path: Path) -> Iterator[Watched]:
    """Servers for one test only."""
    with watched(tmp_path / "servers") as servers:
        yield servers


def kill(primary: Node) -> None:
    primary.signal(signal.SIGKILL)


def hang(primary: Node) -> None:
    primary.signal(signal.SIGSTOP)


def demote(_: Node) -> None: ...


def fail_over(servers: Watched, fail: Callable[[Node], None]) -> Node:
    before = servers.primary()
    before.client.incr("written")
    until(lambda: before.client.wait(1, 100) == 1, "the replica has everything")
    fail(before)
    if fail is demote:
        servers.sentinels[0].client.execute_command("SENTINEL", "FAILOVER", NAME)
    return servers.elected(before)


def test_sync_and_async_locks_and_jobs(still: Watched) -> None:
    with Lockwork(still.url) as app:

        @app.task
        def send() -> None: ...

        with app.lock("x") as grant:
            assert grant.fence
        send.enqueue()

        async def other_world() -> None:
            async with app.lock("x"):
                await send.aenqueue()

        asyncio.run(other_world())
        assert app.queue().status().ready == 2
        assert repr(app) == f"<Lockwork on the primary 'shop' of the Sentinels at {still.hosts}>"
        assert app.runtime.found == f"the primary is at 127.0.0.1:{still.servers[0].port}"


def test_waiters_are_woken(still: Watched) -> None:
    with Lockwork(still.url) as holder, Lockwork(still.url) as other:
        grant = holder.lock("woken").acquire()
        waiting = threading.Thread(target=other.lock("woken").acquire)
        waiting.start()
        until(lambda: holder.lock("woken").inspect().waiters == 1, "it waits")
        grant.release()
        waiting.join(3)
        assert not waiting.is_alive()


def test_client_of_redis_py_uses_its_sentinels(still: Watched) -> None:
    hosts = [("127.0.0.1", each.port) for each in still.sentinels]
    manager: Any = redis.sentinel.Sentinel(hosts)  # type: ignore[no-untyped-call]
    other: Any = redis.asyncio.sentinel.Sentinel(hosts)  # type: ignore[no-untyped-call]
    clients = [manager.master_for(NAME), other.master_for(NAME)]
    for client in clients:
        with Lockwork(client=client) as app:
            app.lock("client").acquire()
            app.lock("client").release()
    with pytest.raises(ConfigError, match=r"client is one of a replica \(slave_for\): give one of the primary"):
        Lockwork(client=manager.slave_for(NAME))
    manager.close()


def test_forked_child_starts_its_own_sentinel_watch(still: Watched) -> None:
    with Lockwork(still.url) as app:
        app.lock("parent").acquire()

        def child() -> int:
            app.lock("child").acquire()
            watching = sum(thread.name == "lockwork-sentinel" for thread in threading.enumerate())
            app.close()
            return watching

        assert in_a_child(child) == "1"


def test_start_needs_a_quorum_of_sentinels(still: Watched) -> None:
    """A single Sentinel may be cut off together with an old primary."""
    dead = f"127.0.0.1:{free_port()}"
    with Lockwork(f"redis+sentinel://{dead},127.0.0.1:{still.sentinels[0].port},{dead}/{NAME}", patience=1) as app:
        with pytest.raises(ServerUnavailable, match="only 1 of the 3 Sentinels at .* answer, and 2 must agree"):
            app.lock("x").acquire()
    with Lockwork(f"redis+sentinel://127.0.0.1:{still.sentinels[0].port}/{NAME}") as app:
        assert app.lock("x").locked() is False, "a URL may name one of three"


def test_loss_of_the_quorum_is_logged_once(moving: Watched, caplog: pytest.LogCaptureFixture) -> None:
    with Lockwork(moving.url) as app:
        app.lock("one").acquire()
        for sentinel in moving.sentinels[1:]:
            sentinel.signal(signal.SIGKILL)
            sentinel.process.wait()
        for _ in range(2):
            asyncio.run(app.lock("one").ainspect())  # open a connection on this event loop
    assert caplog.text.count("only 1 of the 3 Sentinels at") == 1


@pytest.mark.parametrize(
    ("url", "error", "message"),
    [
        ("redis+sentinel://{hosts}/nope", ConfigError, "watch no primary named 'nope': they watch shop"),
        ("redis+sentinel://127.0.0.1:{server}/shop", ConfigError, "is no Sentinel .*: check the URL"),
        ("redis+sentinel://127.0.0.1:{free}/shop", ServerUnavailable, "none of the Sentinels at 127.0.0.1:.* answers"),
        ("redis://127.0.0.1:{sentinel}", ServerUnsuitable, r"is a Sentinel: give the URL redis\+sentinel://host:port/"),
    ],
)
def test_unusable_sentinel_address_is_one_clear_error(
    still: Watched, url: str, error: type[Exception], message: str
) -> None:
    ports = {"server": still.servers[0].port, "sentinel": still.sentinels[0].port, "free": free_port()}
    with Lockwork(url.format(hosts=still.hosts, **ports), patience=1) as app:
        with pytest.raises(error, match=message):
            app.lock("x").acquire()

        async def other_world() -> None:
            with pytest.raises(error, match=message):
                await app.lock("x").aacquire()
            await app.aclose()

        asyncio.run(other_world())


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("redis+sentinel://host:1", "names them and the primary that they watch"),
        ("redis+sentinel://a,,b/shop", "names them and the primary that they watch"),
        ("redis+sentinel:///shop", "names them and the primary that they watch"),
        (
            "redis+sentinel://host:1/shop/x",
            "the database in a URL of Sentinels, after the last slash, must be a number",
        ),
        ("redis+sentinel://host:x/shop", "is the port a number"),
        ("redis+sentinel://host/shop?sentinel_pasword=x", "has sentinel_username= and sentinel_password="),
        ("redis+sentinel://host/shop?nonsense=1", "an option that connections do not know: 'nonsense'"),
    ],
)
def test_malformed_sentinel_url_is_refused(url: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Lockwork(url)


def test_passwords_of_both(tmp_path: Path) -> None:
    with watched(tmp_path / "servers", replicas=0, sentinels=1) as servers:
        servers.servers[0].client.config_set("requirepass", "inner")
        (sentinel,) = servers.sentinels
        sentinel.client.execute_command("ACL", "SETUSER", "watcher", "on", ">outer", "+@all", "allchannels")
        sentinel.client.execute_command("ACL", "SETUSER", "default", "resetpass")
        place = f"127.0.0.1:{sentinel.port}/{NAME}/0"
        with Lockwork(f"redis+sentinel://:inner@{place}?sentinel_username=watcher&sentinel_password=outer") as app:
            app.lock("x").acquire()
            app.lock("x").release()
        with Lockwork(f"redis+sentinel://:inner@{place}", patience=1) as app:
            with pytest.raises(ServerRefused, match=r"the Sentinel at .* refuses .* \?sentinel_username="):
                app.lock("x").acquire()


@pytest.mark.parametrize("fail", [kill, hang, demote])
def test_calls_and_leases_follow_a_failover(moving: Watched, fail: Callable[[Node], None]) -> None:
    with Lockwork(moving.url, patience=20, lock_lease=10) as app:
        grant = app.lock("held").acquire()
        until(lambda: _deadline(moving.servers[1]) is not None, "the replica has the lock")
        after = fail_over(moving, fail)
        until(lambda: _found_at(app, after), "the app follows", 5)
        moved = _deadline(after)
        until(lambda: _deadline(after) != moved, "the lease is renewed there", 20)
        assert not grant.lost


async def test_tasks_on_a_loop_follow_a_hung_primary(moving: Watched) -> None:
    async with Lockwork(moving.url, patience=20) as app:
        await app.lock("before").aacquire()
        await asyncio.to_thread(fail_over, moving, hang)
        async with asyncio.timeout(5):
            await asyncio.gather(*(app.lock(f"y{number}").aacquire() for number in range(10)))


def test_sentinel_that_announces_an_election_is_asked_first(moving: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other Sentinels learn about the election later."""
    announcing = moving.sentinels[0].port
    ask = Sentinels._ask
    before: dict[int, Address | None] = {}

    def behind(self: Sentinels, sentinel: Endpoint) -> Address | None:
        port, address = sentinel.options["port"], ask(self, sentinel)
        return address if port == announcing else before.setdefault(port, address)

    monkeypatch.setattr(Sentinels, "_ask", behind)
    with Lockwork(moving.url) as app:
        app.lock("x").acquire()
        new = fail_over(moving, demote)
        until(lambda: _found_at(app, new), "the app follows", 5)


def test_app_leaves_a_primary_that_was_cut_off(moving: Watched) -> None:
    with Lockwork(moving.url) as app:
        app.lock("x").acquire()
        old = moving.primary()
        new = fail_over(moving, Node.cut_off)
        until(lambda: _found_at(app, new), "the app follows the Sentinels", 5)
        assert old.client.role()[0] == "master"


def test_worker_continues_at_the_new_primary(moving: Watched, apps: Path, tmp_path: Path) -> None:
    started, gate = tmp_path / "started", tmp_path / "gate"
    with (
        Lockwork(moving.url, patience=20) as app,
        worker("good:lw", "--lease", "5s", url=moving.url, folder=apps) as process,
    ):

        @app.task(retries=0)
        async def gated(started: str, gate: str) -> str: ...  # type: ignore[empty-body]

        job = gated.enqueue(str(started), str(gate))
        until(started.exists, "it runs")
        fail_over(moving, kill)
        gate.touch()
        assert job.result(30) == "done"
        assert gated.enqueue(str(started), str(gate)).result(30) == "done"
        status = app.queue().status()
        assert (status.succeeded, status.recovered, status.dead) == (2, 0, 0)
        assert process.process.poll() is None


def _found_at(app: Lockwork, node: Node) -> bool:
    """Return True if a write reaches the node. Until the Sentinels announce the election, the old primary gets it."""
    name = f"write:{uuid4()}"
    app.lock(name).acquire()
    return node.client.hget(f"lw:{{lock:{name}}}", "o") is not None


def _deadline(node: Node) -> object:
    return node.client.hget("lw:{lock:held}", "d")
