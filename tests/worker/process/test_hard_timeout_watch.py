"""The supervisor's watch for hard timeouts, without processes."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from lockwork.protocol.queue.leases import Leased, Outcome
from lockwork.worker.ipc import runner_messages as messages
from lockwork.worker.ipc.hard_timeouts import HardTimeouts, TimeLimits
from lockwork.worker.ipc.messages import HardTimeout, HardTimeoutEnded
from lockwork.worker.ipc.runner_messages import RunnerJob, Stop
from processes import until


class _Line:
    """A reporter without a socket."""

    def __init__(self, hard_timeouts: HardTimeouts, session: str) -> None:
        self._hard_timeouts, self._session = hard_timeouts, session

    def report(self, message: HardTimeout | HardTimeoutEnded) -> None:
        self._hard_timeouts.receive(self._session, message)


class _Watch:
    def __init__(self) -> None:
        self.over: list[tuple[str, list[str]]] = []
        self.hard_timeouts = HardTimeouts(self._on_over)

    def _on_over(self, session: str, hard_timeouts: list[HardTimeout]) -> None:
        self.over.append((session, sorted(hard_timeout.outcome.id for hard_timeout in hard_timeouts)))

    def limits(self, session: str, queue: str = "default") -> TimeLimits:
        return TimeLimits(_Line(self.hard_timeouts, session), queue)  # type: ignore[arg-type]


@pytest.fixture
def watch() -> Iterator[_Watch]:
    found = _Watch()
    yield found
    found.hard_timeouts.stop()


def outcome(id: str) -> Outcome:
    return Outcome(id, b"1 2 x", "d", b'{"type":"JobTimeout"}')


def test_overdue_job_is_reported_once(watch: _Watch) -> None:
    limits = watch.limits("one")
    limits.started(outcome("a"), 0.02, "task")
    until(lambda: watch.over, "it is reported")
    limits.started(outcome("b"), 0.02, "task")
    until(lambda: len(watch.over) == 2, "the next one is reported")
    assert watch.over == [("one", ["a"]), ("one", ["b"])]


def test_earlier_deadline_that_is_added_later_is_not_missed(watch: _Watch) -> None:
    limits = watch.limits("one")
    limits.started(outcome("far"), 600, "task")
    limits.started(outcome("near"), 0.02, "task")
    until(lambda: watch.over, "it is reported")
    assert watch.over == [("one", ["near"])]


def test_ended_session_is_forgotten(watch: _Watch) -> None:
    limits, other = watch.limits("one"), watch.limits("one", "other")
    limits.started(outcome("same"), 1.0, "task")
    other.started(outcome("same"), 1.2, "task")
    limits.ended("same")
    gone = watch.limits("gone")
    gone.started(outcome("lost"), 1.1, "task")
    watch.hard_timeouts.forget("gone")
    until(lambda: watch.over, "the remaining session is reported")
    assert watch.over == [("one", ["same"])]


def test_overdue_jobs_are_reported_together() -> None:
    """Their process is killed once, and every overdue job counts as overdue."""
    gate = threading.Event()
    over: list[tuple[str, int]] = []

    def on_over(session: str, hard_timeouts: list[HardTimeout]) -> None:
        over.append((session, len(hard_timeouts)))
        gate.wait(10)

    hard_timeouts = HardTimeouts(on_over)
    try:
        TimeLimits(_Line(hard_timeouts, "first"), "q").started(outcome("x"), 0.01, "task")  # type: ignore[arg-type]
        until(lambda: over, "the first is reported, and its handler blocks")
        limits = TimeLimits(_Line(hard_timeouts, "second"), "q")  # type: ignore[arg-type]
        limits.started(outcome("a"), 0.01, "task")
        limits.started(outcome("b"), 0.02, "task")
        limits.started(outcome("c"), 600, "task")
        threading.Event().wait(0.1)
        gate.set()
        until(lambda: len(over) == 2, "the second is reported")
    finally:
        gate.set()
        hard_timeouts.stop()
    assert over == [("first", 1), ("second", 2)]


def test_settings_arrive_complete() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        job = Leased("a", b"1 2 x", b"1,4,,;" + b"\xff\n" * 300_000, 1, 2, b"\x81")
        sent = threading.Thread(
            target=lambda: ours.sendall(messages.packed(RunnerJob("q", job)) + messages.packed(Stop("a")))
        )
        sent.start()
        assert messages.read_message(theirs) == RunnerJob("q", job)
        assert messages.read_message(theirs) == Stop("a")
        sent.join()
        ours.close()
        assert messages.read_message(theirs) is None
