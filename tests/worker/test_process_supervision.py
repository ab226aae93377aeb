"""Starting worker processes on a system that has none to give, or in which they die at once."""

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
def test_a_missing_process_is_tried_again() -> None:
    """The supervisor must not end, and the processes that work with it, because one could not be replaced just then."""
    again: list[float] = []
    _processes(again).fill()
    assert again == [1.0]


@pytest.mark.usefixtures("poor")
def test_a_worker_that_cannot_start_reports_the_reason() -> None:
    with pytest.raises(LockworkError, match="Resource temporarily unavailable"):
        _processes([]).fill(first=True)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[WorkerProcess]:
    """Those that were started; they only wait."""
    found: list[WorkerProcess] = []

    def start(*_: object) -> WorkerProcess:
        waiting = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
        found.append(WorkerProcess(waiting, "host/1/a", now()))
        return found[-1]

    monkeypatch.setattr(child_process, "start", start)
    return found


@pytest.mark.usefixtures("started")
@pytest.mark.parametrize(("first", "options"), [(True, {}), (False, {"burst": True}), (False, {"once": True})])
def test_startup_checks_every_queue(*, first: bool, options: dict[str, bool]) -> None:
    """At the start somebody is there to be told; a worker that ends by itself would leave one queue's jobs undone."""
    sessions = _Sessions(refusing=True)
    processes = _processes([], sessions, msgspec.structs.replace(_OPTIONS, **options))
    with pytest.raises(ServerRefused) if first else nullcontext():
        processes.fill(first=first)
    assert sessions.whole == [True]


def test_a_process_that_cannot_be_watched_is_not_started(
    started: list[WorkerProcess], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last process that the system had to give, and then no thread: the supervisor must not end by that, either."""

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


def test_one_that_dies_at_once_is_tried_for_days() -> None:
    """A database that is away in the night, and which the app asks when it is imported."""
    again: list[float] = []
    processes = _processes(again)
    failed_starts = cast("WorkerProcess", SimpleNamespace(ready=False, started=now()))
    for _ in range(20_000):
        processes.replace(failed_starts)
    assert again[0] < again[1] < again[-1] == 5.0
