"""Errors and nonsense on the subscription's connection: the engine continues to renew."""

from __future__ import annotations

import asyncio
import contextlib
import socketserver
import threading
from collections.abc import AsyncIterator, Iterator

import pytest
import redis

from cancelling import auntil
from lockwork import Lockwork
from lockwork.runtime import async_pubsub, pubsub, wakeups
from lockwork.runtime.clock import now
from lockwork.runtime.embedded import Embedded
from lockwork.runtime.endpoint import Endpoint
from lockwork.runtime.engine import Engine
from lockwork.runtime.lock_counts import LockCounts
from lockwork.runtime.name_index import NameIndex
from lockwork.runtime.sticky_cache import StickyCache
from lockwork.runtime.wakeups import Mailboxes
from passwords import Passwords
from processes import until
from proxy import Proxy

_CHANNEL = "lw:wake:here"
_SUBSCRIBED = b"*3\r\n$9\r\nsubscribe\r\n$12\r\nlw:wake:here\r\n:1\r\n"
_MESSAGE = b"*3\r\n$7\r\nmessage\r\n$12\r\nlw:wake:here\r\n$%d\r\n%b\r\n"
_NEWS = _MESSAGE % (11, b"ticket news")
_LOADING = b"-LOADING Redis is loading the dataset in memory\r\n"


class _Handler(socketserver.StreamRequestHandler):
    """Reply to SUBSCRIBE and PING with the next item of the script, and to other commands with OK."""

    def handle(self) -> None:
        script: list[bytes] = self.server.script  # type: ignore[attr-defined]
        with contextlib.suppress(OSError, ValueError):
            while header := self.rfile.readline():
                words = []
                for _ in range(int(header[1:])):
                    length = int(self.rfile.readline()[1:])
                    words.append(self.rfile.read(length + 2)[:-2])
                asked = words[0].upper() in (b"SUBSCRIBE", b"PING")
                self.wfile.write((script.pop(0) if script else b"") if asked else b"+OK\r\n")


@pytest.fixture
def endpoint(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Endpoint]:
    """A server that replies on the subscription with the test's parameter."""
    for module in (pubsub, async_pubsub):
        monkeypatch.setattr(module, "PING", 0.05)
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), _Handler) as server:
        server.script = list(request.param)  # type: ignore[attr-defined]
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield Endpoint.from_url(f"redis://127.0.0.1:{server.server_address[1]}/0")
        finally:
            server.shutdown()
            thread.join()


_whatever_comes = pytest.mark.parametrize(
    "endpoint",
    [
        [_SUBSCRIBED, _LOADING, _LOADING, _NEWS],
        [b"-BUSY it is busy running a script\r\n", _SUBSCRIBED, _NEWS],
        [b"-NOPERM this user may hear no channel\r\n", _SUBSCRIBED, _NEWS],
        [b"HTTP/1.1 400 Bad Request\r\n\r\n", _SUBSCRIBED, _NEWS],
        [_SUBSCRIBED, b"$-7\r\nwhat\r\n", _SUBSCRIBED, _NEWS],
        [_SUBSCRIBED, _MESSAGE % (5, b"\xff\xfe \x00x"), _NEWS],
        [_SUBSCRIBED, b":5\r\n$-1\r\n*0\r\n*1\r\n$7\r\nmessage\r\n*1\r\n:1\r\n", _NEWS],
    ],
    ids=["loading", "busy", "refused", "nonsense", "later nonsense", "no text", "no message"],
    indirect=True,
)


@_whatever_comes
def test_wakeup_is_received_after_any_message(endpoint: Endpoint) -> None:
    with contextlib.closing(
        Engine(endpoint, _CHANNEL, StickyCache(), LockCounts("lw", "here"), NameIndex("lw"), allow_eviction=False)
    ) as engine:
        until(lambda: engine.wait("ticket", now() + 0.5) == "news", "the wake-up is heard", 20)


@_whatever_comes
async def test_loop_receives_wakeup_after_any_message(endpoint: Endpoint) -> None:
    mail = Mailboxes()

    async with _hearing(endpoint, mail):
        await auntil(lambda: _comes(mail, "news"), "the wake-up is heard", 20)


async def test_subscription_resumes_after_reconnect(
    url: str, admin: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wakeups, "_JUST", -1.0)
    mail = Mailboxes()

    async def hears() -> bool:
        admin.publish(_CHANNEL, "ticket news")
        return await _comes(mail, "news")

    async def nobody() -> bool:
        return dict(admin.pubsub_numsub(_CHANNEL)) == {_CHANNEL.encode(): 0}

    async with _hearing(Endpoint.from_url(url), mail):
        for number in range(3):
            await auntil(hears, "it is subscribed")
            waiting = asyncio.create_task(mail.async_wait(f"other {number}", now() + 20))
            await asyncio.sleep(0)
            admin.client_kill_filter(_type="pubsub")
            assert await waiting == "", "its message may have been lost"
    await auntil(nobody, "the connection is closed")


async def test_subscription_resumes_after_any_error(
    proxy: Proxy, admin: redis.Redis, caplog: pytest.LogCaptureFixture
) -> None:
    """An ended subscription would report no error, and its worker would only poll every five seconds."""
    # over TCP: on a unix socket redis-py replaces the error
    passwords, mail = Passwords(), Mailboxes()
    endpoint = Endpoint.from_client(redis.Redis.from_url(proxy.url, credential_provider=passwords))

    async def hears(text: str) -> bool:
        admin.publish(_CHANNEL, f"ticket {text}")
        return await _comes(mail, text)

    async with _hearing(endpoint, mail):
        await auntil(lambda: hears("before"), "it is subscribed", 20)
        for outage in (1, 2):
            passwords.remaining = 3
            admin.client_kill_filter(_type="pubsub")
            await auntil(lambda outage=outage: hears(f"after {outage}"), "it is subscribed again", 20)  # type: ignore[misc]
            assert passwords.remaining < 0
            records = [record for record in caplog.records if "no password today" in record.getMessage()]
            assert len(records) == outage, "each outage is logged once"
            assert records[-1].exc_info is not None


async def _comes(mail: Mailboxes, text: str) -> bool:
    return await mail.async_wait("ticket", now() + 0.2) == text


@contextlib.asynccontextmanager
async def _hearing(endpoint: Endpoint, mail: Mailboxes) -> AsyncIterator[None]:
    task = asyncio.create_task(async_pubsub.Hearing(endpoint, _CHANNEL, mail, allow_eviction=False).run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def test_leases_are_renewed_without_channel_rights(spoiled: Embedded, spoil: redis.Redis) -> None:
    spoil.acl_setuser(
        "deaf", enabled=True, passwords=["+secret"], keys=["*"], categories=["+@all"], reset_channels=True
    )
    with Lockwork(spoiled.url.replace("://", "://deaf:secret@", 1)) as lw:
        lw.runtime.engine.listen()
        with lw.lock("held"):
            first = spoil.hget("lw:{lock:held}", "d")
            until(lambda: spoil.hget("lw:{lock:held}", "d") != first, "it is renewed", 20)
