"""A holder is notified when its lease ends, during any wait of the engine (L5)."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
import redis

from hanging import frozen, hanging_resolver
from lockwork import Lockwork
from lockwork.runtime import pubsub
from lockwork.runtime.clock import now
from lockwork.runtime.embedded import Embedded
from processes import until
from proxy import Proxy, proxied

LEASE = 2.0
LATE = 1.8
"""Seconds; the bug took more than 3."""


class Holder:
    """Holds several locks, and records the time of each notification."""

    def __init__(self, app: Lockwork, locks: int = 1) -> None:
        self.notified: list[float] = []
        self.grants = [app.lock(f"x{number}", on_lost=self._note).acquire() for number in range(locks)]
        self.ended = threading.Event()
        app.runtime.engine.listen()

    def _note(self, _: object) -> None:
        self.notified.append(now())
        if len(self.notified) == len(self.grants):
            self.ended.set()

    def is_notified_in_time(self) -> None:
        assert self.ended.wait(30)
        for grant, at in zip(self.grants, self.notified, strict=True):
            lease = grant._hold.lease
            assert lease is None or at < lease.deadline + LATE


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The subscription soon drops a silent server, and connects again while the leases last."""
    monkeypatch.setattr(pubsub, "PING", 0.1)
    monkeypatch.setattr(pubsub, "SILENCE", 0.4)


@pytest.fixture
def way(spoiled: Embedded) -> Iterator[Proxy]:
    with proxied(spoiled.url) as proxy:
        yield proxy


def hears(spoil: redis.Redis, app: Lockwork) -> None:
    until(lambda: dict(spoil.pubsub_numsub(app.runtime.channel))[app.runtime.channel.encode()] == 1, "it hears")


def test_by_a_frozen_server(spoiled: Embedded, spoil: redis.Redis) -> None:
    with Lockwork(spoiled.url, lock_lease=LEASE, patience=0) as app:
        holder = Holder(app)
        hears(spoil, app)
        with frozen(spoiled.pid):
            holder.is_notified_in_time()


def test_frozen_server_does_not_delay_many_notifications(spoiled: Embedded, spoil: redis.Redis) -> None:
    with Lockwork(spoiled.url, lock_lease=LEASE, patience=0) as app:
        holder = Holder(app, 300)  # their renewal takes several calls; each notification starts a thread
        hears(spoil, app)
        with frozen(spoiled.pid):
            holder.is_notified_in_time()


def test_unreachable_port_does_not_delay_the_notification(way: Proxy, spoil: redis.Redis) -> None:
    with Lockwork(way.url, lock_lease=LEASE, patience=0) as app:
        holder = Holder(app)
        hears(spoil, app)
        way.vanish()
        holder.is_notified_in_time()


def test_by_a_name_that_takes_for_ever_to_resolve(
    way: Proxy, spoil: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    with hanging_resolver(monkeypatch, "in.limbo") as hangs:
        with Lockwork(way.url.replace("127.0.0.1", "in.limbo"), lock_lease=LEASE, patience=0) as app:
            holder = Holder(app)
            hears(spoil, app)
            hangs.set()
            for kind in ("normal", "pubsub"):
                spoil.client_kill_filter(_type=kind, skipme=True)
            holder.is_notified_in_time()


def test_lease_is_renewed_while_the_subscription_cannot_be_opened(
    way: Proxy, spoil: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    with hanging_resolver(monkeypatch, "in.limbo") as hangs:
        with Lockwork(way.url.replace("127.0.0.1", "in.limbo"), lock_lease=LEASE) as app:
            holder = Holder(app)
            hears(spoil, app)
            # the engine has a separate connection for renewals
            first = spoil.hget("lw:{lock:x0}", "d")
            until(lambda: spoil.hget("lw:{lock:x0}", "d") != first, "it is renewed", 20)
            hangs.set()
            spoil.client_kill_filter(_type="pubsub")
            assert not holder.ended.wait(2 * LEASE)
