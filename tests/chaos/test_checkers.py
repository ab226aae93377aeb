"""Tests of the checkers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from chaos.checkers import Line, job_problems, lock_problems
from chaos.failovers import Failover
from chaos.job_checks import Trouble, group_problems, key_problems, unexplained
from chaos.outages import Load, Outcome
from lockwork.protocol.queue.status import QueueStatus

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
def test_job_problems_are_reported(lines: list[Line], status: QueueStatus, problem: str) -> None:
    with pytest.raises(AssertionError, match=problem):
        assert not job_problems(lines, status, 3)


def test_correct_job_histories_have_no_problems() -> None:
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
def test_lock_problems_are_reported(lines: list[Line], accepted: list[int], value: int, problem: str) -> None:
    with pytest.raises(AssertionError, match=problem):
        assert not lock_problems(lines, accepted, value)


def test_correct_lock_histories_have_no_problems() -> None:
    lines = turns((1, "enter", 5), (2, "held", 5), (3, "enter", 6), (3.5, "exit", 5), (4, "held", 6))
    assert lock_problems(lines, [5, 5, 6], 3) == []


def job_lines(*lines: tuple[str, int, int, int, float]) -> list[Line]:
    """Make lines of event, job, attempt, process and seconds; the lease is a second earlier."""
    return [
        {"event": event, "number": number, "attempt": attempt, "pid": pid, "at": at, "fence": int((at - 1) * 1e6),
         "parent": 1, "born": 2.5}
        for event, number, attempt, pid, at in lines
    ]  # fmt: skip


TWICE = job_lines(("run", 0, 1, 7, 10), ("end", 0, 1, 7, 11), ("run", 0, 2, 8, 30), ("end", 0, 2, 8, 31))


@pytest.mark.parametrize(
    ("troubles", "given_up", "count"),
    [
        ([], set(), 1),
        ([], {8}, 1),
        ([], {7}, 0),
        ([Trouble(7, 10.5, 10.5)], set(), 0),
        ([Trouble(7, 10.5, 20)], set(), 0),
        ([Trouble(8, 10.5, 10.5)], set(), 1),
        ([Trouble(7, 2, 3)], {7}, 1),
        ([Trouble(7, 20, 20)], {7}, 1),
        ([Trouble(7, 1, 2)], {7}, 0),
        ([Trouble(1, 10.5, 10.5)], set(), 0),
        ([Trouble(1, 2, 3)], set(), 1),
    ],
)
def test_unexplained_repetitions_are_reported(troubles: list[Trouble], given_up: set[int], count: int) -> None:
    assert len(unexplained(TWICE, troubles, given_up)) == count


def test_key_problems_are_reported() -> None:
    keys = {0: "a", 1: "a", 2: "b"}
    fine = job_lines(("run", 0, 1, 7, 10), ("end", 0, 1, 7, 11), ("run", 1, 1, 7, 12), ("end", 1, 1, 7, 13))
    other = job_lines(("run", 2, 1, 7, 10), ("end", 2, 1, 7, 14))
    assert key_problems(fine + other, keys) == []
    late = job_lines(("run", 0, 1, 7, 10), ("end", 0, 1, 7, 12.5))
    assert "ran at once" in key_problems(late + fine[2:], keys)[0]
    early = job_lines(("run", 1, 1, 7, 9), ("end", 1, 1, 7, 9.5))
    assert "was leased before" in key_problems(fine[:2] + early, keys)[0]


def test_group_problems_are_reported() -> None:
    lines = job_lines(("run", 0, 1, 7, 10), ("end", 0, 1, 7, 12), ("run", 1, 1, 7, 11), ("end", 1, 1, 7, 13))
    assert group_problems(lines, {0: "a", 1: "a"}, 2) == []
    assert group_problems(lines, {0: "a", 1: "b"}, 1) == []
    assert "2 jobs of the group a" in group_problems(lines, {0: "a", 1: "a"}, 1)[0]


def outcome(confirmed: dict[int, float], lines: list[Line], *failovers: Failover) -> Outcome:
    return Outcome(Load(3, 1, 1, 1), confirmed, lines, FINE, list(failovers), [], 0, [], [], 0)


@pytest.mark.parametrize(
    ("failovers", "count"),
    [
        ([], 1),
        ([Failover(11, 12, orderly=False)], 0),
        ([Failover(11, 12, orderly=True)], 1),
        ([Failover(13, 14, orderly=False)], 1),
        ([Failover(8, 9, orderly=False)], 1),
    ],
)
def test_losses_without_a_fault_are_reported(failovers: list[Failover], count: int) -> None:
    """A server with `everysec` may lose the calls of two seconds before it was killed."""
    run = outcome({0: 10, 1: 10}, job_lines(("run", 0, 1, 7, 10)), *failovers)
    assert run.lost == {1}
    assert len(run.unexplained_losses()) == count


@pytest.mark.parametrize(
    ("failovers", "count"),
    [
        ([], 1),
        ([Failover(12, 13, orderly=False)], 0),
        ([Failover(12, 13, orderly=True)], 1),
        ([Failover(2, 3, orderly=False)], 1),
        ([Failover(30.5, 31, orderly=False)], 1),
    ],
)
def test_repetitions_without_a_fault_are_reported(failovers: list[Failover], count: int) -> None:
    again, unexplained = outcome({0: 10}, TWICE, *failovers).repetitions()
    assert again == 1
    assert len(unexplained) == count
