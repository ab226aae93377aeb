"""Starting worker processes when the system refuses new processes, or when they exit at once."""

from __future__ import annotations

import subprocess
import sys
import threading
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any, NoReturn, cast

import msgspec
import pytest

from lockwork.errors import LockworkError, ServerRefused
from lockwork.runtime.clock import now
from lockwork.worker.settings import WorkerOptions
from lockwork.worker.supervisor import child_process
from lockwork.worker.supervisor.child_process import WorkerProcess
from lockwork.worker.supervisor.heartbeat import Heartbeat
from lockwork.worker.supervisor.processes import WorkerProcesses

_OPTIONS = WorkerOptions("app:lw", ["default"], 1, 1, 15, 30)


@pytest.fixture
def poor(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(*_: object) -> NoReturn:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(child_process, "start", start)


class _Sessions:
    """A heartbeat that needs no server."""

    def __init__(self, *, refusing: bool = False) -> None:
        self.known: set[str] = set()
        self.whole: list[bool] = []
        self._refusing = refusing

    def join(self, session: str, _patience: float, *, whole: bool) -> dict[str, ServerRefused]:
        self.whole.append(whole)
        if self._refusing:
            raise ServerRefused("data of another program")
        self.known.add(session)
        return {}

    def forget(self, session: str) -> None:
        self.known.discard(session)


def _processes(
    again: list[float], sessions: _Sessions | None = None, options: WorkerOptions = _OPTIONS
) -> WorkerProcesses:
    nobody: list[Any] = []
    heartbeat = cast("Heartbeat", sessions or _Sessions())
    return WorkerProcesses(options, "asyncio", 0, heartbeat, on_exit=nobody.append, again=again.append)


@pytest.mark.usefixtures("poor")
def test_failed_process_start_is_retried() -> None:
    """A failed replacement must not end the supervisor and its other processes."""
    again: list[float] = []
    _processes(again).fill()
    assert again == [1.0]


@pytest.mark.usefixtures("poor")
def test_worker_that_cannot_start_reports_the_reason() -> None:
    with pytest.raises(LockworkError, match="Resource temporarily unavailable"):
        _processes([]).fill(first=True)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[WorkerProcess]:
    """The started processes; they only wait."""
    processes: list[WorkerProcess] = []

    def start(*_: object) -> WorkerProcess:
        waiting = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
        processes.append(WorkerProcess(waiting, "host/1/a", now()))
        return processes[-1]

    monkeypatch.setattr(child_process, "start", start)
    return processes


@pytest.mark.usefixtures("started")
@pytest.mark.parametrize(("first", "options"), [(True, {}), (False, {"burst": True}), (False, {"once": True})])
def test_startup_checks_every_queue(*, first: bool, options: dict[str, bool]) -> None:
    """Startup can report errors to the user; a burst that skips a queue would leave its jobs undone."""
    sessions = _Sessions(refusing=True)
    processes = _processes([], sessions, msgspec.structs.replace(_OPTIONS, **options))
    with pytest.raises(ServerRefused) if first else nullcontext():
        processes.fill(first=first)
    assert sessions.whole == [True]


def test_process_without_watcher_thread_is_stopped(
    started: list[WorkerProcess], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system allows the process, but not the thread; the supervisor must not end."""

    def no_thread(_thread: threading.Thread) -> NoReturn:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", no_thread)
    again: list[float] = []
    sessions = _Sessions()
    processes = _processes(again, sessions)
    processes.fill()
    assert again == [1.0]
    assert (processes.children, sessions.known) == ({}, set())
    assert started[0].process.returncode is not None


def test_process_that_exits_at_once_is_restarted_without_limit() -> None:
    """For example, the app's import requires a database that is unavailable all night."""
    again: list[float] = []
    processes = _processes(again)
    failed_starts = cast("WorkerProcess", SimpleNamespace(ready=False, started=now()))
    for _ in range(20_000):
        processes.replace(failed_starts)
    assert again[0] < again[1] < again[-1] == 5.0


class _Starts(WorkerProcesses):
    """Counts calls of `fill` instead of starting processes."""

    filled = 0

    def fill(self, *, first: bool = False) -> None:
        self.filled += 1


def test_processes_that_ran_are_replaced_without_pause() -> None:
    """The replacement of a killed process was delayed by up to 5 s."""
    again: list[float] = []
    heartbeat = cast("Heartbeat", _Sessions())
    processes = _Starts(_OPTIONS, "asyncio", 0, heartbeat, on_exit=again.append, again=again.append)  # type: ignore[arg-type]
    ended = SimpleNamespace(returncode=-9, pid=7)
    child = WorkerProcess(cast("Any", ended), "host/7/a", now(), ready=True)
    for _ in range(5):
        processes.replace(child)
    assert (processes.filled, again) == (5, [])
    child.ready = False
    for _ in range(3):
        processes.replace(child)
    assert (processes.filled, again) == (5, [0.2, 0.4, 0.8])


def test_isolation_processes_grow_while_suspects_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[WorkerProcess] = []
    processes = _processes([], options=msgspec.structs.replace(_OPTIONS, processes=2))

    def start(*, first: bool, isolates: bool = False) -> None:
        assert isolates
        child = WorkerProcess(cast("Any", None), f"host/{len(started)}/a", now(), isolates=isolates)
        started.append(child)
        processes.children[child.session] = child

    monkeypatch.setattr(processes, "_start", start)
    processes.isolate(1)
    assert len(started) == 1
    processes.isolate(30)
    assert len(started) == 2, "as many as usual ones"
    for _ in range(20):
        processes.isolate(30, more=True)
    assert len(started) == processes.isolating == 8
    assert processes.working == 0
    processes.open = False
    processes.children.clear()
    processes.isolate(30, more=True)
    assert len(started) == 8, "a worker that is quiet or stops starts none"
