"""rediss:// with a private authority and client certificates: each connection, and a clear error for each fault."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from app_modules import Load
from lockwork import Lockwork, LockworkError, ServerRefused, ServerUnavailable
from processes import until, worker
from tls_servers import Certificates, TLSServer, program, tls_server

pytestmark = pytest.mark.skipif(
    program() is None, reason="no server with TLS is installed; on Debian: apt-get install redis-server"
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TLSServer]:
    """A server that requires client certificates."""
    folder = tmp_path_factory.mktemp("tls")
    with tls_server(folder, Certificates.made(folder / "good")) as started:
        yield started


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """Certificates of another authority."""
    return Certificates.made(tmp_path_factory.mktemp("stranger") / "other")


def test_lock_is_granted_by_message_over_tls(server: TLSServer) -> None:
    """Covers the blocking connection, the engine's connection, and its subscription."""
    with Lockwork(server.url(), lock_lease=6) as app, Lockwork(server.url()) as other:
        grant = app.lock("x").acquire()
        granted = threading.Event()

        def wait() -> None:
            with other.lock("x", wait=60):
                granted.set()

        waiting = threading.Thread(target=wait)
        waiting.start()
        until(lambda: app.lock("x").inspect().waiters, "a caller waits")
        before = grant.remaining
        until(lambda: grant.remaining > before, "the engine renews it")
        with redis.Redis.from_url(server.plain_url) as client:
            until(lambda: client.pubsub_channels("lw:wake:*"), "the engine is subscribed")
        grant.release()
        assert granted.wait(30)
        waiting.join()


async def test_async_lock_waits_over_tls(server: TLSServer) -> None:
    async with Lockwork(server.url()) as app, Lockwork(server.url()) as other:
        async with app.lock("y"):
            waiting = asyncio.create_task(other.lock("y", wait=60).aacquire())
            while not (await app.lock("y").ainspect()).waiters:
                await asyncio.sleep(0)
        await (await waiting).arelease()


def test_worker_runs_jobs_over_tls(server: TLSServer, apps: Path, load: Load) -> None:
    shop: Any = load(server.url(), "shop")
    with shop.lw, worker("shop:lw", "--lease", "5", url=server.url(), folder=apps):
        assert shop.add.enqueue(1, 2).result(60) == 3
        assert [job.result(60) for job in shop.add.enqueue_many([(1, 1), (2, 2)])] == [2, 4]


def test_client_lends_its_tls_settings(server: TLSServer) -> None:
    with redis.Redis.from_url(server.url()) as client, Lockwork(client=client) as app, app.lock("z"):
        pass


def fails(url: str, kind: type[LockworkError], *texts: str) -> None:
    """Check that every kind of connection raises this error with these texts."""

    def blocking() -> None:
        with Lockwork(url, patience=0) as app:
            app.lock("x").acquire()

    async def main() -> None:
        async with Lockwork(url, patience=0) as app:
            await app.lock("x").aacquire()

    ways: list[Callable[[], None]] = [blocking, lambda: asyncio.run(main())]
    for way in ways:
        with pytest.raises(kind) as caught:
            way()
        for text in texts:
            assert text in str(caught.value)


def test_server_of_unknown_authority_is_refused(server: TLSServer, stranger: Certificates) -> None:
    for authority in (None, stranger.authority):
        fails(server.url(ssl_ca_certs=authority), ServerRefused, "not signed by an authority that we trust",
              "ssl_ca_certs=")  # fmt: skip


def test_certificate_of_another_host(server: TLSServer, tmp_path: Path) -> None:
    fails(
        server.url(host="127.0.0.1"),
        ServerRefused,
        "is for another host",
        "127.0.0.1",
        "use the certificate's host name",
    )
    with tls_server(tmp_path, Certificates.made(tmp_path / "wrong", "elsewhere.example")) as wrong:
        fails(wrong.url(), ServerRefused, "is for another host", "use the certificate's host name")


def test_expired_server_certificate_is_refused(tmp_path: Path) -> None:
    with tls_server(tmp_path, Certificates.made(tmp_path / "old", expired=True)) as expired:
        fails(expired.url(), ServerRefused, "certificate has expired", "renew it")


def test_client_certificate_of_another_authority(server: TLSServer, stranger: Certificates) -> None:
    url = server.url(ssl_certfile=stranger.client, ssl_keyfile=stranger.client)
    fails(url, LockworkError, "ssl_certfile=", "ssl_keyfile=")


def test_client_without_a_certificate(server: TLSServer, tmp_path: Path) -> None:
    """The server closes the connection, perhaps before we read its error; without client=True it accepts us."""
    fails(server.url(ssl_certfile=None, ssl_keyfile=None), LockworkError, "ssl_certfile=", "ssl_keyfile=")
    with tls_server(tmp_path, server.certificates, client=False) as open_to_all:
        with Lockwork(open_to_all.url(ssl_certfile=None, ssl_keyfile=None)) as app, app.lock("x"):
            pass


def test_plain_client_at_the_port_for_tls(server: TLSServer) -> None:
    fails(f"redis://127.0.0.1:{server.port}/0", ServerUnavailable, "is this not its port for TLS (rediss://)")


def test_tls_client_at_the_plain_port(server: TLSServer) -> None:
    fails(server.url(port=server.plain), ServerUnavailable, "does it speak TLS there")


def test_certificate_files_that_are_missing(server: TLSServer) -> None:
    fails(server.url(ssl_ca_certs="/nonexistent"), ServerRefused, "No such file", "check ssl_ca_certs=")


def test_worker_reports_the_tls_error_and_exits(server: TLSServer, apps: Path) -> None:
    with worker("shop:lw", url=server.url(ssl_ca_certs=None), folder=apps) as started:
        assert started.wait(60) == 1
        said = [line for line in started.errors.splitlines() if "not signed by an authority" in line]
        assert len(said) == 1
        assert "Traceback" not in started.errors


def test_engine_connects_again_once_the_certificate_is_right(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Existing connections continue; new connections are refused until the server's certificate is valid."""
    old = Certificates.made(tmp_path / "good")
    with tls_server(tmp_path, old) as server, redis.Redis.from_url(server.plain_url) as admin:
        with Lockwork(server.url(), lock_lease="60s") as app:
            app.runtime.engine.listen()
            until(lambda: admin.pubsub_channels("lw:wake:*"), "the engine is subscribed")
            wrong = Certificates.made(tmp_path / "wrong", "elsewhere.example").server
            admin.config_set("tls-cert-file", str(wrong), "tls-key-file", str(wrong))
            admin.client_kill_filter(_type="pubsub")
            until(lambda: "no wake-ups arrive" in caplog.text, "it says so")
            admin.config_set("tls-cert-file", str(old.server), "tls-key-file", str(old.server))
            until(lambda: admin.pubsub_channels("lw:wake:*"), "the engine is subscribed again")
            with app.lock("x"):
                pass
