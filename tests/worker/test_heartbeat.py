"""The heartbeat and the scheduler, without a server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn, cast

import pytest

from lockwork.errors import ServerUnavailable
from lockwork.protocol.dead.dead import Bounds
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queue.leases import Beat
from lockwork.runtime.runtime import Runtime
from lockwork.worker.supervisor import heartbeat as beating
from lockwork.worker.supervisor.heartbeat import DeadSetTrimmer, Heartbeat
from lockwork.worker.supervisor.scheduler import Scheduler
from processes import until

QUEUES = {name: QueueKeys("lw", name) for name in "abcdef"}


class _Away:
    """An unavailable server that records the heartbeat's last turn at each call."""

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
    ignored: list[Any] = []
    away.heartbeat = Heartbeat(
        runtime, QUEUES, 1000.0, 1000, ignored.append, ignored.append, trimmer=DeadSetTrimmer(runtime, Bounds(1000, 10))
    )
    return away.heartbeat


def test_heartbeat_reports_progress_after_each_queue() -> None:
    """A call takes half a second while the server is unavailable, and /livez must not fail with many queues."""
    away = _Away()
    heartbeat = _heartbeat(away)
    heartbeat.start()
    try:
        until(lambda: len(away.seen) >= len(QUEUES), "it has asked for all of them once")
    finally:
        heartbeat.stop()
    first_round = away.seen[: len(QUEUES)]
    assert len(set(first_round)) == len(QUEUES)


def test_stop_of_heartbeat_waits_for_one_call() -> None:
    """With a hundred partitions and no server, a stop would otherwise take a minute."""
    away = _Away()
    heartbeat = _heartbeat(away)
    away.then = heartbeat._stop.set
    heartbeat.start()
    heartbeat.stop()
    assert len(away.seen) == 1


def test_stop_of_scheduler_waits_for_one_call() -> None:
    away = _Away()
    scheduler = Scheduler(cast("Runtime", away), QUEUES, {})
    away.then = scheduler._stop.set
    scheduler.start()
    scheduler.stop()
    assert len(away.seen) == 1


def test_heartbeat_continues_after_any_error(caplog: pytest.LogCaptureFixture) -> None:
    """Without heartbeats, other workers would run the jobs of this worker."""
    away = _Away(ZeroDivisionError("a fault of ours"))
    heartbeat = _heartbeat(away)
    heartbeat.start()
    try:
        until(lambda: len(away.seen) > len(QUEUES), "it has asked more than once")
    finally:
        heartbeat.stop()
    assert "no heartbeat for queue a: a fault of ours" in caplog.text
    assert "Traceback" in caplog.text


def test_heartbeat_continues_when_logging_fails(failing_log: None) -> None:
    """A network failure may affect both the server and the app's log handler."""
    away = _Away()
    heartbeat = _heartbeat(away)
    heartbeat.start()
    try:
        until(lambda: len(away.seen) > len(QUEUES), "it has asked more than once")
    finally:
        heartbeat.stop()


class _Partly:
    """A server where some queues are available; each queue has an expired session."""

    def __init__(self) -> None:
        self.away: set[str] = set()
        self.asked = ""
        self.recovered: list[str] = []
        self.clock = [1000.0]
        self.ahead = 0.0
        """Difference between the server's clock and the client's, in seconds."""

    def run(self, protocol: Any) -> Any:
        effect = protocol.send(None)
        protocol.close()
        if self.asked in self.away:
            raise ServerUnavailable("no server for this one")
        if effect.script.name == "queue/recover":
            self.recovered.append(self.asked)
            return 1
        return Beat({}, "another", 0.0, at=self.clock[0] + self.ahead)


def test_sessions_are_not_recovered_right_after_an_outage(monkeypatch: pytest.MonkeyPatch) -> None:
    """All leases expired during the outage. Running workers renew theirs within one lease."""
    server = _Partly()
    clock = server.clock
    monkeypatch.setattr(beating, "now", lambda: clock[0])
    runtime = cast("Runtime", server)
    ignored: list[Any] = []
    queues = {name: QUEUES[name] for name in "ab"}
    beats = Heartbeat(runtime, queues, 10.0, 1000, ignored.append, ignored.append, trimmer=cast("DeadSetTrimmer", None))

    def beat(*names: str) -> None:
        clock[0] += 3.0
        for name in names:
            server.asked = name
            try:
                beats._beat(name, queues[name])
            except ServerUnavailable:
                assert name in server.away

    for _ in range(4):
        beat("a", "b")
    assert server.recovered == []
    beat("a", "b")
    assert server.recovered == ["a", "b"]
    server.away = {"b"}
    for _ in range(4):
        beat("a", "b")
    server.away.clear()
    server.recovered.clear()
    for _ in range(4):
        beat("b")
    assert server.recovered == []
    beat("b")
    assert server.recovered == ["b"]


@pytest.mark.parametrize(("step", "beats"), [(20.0, 4), (0.5, 0), (-20.0, 0)], ids=["forward", "a little", "back"])
def test_step_of_server_clock_ends_no_session(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, step: float, beats: int
) -> None:
    """A forward step expires all leases at once. Running workers renew theirs within one lease."""
    server = _Partly()
    clock = server.clock
    monkeypatch.setattr(beating, "now", lambda: clock[0])
    runtime = cast("Runtime", server)
    ignored: list[Any] = []
    beating_ = Heartbeat(
        runtime, {"a": QUEUES["a"]}, 10.0, 1000, ignored.append, ignored.append, trimmer=cast("DeadSetTrimmer", None)
    )

    def beat() -> None:
        clock[0] += 3.0
        server.asked = "a"
        beating_._beat("a", QUEUES["a"])

    for _ in range(5):
        beat()
    assert server.recovered == ["a"]
    server.recovered.clear()
    server.ahead += step
    for _ in range(beats):
        beat()
    assert server.recovered == []
    beat()
    assert server.recovered == ["a"]
    assert ("the clock of the server of queue a was set" in caplog.text) == (abs(step) > 1)
