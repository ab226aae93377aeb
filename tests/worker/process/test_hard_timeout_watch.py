"""The supervisor's watch over hard time-outs, without processes."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from lockwork.protocol.queues.leases import Leased, Outcome
from lockwork.worker.ipc import runner_messages as messages
from lockwork.worker.ipc.hard_timeouts import HardTimeouts, TimeLimits
from lockwork.worker.ipc.messages import HardTimeout, HardTimeoutEnded
from lockwork.worker.ipc.runner_messages import RunnerJob, Stop
from processes import until


class _Line:
    """A reporter that is no socket."""

    def __init__(self, hard_timeouts: HardTimeouts, session: str) -> None:
        self._hard_timeouts, self._session = hard_timeouts, session

    def report(self, message: HardTimeout | HardTimeoutEnded) -> None:
        self._hard_timeouts.receive(self._session, message)


class _Heard:
    def __init__(self) -> None:
        self.over: list[tuple[str, list[str]]] = []
        self.hard_timeouts = HardTimeouts(self._on_over)

    def _on_over(self, session: str, hard_timeouts: list[HardTimeout]) -> None:
        self.over.append((session, sorted(hard_timeout.outcome.id for hard_timeout in hard_timeouts)))

    def limits(self, session: str, queue: str = "default") -> TimeLimits:
        return TimeLimits(_Line(self.hard_timeouts, session), queue)  # type: ignore[arg-type]


@pytest.fixture
def heard() -> Iterator[_Heard]:
    found = _Heard()
    yield found
    found.hard_timeouts.stop()


def outcome(id: str) -> Outcome:
    return Outcome(id, b"1 2 x", "d", b'{"type":"JobTimeout"}')


def test_overdue_job_is_reported_once(heard: _Heard) -> None:
    limits = heard.limits("one")
    limits.started(outcome("a"), 0.02, "task")
    until(lambda: heard.over, "it is told")
    limits.started(outcome("b"), 0.02, "task")
    until(lambda: len(heard.over) == 2, "so is the next")
    assert heard.over == [("one", ["a"]), ("one", ["b"])]


def test_an_earlier_deadline_that_comes_later_is_not_overslept(heard: _Heard) -> None:
    limits = heard.limits("one")
    limits.started(outcome("far"), 600, "task")
    limits.started(outcome("near"), 0.02, "task")
    until(lambda: heard.over, "it is told")
    assert heard.over == [("one", ["near"])]


def test_ended_session_is_forgotten(heard: _Heard) -> None:
    limits, other = heard.limits("one"), heard.limits("one", "other")
    limits.started(outcome("same"), 1.0, "task")
    other.started(outcome("same"), 1.2, "task")
    limits.ended("same")
    gone = heard.limits("gone")
    gone.started(outcome("lost"), 1.1, "task")
    heard.hard_timeouts.forget("gone")
    until(lambda: heard.over, "the one that is left is told")
    assert heard.over == [("one", ["same"])]


def test_all_overdue_jobs_are_reported_together() -> None:
    """Their process is killed once, and none of them is taken for one that did nothing wrong."""
    gate = threading.Event()
    over: list[tuple[str, int]] = []

    def on_over(session: str, hard_timeouts: list[HardTimeout]) -> None:
        over.append((session, len(hard_timeouts)))
        gate.wait(10)

    hard_timeouts = HardTimeouts(on_over)
    try:
        TimeLimits(_Line(hard_timeouts, "first"), "q").started(outcome("x"), 0.01, "task")  # type: ignore[arg-type]
        until(lambda: over, "the first is told, and takes its time")
        limits = TimeLimits(_Line(hard_timeouts, "second"), "q")  # type: ignore[arg-type]
        limits.started(outcome("a"), 0.01, "task")
        limits.started(outcome("b"), 0.02, "task")
        limits.started(outcome("c"), 600, "task")
        threading.Event().wait(0.1)
        gate.set()
        until(lambda: len(over) == 2, "so is the second")
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
