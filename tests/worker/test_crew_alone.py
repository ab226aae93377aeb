"""Starting worker processes on a system that has none to give."""

from __future__ import annotations

from typing import Any, NoReturn, cast

import pytest

from lockwork.errors import LockworkError
from lockwork.worker import process
from lockwork.worker.crew import Crew
from lockwork.worker.heartbeat import Heartbeat
from lockwork.worker.options import WorkerOptions

_OPTIONS = WorkerOptions("app:lw", ["default"], 1, 1, 15, 30)


@pytest.fixture
def poor(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(*_: object) -> NoReturn:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(process, "start", start)


def _crew(again: list[float]) -> Crew:
    nobody: list[Any] = []
    heartbeat = cast("Heartbeat", None)
    return Crew(_OPTIONS, "asyncio", 0, heartbeat, on_exit=nobody.append, again=again.append)


@pytest.mark.usefixtures("poor")
def test_a_missing_process_is_tried_again() -> None:
    """The supervisor must not end, and the processes that work with it, because one could not be replaced just then."""
    again: list[float] = []
    _crew(again).fill()
    assert again == [1.0]


@pytest.mark.usefixtures("poor")
def test_a_worker_that_cannot_begin_says_why() -> None:
    with pytest.raises(LockworkError, match="Resource temporarily unavailable"):
        _crew([]).fill(first=True)
