"""Jobs of flows that fail, die, are cancelled or retried by hand, and the effects on other jobs."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from history import History
from lockwork import JobFailed
from lockwork.errors import JobCancelled
from processes import until, worker


def test_dependents_of_a_failed_job_are_cancelled(flowing: Any, history: History) -> None:
    """Their waiters receive an error that names the failed job."""
    flow = flowing.lw.flow()
    good = flow.add(flowing.number.call(1))
    bad = flow.add(flowing.fails.call(history.path, "bad"))
    child = flow.add(flowing.noted.call(history.path, "child", good, bad))
    grandchild = flow.add(flowing.noted.call(history.path, "grandchild", child))
    other = flow.add(flowing.noted.call(history.path, "other", good))
    run = flow.enqueue()
    failed = run.job(bad).id
    with pytest.raises(JobFailed, match=f"flow {run.id} .*failed: job {failed}: ValueError: bad does not work"):
        run.result(30)
    for node in (child, grandchild):
        with pytest.raises(JobCancelled, match=f"was cancelled, because job {failed} failed"):
            run.job(node).result(0)
    assert run.job(other).result(0) == "other", "jobs that do not depend on it run"
    assert {line["name"] for line in history.lines("ran")} == {"bad", "other"}
    status = run.inspect()
    assert (status.state, status.succeeded, status.failed, status.cancelled) == ("failed", 2, 1, 2)


def test_failed_chain_in_a_chord_fails_the_flow(flowing: Any, history: History) -> None:
    """celery#6220, #9674: the chord is never notified, and its waiters wait forever."""
    flow = flowing.lw.flow()
    bad = flow.add(flowing.fails.call(history.path, "bad"))
    chains = [flow.chain(bad, flowing.noted.call(history.path, "next"), flowing.noted.call(history.path, "last"))]
    chains += [flow.chain(flowing.number.call(n), flowing.double) for n in range(3)]
    body = flow.add(flowing.total.call(chains))
    run = flow.enqueue()
    with pytest.raises(JobFailed, match="bad does not work"):
        run.result(30)
    with pytest.raises(JobCancelled, match="because job"):
        run.job(body).result(0)
    assert len(history.lines("ran")) == 1


def test_ignored_failure_becomes_none(flowing: Any, history: History) -> None:
    flow = flowing.lw.flow(on_failure="ignore")
    results = flow.group([flowing.number.call(1), flowing.fails.call(history.path, "bad"), flowing.number.call(3)])
    flow.add(flowing.gathered.call(results))
    run = flow.enqueue()
    assert run.result(30) == [[[1, None, 3]], {}]
    assert run.inspect().state == "succeeded"
    assert run.inspect().failed == 1


def test_failure_can_be_ignored_for_one_job(flowing: Any, history: History) -> None:
    flow = flowing.lw.flow()
    bad = flow.add(flowing.fails.call(history.path, "bad"), on_failure="ignore")
    flow.add(flowing.noted.call(history.path, "after", bad))
    assert flow.enqueue().result(30) == "after"
    assert history.lines("ran")[-1]["others"] == [None]


def test_job_that_kills_its_worker_fails_its_flow(own: Any, own_url: str, apps: Path, history: History) -> None:
    run = own.lw.chain(own.dies.call(history.path), own.double).enqueue()
    with worker("flowing:lw", "--lease", "1", url=own_url, folder=apps):
        with pytest.raises(JobFailed, match="it was delivered 2 of at most 2 times"):
            run.result(30)
    assert run.inspect().cancelled == 1


def test_compensations_run_in_reverse_order_and_once(flowing: Any, history: History) -> None:
    flow = flowing.lw.flow(on_failure="compensate")
    last: Any = None
    for name in "abc":
        call = flowing.noted.call(history.path, name) if last is None else flowing.noted.call(history.path, name, last)
        last = flow.add(call, compensate=partial(flowing.noted.call, history.path, f"undo {name}"))
    never = flow.add(
        flowing.noted.call(history.path, "never"), after=flow.add(flowing.fails.call(history.path, "bad"), after=last)
    )
    run = flow.enqueue()
    with pytest.raises(JobFailed, match="bad does not work; 3 compensations have run"):
        run.result(30)
    ran = [(line["name"], line.get("others")) for line in history.lines("ran")]
    assert [name for name, _ in ran] == ["a", "b", "c", "bad", "undo c", "undo b", "undo a"]
    assert ran[-1] == ("undo a", ["a"]), "a compensation gets the result of what it undoes"
    assert run.job(never).state() == "cancelled"
    assert run.inspect().compensated == 3


