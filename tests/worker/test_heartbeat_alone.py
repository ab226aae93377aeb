"""The heartbeat and the scheduler by themselves, without a server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn, cast

import pytest

from lockwork.errors import ServerUnavailable
from lockwork.protocol.dead_moves import Bounds
from lockwork.protocol.keys import QueueKeys
from lockwork.runtime.runtime import Runtime
from lockwork.worker.bounds import Keeper
from lockwork.worker.heartbeat import Heartbeat
from lockwork.worker.scheduler import Scheduler
from processes import until

QUEUES = {name: QueueKeys("lw", name) for name in "abcdef"}


class _Away:
    """A server that is away, and notes when the heartbeat last turned, as seen at each try."""

    def __init__(self, error: Exception | None = None) -> None:
        self.heartbeat: Heartbeat | None = None
        self.seen: list[float] = []
        self._error = error or ServerUnavailable("no server")
        self.then: Callable[[], None] = lambda: None

    def run(self, protocol: Any) -> NoReturn:
        protocol.close()
        self.seen.append(self.heartbeat.turned if self.heartbeat is not None else 0.0)
        self.then()
        raise self._error


def _heartbeat(away: _Away) -> Heartbeat:
    runtime = cast("Runtime", away)
    nobody: list[Any] = []
    away.heartbeat = Heartbeat(
        runtime, QUEUES, 1000.0, 1000, nobody.append, nobody.append, keeper=Keeper(runtime, Bounds(1000, 10))
    )
    return away.heartbeat


def test_it_turns_with_each_queue() -> None:
    """Each try takes half a second when the server is away: with many queues, /livez would have the worker killed."""
    away = _Away()
    heartbeat = _heartbeat(away)
    heartbeat.start()
    try:
        until(lambda: len(away.seen) >= len(QUEUES), "it has asked for all of them once")
    finally:
        heartbeat.stop()
    first_round = away.seen[: len(QUEUES)]
    assert len(set(first_round)) == len(QUEUES)


def test_its_end_waits_for_one_queue_only() -> None:
    """With a hundred partitions and no server, it would be a minute until the worker has stopped."""
    away = _Away()
    heartbeat = _heartbeat(away)
    away.then = heartbeat._stop.set
    heartbeat.start()
    heartbeat.stop()
    assert len(away.seen) == 1


def test_the_schedulers_end_waits_for_one_queue_only() -> None:
    away = _Away()
    scheduler = Scheduler(cast("Runtime", away), QUEUES, {})
    away.then = scheduler._stop.set
    scheduler.start()
    scheduler.stop()
    assert len(away.seen) == 1


def test_it_beats_on_whatever_goes_wrong(caplog: pytest.LogCaptureFixture) -> None:
    """Without it, all jobs of this worker would run elsewhere, while it goes on with them."""
    away = _Away(ZeroDivisionError("a fault of ours"))
    heartbeat = _heartbeat(away)
    heartbeat.start()
    try:
        until(lambda: len(away.seen) > len(QUEUES), "it has asked more than once")
    finally:
        heartbeat.stop()
    assert "no heartbeat for queue a: a fault of ours" in caplog.text
    assert "Traceback" in caplog.text
