"""Errors of a password provider: treated as an outage, with its cause in the message."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
import redis

from leftovers import open_sockets
from lockwork import Lockwork, ServerUnavailable
from lockwork.protocol.locks import grants
from lockwork.protocol.locks.leases import Lease
from lockwork.runtime import sync_connection
from passwords import Passwords
from processes import until

_FOR_EVER = 1 << 30


@pytest.fixture
def passwords() -> Passwords:
    return Passwords()


# with both schemes: on a unix socket redis-py's asyncio side replaces the error
@pytest.fixture(params=["tcp", "unix"])
def app(request: pytest.FixtureRequest, passwords: Passwords, admin: redis.Redis) -> Iterator[Lockwork]:
    """An app that gets its passwords from the failing provider."""
    where = request.getfixturevalue("proxy").url if request.param == "tcp" else request.getfixturevalue("url")
    client = redis.Redis.from_url(where, credential_provider=passwords)
    with Lockwork(client=client, lock_lease="10s", patience="0.5s") as made:
        yield made


def test_locks_are_renewed_when_it_is_over(
    app: Lockwork, passwords: Passwords, admin: redis.Redis, other: Lockwork, caplog: pytest.LogCaptureFixture
) -> None:
    """The error ended the engine's thread, and another caller got the lock while its holder was in its body."""
    with app.lock("held") as grant:
        app.runtime.engine.listen()
        until(lambda: _heard(app, admin), "it is subscribed")
        passwords.remaining = _FOR_EVER
        _cut_off(admin)
        until(lambda: "leases could not be renewed yet" in caplog.text, "a renewal fails", 20)
        until(lambda: passwords.remaining < _FOR_EVER - 5, "it tries again and again", 20)
        before = admin.hget("lw:{lock:held}", "d")
        passwords.remaining = 0
        until(lambda: admin.hget("lw:{lock:held}", "d") != before, "it is renewed again", 20)
        until(lambda: _heard(app, admin), "it is subscribed again", 20)
        assert not grant.lost
        assert other.lock("held").try_acquire() is None
    for text in ("no wake-ups arrive", "leases could not be renewed yet"):
        records = [record for record in caplog.records if text in record.getMessage()]
        (traced,) = (record for record in records if record.exc_info)
        assert "no password today" in traced.getMessage()


def test_each_outage_is_traced(
    app: Lockwork, passwords: Passwords, admin: redis.Redis, caplog: pytest.LogCaptureFixture
) -> None:
    app.lock("x").inspect()
    app.runtime.engine.listen()
    for outage in (1, 2):
        until(lambda: _heard(app, admin), "it is subscribed", 20)
        passwords.remaining = 4
        admin.client_kill_filter(_type="pubsub")
        until(lambda: passwords.remaining < 0, "it has tried again", 20)
        assert len([record for record in caplog.records if record.exc_info]) == outage


def test_engine_releases_a_lock_after_an_outage(
    app: Lockwork, passwords: Passwords, admin: redis.Redis, other: Lockwork, caplog: pytest.LogCaptureFixture
) -> None:
    """A lock whose release fails ends with its lease; a later lock is released at once."""
    for name in ("early", "late"):
        app.lock(name).acquire()
    held = {hold.options.name: hold for hold in app.runtime.live}
    passwords.remaining = _FOR_EVER
    _cut_off(admin)
    app.runtime.engine.give_back(_lease(held["early"]))
    until(lambda: "could not be released" in caplog.text, "it fails", 20)
    passwords.remaining = 0
    app.runtime.engine.give_back(_lease(held["late"]))
    until(lambda: other.lock("late").inspect().owner is None, "it is given back", 20)


def test_thread_sees_cause_of_loss(app: Lockwork, passwords: Passwords) -> None:
    passwords.remaining = _FOR_EVER
    with pytest.raises(ServerUnavailable, match=r"ValueError: no password today$") as caught:
        app.lock("x").acquire()
    assert isinstance(caught.value.__cause__, ValueError)
    passwords.remaining = 2
    assert app.lock("x").acquire().fence


def test_asyncio_task_sees_cause_of_loss(app: Lockwork, passwords: Passwords) -> None:
    async def main() -> None:
        passwords.remaining = _FOR_EVER
        with pytest.raises(ServerUnavailable, match=r"ValueError: no password today$") as caught:
            await app.lock("x").aacquire()
        assert isinstance(caught.value.__cause__, ValueError)
        passwords.remaining = 2
        assert (await app.lock("x").aacquire()).fence
        await app.aclose()

    asyncio.run(main())


def test_interrupted_connection_attempt_closes_its_socket(url: str) -> None:
    passwords = Passwords(KeyboardInterrupt)
    with Lockwork(client=redis.Redis.from_url(url, credential_provider=passwords)) as app:
        before = open_sockets()
        passwords.remaining = 1
        with pytest.raises(KeyboardInterrupt) as caught:
            app.lock("x").inspect()
        # the exception's traceback references all objects of the attempt
        assert caught.value is not None
        assert open_sockets() == before


def test_engine_continues_after_an_internal_error(
    lw: Lockwork, admin: redis.Redis, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    remaining = {"connect": 3, "renew": 3}
    connect, renew = sync_connection.Wire.connect, grants.renew_each

    def fail(what: str) -> None:
        remaining[what] -= 1
        if remaining[what] >= 0:
            raise ZeroDivisionError(f"a fault of ours: {what}")

    def connect_(self: sync_connection.Wire) -> None:
        fail("connect")
        connect(self)

    def renew_(*arguments: Any) -> Any:
        fail("renew")
        return renew(*arguments)

    with lw.lock("held") as grant:
        before = admin.hget("lw:{lock:held}", "d")
        monkeypatch.setattr(sync_connection.Wire, "connect", connect_)
        monkeypatch.setattr(grants, "renew_each", renew_)
        lw.runtime.engine.listen()
        until(lambda: _heard(lw, admin), "it is subscribed", 20)
        until(lambda: admin.hget("lw:{lock:held}", "d") != before, "it is renewed", 20)
        assert not grant.lost
    traced = {record.getMessage() for record in caplog.records if record.exc_info}
    assert traced == {
        "no wake-ups arrive until the connection is back: a fault of ours: connect",
        "leases could not be renewed yet: a fault of ours: renew",
    }


def _lease(hold: Any) -> Lease:
    lease: Lease = hold.forget()[0]
    return lease


def _cut_off(admin: redis.Redis) -> None:
    for kind in ("pubsub", "normal"):
        admin.client_kill_filter(_type=kind, skipme=True)


def _heard(app: Lockwork, admin: redis.Redis) -> bool:
    channel = app.runtime.channel
    return dict(admin.pubsub_numsub(channel)) == {channel.encode(): 1}
