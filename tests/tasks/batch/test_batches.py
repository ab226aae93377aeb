"""Batch tasks in a real worker: the composition of batches, and a separate outcome for each job."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from history import History
from lockwork import JobFailed, PayloadTooLarge
from lockwork.errors import JobCancelled
from processes import until


@pytest.mark.parametrize("task", ["squares", "squares_in_a_thread"])
def test_jobs_are_run_in_batches(batched: Any, work: Any, history: History, task: str) -> None:
    jobs = getattr(batched, task).enqueue_many([(number,) for number in range(20)])
    with work("batched", "--concurrency", "20"):
        assert [job.result(30) for job in jobs] == [number * number for number in range(20)]
        calls = sorted(history.lines("ran"), key=lambda call: int(call["items"][0]))  # threads may overtake each other
    assert [call["items"] for call in calls] == [list(range(10)), list(range(10, 20))]
    assert [id for call in calls for id in call["ids"]] == [job.id for job in jobs]
    status = batched.lw.queue().status()
    assert (status.succeeded, status.failed, status.running) == (20, 0, 0)


def test_batch_waits_no_longer_than_its_linger(batched: Any, work: Any, history: History) -> None:
    with work("batched", "--concurrency", "20"):
        assert [batched.lingers.enqueue(number).result(30) for number in range(3)] == [0, 1, 2]
        jobs = batched.lingers.enqueue_many([(number,) for number in range(5)])
        assert [job.result(30) for job in jobs] == list(range(5))
    assert [call["items"] for call in history.lines("ran")] == [[0], [1], [2], list(range(5))]


def test_without_linger_a_batch_takes_the_ready_jobs(batched: Any, work: Any, history: History) -> None:
    jobs = batched.at_once.enqueue_many([(number,) for number in range(50)])
    with work("batched", "--concurrency", "50"):
        for job in jobs:
            assert job.result(30) is None
    calls = [call["items"] for call in history.lines("ran")]
    assert sorted(item for call in calls for item in call) == list(range(50))
    assert len(calls) <= 2


def test_batch_starts_when_all_slots_are_used(batched: Any, work: Any, history: History) -> None:
    """Two slots make batches of two, without the linger of a minute."""
    jobs = batched.patient.enqueue_many([(number,) for number in range(6)])
    with work("batched", "--concurrency", "2") as process:
        for job in jobs:
            assert job.result(30) is None
        assert "takes up to 10 jobs in one call, but this process runs only 2 at once" in process.errors
    assert [call["items"] for call in history.lines("ran")] == [[0, 1], [2, 3], [4, 5]]


def test_other_jobs_run_while_a_batch_waits(batched: Any, work: Any, history: History) -> None:
    with work("batched", "--concurrency", "3"):
        patient = batched.patient.enqueue(1)
        assert [batched.add.enqueue(number, 1).result(30) for number in range(5)] == [1, 2, 3, 4, 5]
        assert history.lines("ran") == []
        assert patient.cancel()
        with pytest.raises(JobCancelled):
            patient.result(30)
    assert history.lines("ran") == []


def test_items_fail_and_are_retried_separately(batched: Any, work: Any, history: History) -> None:
    jobs = batched.picky.enqueue_many([("later",), ("never",), ("large",), ("well",)])
    with work("batched", "--concurrency", "4"):
        assert jobs[3].result(30) == "WELL"
        with pytest.raises(JobFailed, match="PermissionError: not this one"):
            jobs[1].result(30)
        with pytest.raises(JobFailed, match="PayloadTooLarge") as caught:
            jobs[2].result(30)
        assert caught.value.type == PayloadTooLarge.__name__
        assert history.lines("ran")[0]["items"] == ["later", "never", "large", "well"]
        # three more jobs fill the batch that contains the retry of the first one
        more = batched.picky.enqueue_many([("a",), ("b",), ("c",)])
        assert [job.result(30) for job in (jobs[0], *more)] == ["LATER", "A", "B", "C"]
    attempts = {
        id: attempt for call in history.lines("ran") for id, attempt in zip(call["ids"], call["attempts"], strict=True)
    }
    assert [attempts[job.id] for job in jobs] == [2, 1, 1, 1]
    status = batched.lw.queue().status()
    assert (status.succeeded, status.dead, status.retried, status.failed) == (5, 2, 1, 3)


def test_error_of_the_call_fails_all_jobs(batched: Any, work: Any, history: History) -> None:
    jobs = batched.fails_once.enqueue_many([(1,), (2,), (3,)])
    with work("batched", "--concurrency", "3"):
        assert [job.result(30) for job in jobs] == [1, 2, 3]
    assert history.lines("ran")[0]["attempts"] == [1, 1, 1]
    assert all(set(call["attempts"]) == {2} for call in history.lines("ran")[1:])


def test_wrong_number_of_results_runs_no_job_twice(batched: Any, work: Any, history: History) -> None:
    jobs = batched.miscounts.enqueue_many([(1,), (2,), (3,)])
    with work("batched", "--concurrency", "3"):
        for job in jobs:
            with pytest.raises(
                JobFailed, match="WrongResults: batch task 'miscounts' was given 3 items, and returned 1"
            ):
                job.result(30)
    assert len(history.lines("ran")) == 1


@pytest.mark.parametrize("task", ["too_slow", "too_slow_in_a_thread"])
def test_timeout_applies_to_the_whole_call(batched: Any, work: Any, task: str) -> None:
    jobs = getattr(batched, task).enqueue_many([(1,), (2,)])
    with work("batched", "--concurrency", "2"):
        for job in jobs:
            with pytest.raises(JobFailed, match="JobTimeout"):
                job.result(30)


def test_unreadable_item_fails_alone(batched: Any, work: Any, history: History) -> None:
    with work("batched", "--concurrency", "20"):
        bad = batched.keyed.enqueue("no pair")
        with pytest.raises(JobFailed, match="Expected `array`"):
            bad.result(30)
        jobs = batched.squares.enqueue_many([(number,) for number in range(10)])
        assert [job.result(30) for job in jobs] == [number * number for number in range(10)]


@pytest.mark.parametrize("task", ["held", "held_in_a_thread"])
def test_job_cancelled_during_the_fetch_is_held(
    batched: Any, work: Any, history: History, tmp_path: Path, task: str
) -> None:
    """The call can detect the cancellation; a finished item has succeeded anyway."""
    gate = tmp_path / "gate"
    jobs = getattr(batched, task).enqueue_many([(str(gate),)] * 3)
    with work("batched", "--concurrency", "3"):
        history.wait(1)
        assert jobs[1].cancel()
        history.wait(1, "told")
        assert jobs[1].state() == "running"
        gate.touch()
        assert [job.result(30) for job in jobs] == [False, True, False]
    assert history.lines("cancelled") == []


@pytest.mark.parametrize("task", ["held", "held_in_a_thread"])
def test_call_is_cancelled_when_all_its_jobs_are_cancelled(
    batched: Any, work: Any, history: History, tmp_path: Path, task: str
) -> None:
    jobs = getattr(batched, task).enqueue_many([(str(tmp_path / "never"),)] * 3)
    with work("batched", "--concurrency", "3") as process:
        history.wait(1)
        for job in jobs:
            assert job.cancel()
        for job in jobs:
            with pytest.raises(JobCancelled):
                job.result(30)
        assert batched.add.enqueue(1, 1).result(30) == 2
        assert len(process.children()) == 1
    assert len(history.lines("cancelled")) == 1
    assert batched.lw.queue().status().cancelled == 3


def test_batch_jobs_are_returned_at_the_end_of_the_grace(
    batched: Any, work: Any, history: History, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    jobs = batched.held.enqueue_many([(str(gate),)] * 3)
    with work("batched", "--concurrency", "5", "--grace", "100ms") as process:
        history.wait(1)
        process.send(signal.SIGTERM)
        assert process.wait() == 0
    assert len(history.lines("cancelled")) == 1
    assert batched.lw.queue().status().ready == 3
    assert [job.inspect().attempts for job in jobs] == [0] * 3
    gate.touch()
    with work("batched", "--concurrency", "3"):
        assert [job.result(30) for job in jobs] == [False] * 3


def test_stopping_worker_starts_lingering_batch_at_once(batched: Any, work: Any, history: History) -> None:
    """Otherwise, each deployment would take as long as the linger."""
    jobs = batched.patient.enqueue_many([(1,), (2,)])
    with work("batched", "--concurrency", "5", "--grace", "10m") as process:
        until(lambda: batched.lw.queue().status().running == 2, "they are there")
        process.send(signal.SIGTERM)
        assert process.wait() == 0
    assert [job.result(1) for job in jobs] == [None, None]
    assert [line["items"] for line in history.lines("ran")] == [[1, 2]]


def test_batch_of_killed_supervisor_does_not_start(batched: Any, work: Any, history: History) -> None:
    """The jobs return to the queue at once, so they must not start here."""
    jobs = batched.patient.enqueue_many([(1,), (2,)])
    with work("batched", "--concurrency", "5") as process:
        until(lambda: batched.lw.queue().status().running == 2, "they are there")
        assert len(process.children()) == 1
        process.send(signal.SIGKILL)
        until(lambda: batched.lw.queue().status().ready == 2, "they were given back")
    assert history.lines("ran") == []
    assert [job.state() for job in jobs] == ["ready"] * 2


def test_batch_of_a_killed_process_runs_again_item_by_item(
    batched: Any, work: Any, history: History, tmp_path: Path
) -> None:
    """The jobs shared a crash, so each runs alone."""
    gate = tmp_path / "gate"
    jobs = batched.held.enqueue_many([(str(gate),)] * 3)
    with work("batched", "--concurrency", "3"):
        (call,) = history.wait(1)
        os.kill(call["pid"], signal.SIGKILL)
        history.wait(2)
        gate.touch()
        assert [job.result(30) for job in jobs] == [False] * 3
    again = history.lines("ran")[1:]
    assert [line["attempts"] for line in again] == [[2]] * 3
    assert sorted(line["ids"] for line in again) == sorted([job.id] for job in jobs)


def test_jobs_of_one_key_meet_in_no_call(batched: Any, work: Any, history: History) -> None:
    pairs = [(number % 3, f"{number}") for number in range(9)]
    jobs = batched.keyed.enqueue_many([(pair,) for pair in pairs])
    with work("batched", "--concurrency", "3"):
        assert [job.result(30) for job in jobs] == [text for _, text in pairs]
    for call in history.lines("ran"):
        numbers = [number for number, _ in call["items"]]
        assert len(set(numbers)) == len(numbers)
    by_key = [text for call in history.lines("ran") for number, text in call["items"] if number == 0]
    assert by_key == ["0", "3", "6"]


@pytest.mark.parametrize("task", ["stores", "stores_in_a_thread"])
def test_injected_values_live_as_long_as_the_call(batched: Any, work: Any, history: History, task: str) -> None:
    jobs = getattr(batched, task).enqueue_many([(1,), (2,), (3,)])
    with work("batched", "--concurrency", "3"):
        assert [job.result(30) for job in jobs] == [43, 44, 45]
    assert len(history.lines("closed")) == 1


def test_current_jobs_are_the_jobs_of_the_call(batched: Any, work: Any) -> None:
    jobs = batched.asks.enqueue_many([(1,), (2,), (3,)])
    with work("batched", "--concurrency", "3"):
        assert [job.result(30) for job in jobs] == [
            "the jobs of a batch are running here: a batch task must call current_jobs()",
            ["asks"] * 3,
            [job.id for job in jobs],
        ]
        assert batched.add.enqueue(1, 1).result(30) == 2


def test_hooks_run_for_each_job(batched: Any, work: Any, history: History, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOKS", "1")
    jobs = batched.picky.enqueue_many([("a",), ("never",), ("b",), ("c",)])
    hook_lines = Path(f"{history.path}.hooks")
    with work("batched", "--concurrency", "4"):
        until(lambda: hook_lines.exists() and hook_lines.read_text().count("\n") == 8, "all hooks ran")
    lines = [json.loads(line) for line in hook_lines.read_text().splitlines()]
    by_job = {job.id: sorted([event, what] for event, id, what in lines if id == job.id) for job in jobs}
    assert by_job[jobs[0].id] == [["start", "['a']"], ["success", "'A'"]]
    assert by_job[jobs[1].id] == [["failure", "PermissionError('not this one')"], ["start", "['never']"]]


def test_once_makes_a_batch_of_one(batched: Any, work: Any, history: History) -> None:
    jobs = batched.squares.enqueue_many([(2,), (3,)])
    with work("batched", "--once") as process:
        assert jobs[0].result(30) == 4
        assert process.wait() == 0
    assert [call["items"] for call in history.lines("ran")] == [[2]]
    assert batched.lw.queue().status().ready == 1
