"""The clock of a test's server, which a test can move."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import hiredis

from lockwork.app.lockwork import apps_here
from lockwork.durations import Duration, milliseconds
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.schedules.schedules import Ticker
from lockwork.runtime.drive import no_running_loop
from lockwork.runtime.endpoint import Endpoint
from lockwork.runtime.runtime import living
from lockwork.runtime.sync_connection import Wire
from lockwork.schedules.options import slot_rules
from lockwork.testing.workers import workers_here

_SOON = 0.01
"""Seconds until the next turn of a ticker that has more due schedules."""
OFFSET = "lockwork-test-clock"
"""The key with the microseconds by which the clock is ahead."""
NOW = f"""
local seconds, microseconds = unpack(redis.call('TIME'))
local now = seconds * 1000000 + microseconds + tonumber(redis.call('GET', '{OFFSET}') or 0)
"""
"""The text of parts/now.lua in tests."""


class MovableClock:
    """The server's clock, as all scripts of this process see it: it decides delays, retries, schedules and leases."""

    def __init__(self, url: str) -> None:
        self._url = url

    def advance(self, by: Duration) -> None:
        """Set the clock forward, and let all waiters and workers of this process check again.

        The clocks of this process, and the expiry of keys, do not change. The schedules of the apps are declared first,
        so that the slots in between are due.
        """
        no_running_loop()
        step_ms = milliseconds(by, "by", zero=True)
        tick_schedules()
        with connected(Endpoint.from_url(self._url)) as wire:
            command(wire, "INCRBY", OFFSET, step_ms * 1000)
        for runtime in living():
            if runtime.active:
                runtime.engine.wake_all()
        for worker in workers_here():
            worker.check()

    async def aadvance(self, by: Duration) -> None:
        """Async version of `advance`."""
        await asyncio.to_thread(self.advance, by)

    @property
    def now(self) -> datetime:
        """The time of the server, in UTC."""
        with connected(Endpoint.from_url(self._url)) as wire:
            ahead = int(command(wire, "GET", OFFSET) or 0)
        return datetime.fromtimestamp(time.time() + ahead / 1_000_000, UTC)


def tick_schedules() -> None:
    """Declare the schedules of all apps, and enqueue their due slots, also of created schedules."""
    for app in apps_here():
        served = {name for queue in app.registry.used_queues() for name in app.config.partitions.names(queue)}
        if not app.runtime.opened and not any(app.plans.values()):
            continue  # it has not created a schedule either
        for name in sorted(served | app.plans.keys()):
            plans = list(app.plans.get(name, {}).values())
            ticker = Ticker(QueueKeys(app.config.prefix, name), plans, slot_rules)
            while (pause := app.runtime.run(ticker.turn())) is not None and pause < _SOON:
                pass  # created schedules are read in pages


@contextmanager
def connected(endpoint: Endpoint) -> Iterator[Wire]:
    """Connect to a server."""
    wire = Wire(endpoint)
    wire.connect()
    try:
        yield wire
    finally:
        wire.close()


def command(wire: Wire, *words: Any) -> Any:
    """Run a command."""
    reply = wire.request(hiredis.pack_command(words))
    if isinstance(reply, hiredis.ReplyError):
        raise reply
    return reply
