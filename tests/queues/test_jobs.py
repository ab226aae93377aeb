"""Jobs from enqueue to result, with a real worker."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime
from typing import Any

import pytest

from history import History
from lockwork import ConfigError, JobFailed, LockworkError, ResultTimeout, ResultUnavailable


def test_tasks_may_be_async_def_or_def(chores: Any) -> None:
    assert chores.add.enqueue(1, 2).result(30) == 3
    assert chores.add.enqueue(a=5).result(30) == 6
    assert chores.multiply.enqueue(6, b=7).result(30) == 42


async def test_async_methods_of_jobs(achores: Any) -> None:
    job = await achores.add.aenqueue(1, 2)
    assert await job.aresult(30) == 3
    assert await job.astate() == "succeeded"
    jobs = await achores.multiply.aenqueue_many([(number, 2) for number in range(5)])
    assert [await job.aresult(30) for job in jobs] == [0, 2, 4, 6, 8]


def test_enqueue_many_accepts_thousands_of_jobs(chores: Any) -> None:
    jobs = chores.add.enqueue_many((number, number) for number in range(2500))
    assert len({job.id for job in jobs}) == 2500
    assert [job.result(30) for job in (jobs[0], jobs[1234], jobs[-1])] == [0, 2468, 4998]
    assert chores.add.enqueue_many([]) == []


def test_job_reads_its_own_context(chores: Any) -> None:
    job = chores.where.enqueue()
    id, task, queue, attempt, pid, thread = job.result(30)
    assert (id, task, queue, attempt) == (job.id, "where", "default", 1)
    assert pid != os.getpid()
    assert thread == "MainThread"
    job = chores.where_in_a_thread.enqueue()
    id, task, queue, attempt, pid, thread = job.result(30)
    assert (id, task) == (job.id, "where_in_a_thread")
    assert thread != "MainThread"


def test_annotated_types_survive_encoding(chores: Any) -> None:
    order = chores.Order("bob", datetime(2026, 11, 21, tzinfo=UTC))
    assert chores.tomorrow.enqueue(order).result(30) == chores.Order("Bob", datetime(2026, 11, 22, tzinfo=UTC))


def test_job_handle_is_made_from_its_id(chores: Any) -> None:
    job = chores.add.enqueue(1, 2)
    assert chores.lw.job(job.id).result(30) == 3
    assert chores.lw.job(job.id).state() == "succeeded"


def test_result_raises_timeout_while_the_job_runs(chores: Any, history: History) -> None:
    job = chores.hold.enqueue(history.path, 0.4)
    began = time.monotonic()
    late = f"job {job.id} .* has not ended yet: (it is ready|attempt 1 of 3 has been running)"
    with pytest.raises(ResultTimeout, match=late):
        job.result(timeout="100ms")
    assert time.monotonic() - began < 5
    assert job.result(30) == 1


async def test_async_result_raises_timeout_while_the_job_runs(achores: Any, history: History) -> None:
    job = await achores.hold.aenqueue(history.path, 0.4)
    with pytest.raises(ResultTimeout):
        await job.aresult(timeout=0)
    with pytest.raises(ResultTimeout):
        await job.aresult(timeout=0.1)
    assert await job.aresult(30) == 1


def test_result_that_is_not_stored_is_unavailable(chores: Any, history: History) -> None:
    job = chores.quiet.enqueue(history.path)
    with pytest.raises(ResultUnavailable, match=f"job {job.id} .* has no result: its task keeps none, or result_ttl"):
        job.result(30)
    assert len(history.lines("ran")) == 1


def test_result_of_unknown_job_is_unavailable(chores: Any) -> None:
    with pytest.raises(ResultUnavailable, match="nothing is known of job nobody in any queue on this server"):
        chores.lw.job("nobody").result(30)
    assert chores.lw.job("nobody").state() == "unknown"
    with pytest.raises(ConfigError, match="timeout must be between 0"):
        chores.lw.job("nobody").result(-1)


def test_failed_job_raises_its_error(chores: Any, history: History) -> None:
    job = chores.fails_in_a_thread.enqueue(history.path)
    with pytest.raises(JobFailed, match=f"job {job.id} in queue 'default' failed: KeyError: 'no such thing'"):
        job.result(30)
    assert job.state() == "dead"
    with pytest.raises(LockworkError):
        chores.lw.job(job.id).result(0)


def test_attempts_are_exact(chores: Any, history: History) -> None:
    """retries=2 means three attempts, numbered, and then the dead set (Q5, Q7)."""
    dead = chores.lw.queue().status().dead
    with pytest.raises(JobFailed):
        chores.fails_in_a_thread.enqueue(history.path).result(30)
    assert [line["attempt"] for line in history.lines("ran")] == [1, 2, 3]
    fences = [line["fence"] for line in history.lines("ran")]
    assert fences == sorted(set(fences))
    assert chores.lw.queue().status().dead == dead + 1


def test_retry_comes_after_the_backoff_and_can_succeed(chores: Any, history: History) -> None:
    before = chores.lw.queue().status()
    assert chores.fails_until.enqueue(history.path, 3).result(30) == 3
    lines = history.lines("ran")
    assert [line["attempt"] for line in lines] == [1, 2, 3]
    # 20 ms, doubled each time, less up to a half; the server counts in whole milliseconds
    assert lines[1]["at"] - lines[0]["at"] >= 0.009
    assert lines[2]["at"] - lines[1]["at"] >= 0.019
    after = chores.lw.queue().status()
    assert (after.retried - before.retried, after.failed - before.failed) == (2, 2)


def test_success_on_the_last_attempt_is_success(chores: Any, history: History) -> None:
    assert chores.fails_until.enqueue(history.path, 4).result(30) == 4
    with pytest.raises(JobFailed, match="not before attempt 5"):
        chores.fails_until.enqueue(history.path, 5).result(30)


def test_delayed_job_is_never_early(chores: Any, history: History) -> None:
    with chores.lw:
        began = time.time()
        jobs = [
            chores.mark.options(delay=delay).enqueue(history.path, round(delay * 1000)) for delay in (0.5, 0.2, 0.05)
        ]
        assert jobs[0].state() == "scheduled"
        lines = history.wait(3)
        assert [line["number"] for line in lines] == [50, 200, 500]
        for line in lines:
            assert line["at"] - began >= line["number"] / 1000 - 0.001


def test_zero_delay_starts_the_job_at_once(chores: Any, history: History) -> None:
    chores.mark.options(delay=0).enqueue(history.path)
    assert len(history.wait(1)) == 1


@pytest.mark.parametrize(("task", "limit"), [("too_slow", r"0\.2"), ("too_slow_in_a_thread", "1")])
def test_attempt_beyond_its_timeout_is_ended(chores: Any, history: History, task: str, limit: str) -> None:
    job = getattr(chores, task).enqueue(history.path)
    with pytest.raises(JobFailed, match=f"JobTimeout: it took longer than {limit} s"):
        job.result(30)
    assert [line["event"] for line in history.lines()] in (["ran", "cancelled"], ["ran", "interrupted"])


def test_arguments_that_do_not_match_annotations_are_not_retried(chores: Any) -> None:
    job = chores.tomorrow.enqueue({"buyer": "bob", "at": "never"})
    with pytest.raises(JobFailed, match="RFC3339"):
        job.result(30)


async def test_callers_share_one_result(achores: Any, history: History) -> None:
    import asyncio

    job = await achores.hold.aenqueue(history.path, 0.3)
    assert await asyncio.gather(*(job.aresult(30) for _ in range(50))) == [1] * 50


def test_counters_equal_a_recount(chores: Any, history: History) -> None:
    """Q10: when no job waits or runs, enqueued = ended + waiting + dead."""
    from processes import until

    chores.add.enqueue_many([(1,)] * 200)
    queue = chores.lw.queue()
    status = until(lambda: found if not ((found := queue.status()).ready or found.running) else None, "all have ended")
    assert status is not None
    assert status.enqueued == status.succeeded + status.dead + status.scheduled
