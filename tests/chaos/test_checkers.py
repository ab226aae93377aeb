"""The checkers find what they are there for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from chaos.checkers import Line, job_problems, lock_problems
from lockwork.protocol.jobs import QueueStatus

FINE = QueueStatus(ready=0, scheduled=0, running=0, dead=0, enqueued=3, succeeded=3, failed=0, retried=0, recovered=0)


def runs(*ran: tuple[int, int]) -> list[Line]:
    return [{"event": "run", "number": n, "attempt": a, "fence": at} for at, (n, a) in enumerate(ran, 1)]


@pytest.mark.parametrize(
    ("lines", "status", "problem"),
    [
        (runs((0, 1), (2, 1)), FINE, "1 jobs never ran"),
        (runs((0, 1), (1, 1), (2, 1)), replace(FINE, succeeded=4), "4 jobs were settled"),
        (runs((0, 1), (1, 1), (2, 1)), replace(FINE, succeeded=2, running=1), "left somewhere"),
        (runs((0, 1), (1, 1), (2, 1), (1, 1)), replace(FINE, recovered=1), r"ran twice.*\(1, 1\)"),
        (runs((0, 1), (1, 1), (2, 1), (1, 2)), FINE, "only 0 recoveries"),
        (runs((0, 1), (1, 2), (2, 1), (1, 1)), replace(FINE, recovered=1), "fence of job 1 did not rise"),
    ],
)
def test_jobs(lines: list[Line], status: QueueStatus, problem: str) -> None:
    with pytest.raises(AssertionError, match=problem):
        assert not job_problems(lines, status, 3)


def test_jobs_that_are_fine() -> None:
    assert job_problems(runs((0, 1), (1, 1), (2, 1)), FINE, 3) == []
    assert job_problems(runs((0, 1), (1, 1), (2, 1), (1, 2)), replace(FINE, recovered=1), 3) == []


def turns(*lines: tuple[float, str, int]) -> list[Line]:
    return [{"at": at, "event": event, "fence": fence} for at, event, fence in lines]


@pytest.mark.parametrize(
    ("lines", "accepted", "value", "problem"),
    [
        (turns((1, "enter", 5), (2, "enter", 5)), [], 0, "fence 5 was granted twice"),
        (turns((1, "enter", 5), (2, "enter", 6), (3, "held", 5)), [], 0, "1 times a holder believed"),
        (turns((1, "enter", 5)), [5, 6, 5], 3, "1 writes with an old fence"),
        (turns((1, "enter", 5)), [5, 6], 1, "2 writes were accepted, and the count is 1"),
    ],
)
def test_locks(lines: list[Line], accepted: list[int], value: int, problem: str) -> None:
    with pytest.raises(AssertionError, match=problem):
        assert not lock_problems(lines, accepted, value)


def test_locks_that_are_fine() -> None:
    lines = turns((1, "enter", 5), (2, "held", 5), (3, "enter", 6), (3.5, "exit", 5), (4, "held", 6))
    assert lock_problems(lines, [5, 5, 6], 3) == []
