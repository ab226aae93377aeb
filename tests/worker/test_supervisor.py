"""Decisions of a supervisor about its processes, without processes."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from lockwork import Lockwork
from lockwork.runtime.clock import now
from lockwork.worker.settings import WorkerOptions
from lockwork.worker.supervisor.child_process import WorkerProcess
from lockwork.worker.supervisor.supervisor import Supervisor

OPTIONS = WorkerOptions("app:lw", ["default"], 1, 1, 15, 30)


@pytest.fixture
def supervisor() -> Iterator[Supervisor]:
    made = Supervisor(Lockwork("redis://127.0.0.1:1", patience=0), OPTIONS, loop="asyncio")
    with made._events:
        yield made
    made._reports.close()


def child(supervisor: Supervisor, **facts: Any) -> WorkerProcess:
    """Add a process to the supervisor."""
    usual = {
        "session": "h/1/a",
        "pid": 7,
        "ready": False,
        "retiring": False,
        "replace_reason": "",
        "active": True,
        "sent_early": [],
    }
    usual |= {
        "isolates": False,
        "hard_timeouts": [],
        "orderly": False,
        "fate": "killed by SIGSEGV",
        "close_input": lambda: None,
    }
    process = SimpleNamespace(returncode=-11)
    made = cast("WorkerProcess", SimpleNamespace(**{**usual, "process": process, "memory": lambda: None, **facts}))
    supervisor._processes.children[made.session] = made
    return made


def test_worker_is_ready_although_the_server_does_not_answer(supervisor: Supervisor) -> None:
    """READY=1 is sent only then, and without it a service manager stops the worker."""
    child(supervisor)
    supervisor._heartbeat.last = now() - 1000
    supervisor._on_ready("h/1/a")
    assert supervisor.status.trouble.startswith("the server has not answered")
    assert supervisor._started


@pytest.mark.parametrize("facts", [{"retiring": True}, {}])
def test_process_that_dies_while_stopping_is_logged(
    supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, facts: Any
) -> None:
    """The log explains why its jobs run again."""
    monkeypatch.setattr(supervisor._returns, "give_back", lambda _child, leaving: 2 - leaving)
    supervisor._started = True
    supervisor.status.stopping = not facts
    supervisor._on_exit(child(supervisor, **facts))
    jobs = "2 jobs" if facts else "1 job"
    assert f"worker process 7 ended (killed by SIGSEGV): {jobs} returned to the queue" in caplog.text


def test_process_that_stops_on_request_is_not_logged(
    supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(supervisor._returns, "give_back", lambda _child, leaving: 0)
    supervisor._on_exit(child(supervisor, retiring=True, orderly=True))
    assert "ended" not in caplog.text
