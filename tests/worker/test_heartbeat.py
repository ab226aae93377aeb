"""The heartbeat and the scheduler by themselves, without a server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn, cast

import pytest

from lockwork.errors import ServerUnavailable
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queues.dead import Bounds
from lockwork.protocol.queues.leases import Beat
from lockwork.runtime.runtime import Runtime
from lockwork.worker.supervisor import heartbeat as beating
from lockwork.worker.supervisor.heartbeat import DeadSetTrimmer, Heartbeat
from lockwork.worker.supervisor.scheduler import Scheduler
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
        runtime, QUEUES, 1000.0, 1000, nobody.append, nobody.append, trimmer=DeadSetTrimmer(runtime, Bounds(1000, 10))
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


def test_it_beats_on_when_its_complaint_cannot_be_logged(deaf: None) -> None:
    """The network that keeps the server away may well keep the app's log away, too."""
    away = _Away()
    heartbeat = _heartbeat(away)
    heartbeat.start()
    try:
        until(lambda: len(away.seen) > len(QUEUES), "it has asked more than once")
    finally:
        heartbeat.stop()


class _Partly:
    """A server that answers for some of the queues; on each of them a session is overdue."""

    def __init__(self) -> None:
        self.away: set[str] = set()
        self.asked = ""
        self.recovered: list[str] = []
        self.clock = [1000.0]
        self.ahead = 0.0
        """How far the server's clock is ahead of the client's."""

    def run(self, protocol: Any) -> Any:
        effect = protocol.send(None)
        protocol.close()
        if self.asked in self.away:
            raise ServerUnavailable("no server for this one")
        if effect.script.name == "jobs_recover":
            self.recovered.append(self.asked)
            return 1
        return Beat({}, "another", 0.0, at=self.clock[0] + self.ahead)


def test_no_worker_is_declared_dead_right_after_an_outage(monkeypatch: pytest.MonkeyPatch) -> None:
    """All leases there have run out for want of a server. Who is still there beats again within a lease."""
    server = _Partly()
    clock = server.clock
    monkeypatch.setattr(beating, "now", lambda: clock[0])
    runtime = cast("Runtime", server)
    nobody: list[Any] = []
    queues = {name: QUEUES[name] for name in "ab"}
    beats = Heartbeat(runtime, queues, 10.0, 1000, nobody.append, nobody.append, trimmer=cast("DeadSetTrimmer", None))

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
def test_a_step_of_the_server_clock_ends_no_worker(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, step: float, beats: int
) -> None:
    """A forward step ends all leases at once; who is alive beats again within a lease by its own clock."""
    server = _Partly()
    clock = server.clock
    monkeypatch.setattr(beating, "now", lambda: clock[0])
    runtime = cast("Runtime", server)
    nobody: list[Any] = []
    beating_ = Heartbeat(
        runtime, {"a": QUEUES["a"]}, 10.0, 1000, nobody.append, nobody.append, trimmer=cast("DeadSetTrimmer", None)
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
