"""Detection of stuck jobs from worker announcements, without a server."""

from __future__ import annotations

from datetime import UTC, datetime

from lockwork.jobs.current import RunnerState
from lockwork.stuck import LEAST, stuck_jobs
from lockwork.workers import AwaitedJob, RunningJob, Worker, WorkerState

_NOW = datetime.fromtimestamp(0, UTC)


def job(
    id: str, *awaited: str, queue: str = "a", seconds: float = LEAST, process: int = 0, runner: RunnerState = ""
) -> RunningJob:
    """`awaited` are ids of jobs, with their queue before a slash."""
    waits = [AwaitedJob(each.split("/")[1], each.split("/")[0], seconds) for each in awaited]
    return RunningJob(id, queue, "task", _NOW, 1, waits, process, runner)


def worker(
    name: str, queues: str, slots: int, *jobs: RunningJob, state: WorkerState = "running", waiting: int = 0
) -> Worker:
    waits = waiting or sum(1 for each in jobs if each.waits_for)
    return Worker(
        name, "host", 1, "1", "app", queues.split(","), 1, slots, _NOW, 15, state, len(jobs), slots, list(jobs),
        waiting=waits,
    )  # fmt: skip


def found(*workers: Worker) -> list[tuple[str, str, str]]:
    return [(each.job.id, each.awaited.id, each.lack) for each in stuck_jobs(workers)]


def test_slots_that_all_wait_for_their_own_queue_are_stuck() -> None:
    assert found(worker("w", "a", 2, job("1", "a/x"), job("2", "a/y"))) == [("1", "x", "slot"), ("2", "y", "slot")]


def test_free_slot_is_no_reason() -> None:
    assert found(worker("w", "a", 2, job("1", "a/x"))) == []


def test_slot_that_works_is_no_reason() -> None:
    assert found(worker("w", "a", 2, job("1", "a/x"), job("2"))) == []


def test_slot_of_another_worker_is_no_reason() -> None:
    full = worker("v", "a", 1, job("1", "a/x"))
    assert found(full, worker("w", "a,b", 1)) == []
    assert found(full, worker("w", "b", 1)) == [("1", "x", "slot")]
    assert found(full, worker("w", "a", 1, state="quiet")) == [("1", "x", "slot")]
    assert found(full, worker("w", "a", 1, state="lost")) == [("1", "x", "slot")]


def test_short_wait_is_no_reason() -> None:
    assert found(worker("w", "a", 1, job("1", "a/x", seconds=LEAST - 1))) == []


def test_queue_without_a_worker_is_no_reason() -> None:
    assert found(worker("w", "a", 1, job("1", "b/x"))) == []


def test_chain_of_full_queues_is_stuck() -> None:
    first = worker("v", "a", 1, job("1", "b/x"))
    second = worker("w", "b", 1, job("2", "a/y", queue="b"))
    assert found(first, second) == [("1", "x", "slot"), ("2", "y", "slot")]
    assert found(first, worker("w", "b", 1, job("2", "c/y", queue="b")), worker("u", "c", 1)) == []
    third = worker("u", "c", 1, job("3", "c/z", queue="c"))
    assert [each[0] for each in found(first, worker("w", "b", 1, job("2", "c/y", queue="b")), third)] == ["1", "2", "3"]


def test_jobs_that_wait_for_each_other_are_stuck_in_spite_of_free_slots() -> None:
    assert found(worker("w", "a", 5, job("1", "a/2"), job("2", "a/1"), job("3", "a/x"))) == [
        ("1", "2", ""),
        ("2", "1", ""),
    ]


def test_job_with_one_possible_result_is_not_stuck() -> None:
    assert found(worker("w", "a", 1, job("1", "a/x", "b/y")), worker("v", "b", 1)) == []


def test_waits_that_are_not_named_count_like_those_that_are() -> None:
    named = [job(str(number), f"a/x{number}") for number in range(3)]
    assert len(found(worker("w", "a", 300, *named, waiting=300))) == 3
    assert found(worker("w", "a", 300, *named, waiting=299)) == []
    other = job("9", "b/x9")
    assert found(worker("w", "a", 300, *named, other, waiting=300), worker("v", "b", 1)) == []


def test_job_that_waits_for_a_runner_of_waiting_jobs_is_stuck() -> None:
    outer = job("1", "a/2", runner="runs")
    assert found(worker("w", "a", 9, outer, job("2", runner="waits"))) == [("1", "2", "runner")]
    assert found(worker("w", "a", 9, outer, job("2", runner="waits"), job("3", runner="runs"))) == []
    other = job("3", runner="runs", process=1)
    assert found(worker("w", "a", 9, outer, job("2", runner="waits"), other)) == [("1", "2", "runner")]
    assert found(worker("w", "a", 9, outer, job("2", runner="waits", process=1), other)) == []


def test_runner_that_starts_is_no_reason() -> None:
    assert found(worker("w", "a", 9, job("1", "a/2"), job("2", runner="waits"))) == []