def test_failed_compensation_does_not_block_others(flowing: Any, history: History) -> None:
    flow = flowing.lw.flow(on_failure="compensate")
    a = flow.add(flowing.number.call(1), compensate=flowing.noted.call(history.path, "undo a"))
    b = flow.add(flowing.number.call(2), compensate=flowing.fails.call(history.path, "undo b"), after=a)
    flow.add(flowing.fails.call(history.path, "bad"), after=b)
    run = flow.enqueue()
    with pytest.raises(JobFailed, match="1 compensations have run; 1 compensations failed"):
        run.result(30)
    assert [line["name"] for line in history.lines("ran")] == ["bad", "undo b", "undo a"]
    assert run.inspect().uncompensated == 1


def test_compensation_runs_only_after_a_failure(flowing: Any, history: History) -> None:
    undo = flowing.noted.call(history.path, "undo")
    flow = flowing.lw.flow(on_failure="compensate")
    flow.add(flowing.number.call(1), compensate=undo)
    assert flow.enqueue().result(30) == 1
    flow = flowing.lw.flow()
    flow.add(flowing.fails.call(history.path, "bad"), after=flow.add(flowing.number.call(1), compensate=undo))
    with pytest.raises(JobFailed):
        flow.enqueue().result(30)
    assert [line["name"] for line in history.lines("ran")] == ["bad"]


def test_cancelled_flow_cancels_its_jobs(flowing: Any, history: History) -> None:
    flow = flowing.lw.flow()
    running = flow.add(flowing.slow.call(history.path, "slow", 60))
    flow.add(flowing.noted.call(history.path, "blocked"), after=running)
    later = flow.add(flowing.noted.options(delay="1h").call(history.path, "later"))
    run = flow.enqueue()
    history.wait(1)
    assert run.cancel()
    with pytest.raises(JobCancelled, match=f"flow {run.id} .*was cancelled"):
        run.result(30)
    assert [job.state() for job in run.jobs()] == ["cancelled"] * 3
    assert run.job(later).state() == "cancelled"
    assert run.inspect().state == "cancelled"
    assert not run.cancel()
    assert [line["name"] for line in history.lines("ran")] == ["slow"]


def test_cancelling_a_flow_compensates_finished_jobs(flowing: Any, history: History) -> None:
    flow = flowing.lw.flow(on_failure="compensate")
    done = flow.add(flowing.noted.call(history.path, "done"), compensate=flowing.noted.call(history.path, "undo"))
    flow.add(flowing.slow.call(history.path, "slow", 60), after=done)
    run = flow.enqueue()
    history.wait(2)
    assert run.cancel()
    with pytest.raises(JobCancelled):
        run.result(30)
    assert [line["name"] for line in history.lines("ran")] == ["done", "slow", "undo"]


def test_cancelled_job_cancels_its_dependents(own: Any) -> None:
    run = own.lw.chain(own.number.call(1), own.double, own.double).enqueue()
    assert run.job(2).cancel()
    assert [job.state() for job in run.jobs()] == ["ready", "cancelled", "cancelled"]
    assert run.job(1).cancel()
    with pytest.raises(JobCancelled):
        run.result(0)


def test_cancelled_job_is_not_rerun_before_its_dependencies(own: Any) -> None:
    run = own.lw.chain(own.number.call(1), own.double, own.double).enqueue()
    first, second, _ = run.jobs()
    assert second.cancel()
    assert not second.retry()
    assert second.state() == "cancelled"
    assert own.lw.queue().status().blocked == 0
    assert first.cancel()
    assert second.retry()
    assert second.state() in ("scheduled", "ready")
    assert run.inspect().cancelled == 3


def test_cleared_queue_ends_its_flows(own: Any) -> None:
    run = own.lw.chord([own.number.call(n) for n in range(5)], own.total).enqueue()
    assert own.lw.queue().clear() == 5
    with pytest.raises(JobCancelled):
        run.result(0)
    assert own.lw.queue().status().blocked == 0


def test_retried_dead_job_does_not_change_its_flow(flowing: Any, history: History, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    flow = flowing.lw.flow()
    bad = flow.add(flowing.fails_unless.call(history.path, str(gate)))
    child = flow.add(flowing.noted.call(history.path, "child", bad))
    run = flow.enqueue()
    with pytest.raises(JobFailed):
        run.result(30)
    gate.touch()
    assert run.job(bad).retry()
    assert run.job(bad).result(30) == "came through"
    assert run.inspect().state == "failed"
    # its child was cancelled because of the failure, and cannot use its result
    assert run.job(child).retry()
    until(lambda: run.job(child).state() == "dead", "it is dead")
    assert "it has none" in run.job(child).inspect().error.text
