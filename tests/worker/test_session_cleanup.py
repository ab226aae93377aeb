"""Session clean-up: a queue that refuses calls does not block the return of other processes' jobs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from lockwork.errors import LockworkError, ServerRefused, ServerUnavailable
from lockwork.worker.supervisor.child_process import WorkerProcess
from lockwork.worker.supervisor.heartbeat import Heartbeat
from lockwork.worker.supervisor.session_cleanup import SessionCleanup


class _Sessions:
    """A heartbeat without a server; sessions in `trouble` cannot end."""

    def __init__(self) -> None:
        self.left: list[str] = []
        self.trouble: dict[str, LockworkError] = {}

    def leave(self, session: str, _patience: float, **_: Any) -> int:
        if session in self.trouble:
            raise self.trouble[session]
        self.left.append(session)
        return 1


def _child(session: str) -> WorkerProcess:
    return cast("WorkerProcess", SimpleNamespace(session=session, pid=1, orderly=False, hard_timeouts=(), without=()))


def test_session_that_cannot_end_does_not_block_others() -> None:
    """The failing session was retried before all other sessions, so they were never tried."""
    sessions = _Sessions()
    returns = SessionCleanup(cast("Heartbeat", sessions), lambda _: None)
    sessions.trouble = {name: ServerUnavailable("no server") for name in "abc"}
    for name in "abc":
        assert returns.give_back(_child(name)) == 0
    sessions.trouble = {"c": ServerRefused("data of another program")}
    for _ in range(3):
        returns.catch_up()
    assert sorted(sessions.left) == ["a", "b"]
    sessions.trouble = {}
    returns.catch_up()
    assert sorted(sessions.left) == ["a", "b", "c"]


def test_exiting_supervisor_continues_after_refusal() -> None:
    sessions = _Sessions()
    returns = SessionCleanup(cast("Heartbeat", sessions), lambda _: None)
    sessions.trouble = {"a": ServerRefused("data of another program")}
    returns.give_back(_child("a"), leaving=True)
    assert returns.give_back(_child("b"), leaving=True) == 1


def test_exiting_supervisor_calls_unavailable_server_once() -> None:
    """Each call would take a second, and the supervisor may be killed soon."""
    sessions = _Sessions()
    returns = SessionCleanup(cast("Heartbeat", sessions), lambda _: None)
    sessions.trouble = {"a": ServerUnavailable("no server")}
    returns.give_back(_child("a"), leaving=True)
    assert returns.give_back(_child("b"), leaving=True) == 0
    assert sessions.left == []
