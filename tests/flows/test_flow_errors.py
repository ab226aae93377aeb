"""Jobs of flows that run only after a failure."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from history import History
from lockwork import JobFailed
from lockwork.errors import ConfigError, JobCancelled
from processes import worker


def names(history: History) -> list[str]:
    """Return the names of the jobs that ran, in order."""
    return [line["name"] for line in history.lines("ran")]


def test_job_after_failure_gets_the_error(flowing: Any, history: History) -> None:
    flow = flowing.lw.flow()
    bad = flow.add(flowing.fails.call(history.path, "bad"))
    alert = flow.add(flowing.alert.call(bad.error, history.path))
    run = flow.enqueue()
    with pytest.raises(JobFailed, match="bad does not work"):
        run.result(30)
    assert run.job(alert).result(0) == "alert"
    (line,) = [each for each in history.lines("ran") if each["name"] == "alert"]
    assert line["failed"] == run.job(bad).id
    assert (line["queue"], line["type"], line["text"]) == ("default", "ValueError", "bad does not work")
    status = run.inspect()
    assert (status.state, status.succeeded, status.failed, status.skipped) == ("failed", 1, 1, 0)


def test_job_after_failure_is_skipped_after_success(flowing: Any, history: History) -> None:
    flow = flowing.lw.flow()
    good = flow.add(flowing.noted.call(history.path, "good"))
    alert = flow.add(flowing.alert.call(good.error, history.path))
    after_alert = flow.add(flowing.noted.call(history.path, "after the alert"), after=alert)
    run = flow.enqueue()
    assert run.result(30) == "good", "the default result leaves out what runs only after a failure"
    status = run.inspect()
    assert (status.state, status.succeeded, status.cancelled, status.skipped) == ("succeeded", 1, 0, 2)
    assert status.ended == 3
    for node in (alert, after_alert):
        job = run.job(node)
        assert job.state() == job.inspect().state == "skipped"
        with pytest.raises(JobCancelled, match="was skipped: it runs only after a failure"):
            job.result(0)
        assert not job.retry()
        assert not job.cancel()
    assert run.job(alert).inspect().task == "alert"
    assert run.job(alert).inspect().args == (f"<error of job {run.job(good).id}>", history.path)
    assert names(history) == ["good"]


def test_failure_of_an_earlier_job_reaches_the_handler_of_the_last(flowing: Any, history: History) -> None:
    """celery#3709, #6220: errbacks of a chain or chord are not called when an earlier step fails."""
    flow = flowing.lw.flow()
    first = flow.add(flowing.fails.call(history.path, "first"))
    last = flow.chain(first, flowing.double, flowing.double)
    alert = flow.add(flowing.alert.call(last.error, history.path))
    run = flow.enqueue()
    assert run.job(alert).result(30) == "alert"
    (line,) = [each for each in history.lines("ran") if each["name"] == "alert"]
    assert (line["failed"], line["text"]) == (run.job(first).id, "first does not work")


def test_handler_waits_for_all_jobs_that_may_fail(flowing: Any, history: History) -> None:
    """bullmq#4248: the handler must not start before the other jobs have ended, nor run twice."""
    flow = flowing.lw.flow()
    bad = flow.add(flowing.fails.call(history.path, "bad"))
    slow = flow.add(flowing.slow.call(history.path, "slow", 0.3))
    worse = flow.add(flowing.fails.call(history.path, "worse"), after=slow)
    flow.add(flowing.alert_any.call([bad.error, slow.error, worse.error], history.path))
    run = flow.enqueue()
    with pytest.raises(JobFailed):
        run.result(30)
    assert names(history)[-1] == "alert"
    assert names(history).count("alert") == 1
    assert history.lines("ran")[-1]["failed"] == [run.job(bad).id, None, run.job(worse).id]


def test_handler_uses_results_of_other_jobs(flowing: Any, history: History) -> None:
    flow = flowing.lw.flow()
    reserved = flow.add(flowing.number.call(7))
    charged = flow.add(flowing.fails.call(history.path, "charge", reserved))
    release = flow.add(flowing.noted.call(history.path, "release", reserved), after_failure=charged)
    run = flow.enqueue()
    assert run.job(release).result(30) == "release"
    assert history.lines("ran")[-1]["others"] == [7]


def test_handler_is_cancelled_if_another_job_that_it_needs_fails(flowing: Any, history: History) -> None:
    flow = flowing.lw.flow()
    charged = flow.add(flowing.fails.call(history.path, "charge"))
    needed = flow.add(flowing.fails.call(history.path, "needed"))
    handler = flow.add(flowing.noted.call(history.path, "handler", needed), after_failure=charged)
    run = flow.enqueue()
    with pytest.raises(JobCancelled, match=f"because job {run.job(needed).id} failed"):
        run.job(handler).result(30)


def test_job_after_both_ways_runs_in_any_case(flowing: Any, history: History) -> None:
    """A skipped job with on_failure="ignore" lets the jobs that wait for it run."""
    for path, expected in (("good", ["good", "after"]), ("bad", ["bad", "handler", "after"])):
        flow = flowing.lw.flow(on_failure="ignore")
        task = flowing.noted if path == "good" else flowing.fails
        first = flow.add(task.call(history.path, path))
        handler = flow.add(flowing.noted.call(history.path, "handler"), after_failure=first)
        last = flow.add(flowing.noted.call(history.path, "after", handler), after=first)
        before = len(names(history))
        run = flow.enqueue()
        assert run.result(30) == "after"
        assert names(history)[before:] == expected
        assert history.lines("ran")[-1]["others"] == [None if path == "good" else "handler"]
        assert run.job(last).state() == run.inspect().state == "succeeded"


def test_cancelled_job_skips_its_handler(own: Any) -> None:
    flow = own.lw.flow()
    job = flow.add(own.number.call(1))
    later = flow.add(own.double.call(job))
    handlers = [flow.add(own.number.call(2), after_failure=node) for node in (job, later)]
    run = flow.enqueue()
    assert run.job(job).cancel()
    assert [run.job(node).state() for node in handlers] == ["skipped", "skipped"]
    assert run.inspect().state == "cancelled"
    assert own.lw.queue().status().skipped == 2


def test_cancelled_flow_cancels_its_handlers(own: Any) -> None:
    flow = own.lw.flow()
    handler = flow.add(own.number.call(2), after_failure=flow.add(own.number.call(1)))
    run = flow.enqueue()
    assert run.cancel()
    assert run.job(handler).state() == "cancelled"
    assert (run.inspect().cancelled, run.inspect().skipped) == (2, 0)


def test_dead_worker_starts_the_handler(own: Any, own_url: str, apps: Path, history: History) -> None:
    """bullmq#2464: jobs that stall too often do not fail their parents."""
    flow = own.lw.flow()
    dies = flow.add(own.dies.call(history.path))
    alert = flow.add(own.alert.call(dies.error, history.path))
    run = flow.enqueue()
    with worker("flowing:lw", "--lease", "1", url=own_url, folder=apps):
        assert run.job(alert).result(30) == "alert"
    assert history.lines("ran")[-1]["type"] == "WorkerDied"


def test_handlers_run_before_compensations(flowing: Any, history: History) -> None:
    flow = flowing.lw.flow(on_failure="compensate")
    paid = flow.add(flowing.number.call(1), compensate=flowing.noted.call(history.path, "undo"))
    bad = flow.add(flowing.fails.call(history.path, "bad"), after=paid)
    flow.add(flowing.alert.call(bad.error, history.path))
    with pytest.raises(JobFailed, match="1 compensations have run"):
        flow.enqueue().result(30)
    assert names(history) == ["bad", "alert", "undo"]


def test_retried_job_does_not_start_its_handler_again(flowing: Any, history: History, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    job = flowing.fails_unless.options(
        then=flowing.noted.call(history.path, "receipt"), on_error=flowing.noted.call(history.path, "alert")
    ).enqueue(history.path, str(gate))
    run = flowing.lw.flow(id=job.id)
    with pytest.raises(JobFailed):
        run.result(30)
    gate.touch()
    assert job.retry()
    assert job.result(30) == "came through"
    assert [each.state() for each in run.jobs()] == ["succeeded", "cancelled", "succeeded"]
    assert names(history) == ["fails_unless", "alert", "fails_unless"]


def test_unannotated_error_is_a_dict(flowing: Any, history: History) -> None:
    flow = flowing.lw.flow()
    bad = flow.add(flowing.fails.call(history.path, "bad"))
    handler = flow.add(flowing.gathered.call(bad.error))
    run = flow.enqueue()
    ((error,), _) = run.job(handler).result(30)
    assert error.pop("traceback").endswith("ValueError: bad does not work\n")
    assert error == {"id": run.job(bad).id, "queue": "default", "type": "ValueError", "text": "bad does not work"}


def test_chain_begins_with_an_error(flowing: Any, history: History) -> None:
    flow = flowing.lw.flow()
    bad = flow.add(flowing.fails.call(history.path, "bad"))
    last = flow.chain(
        bad.error, lambda error: flowing.alert.call(error, history.path), lambda name: flowing.gathered.call(name)
    )
    run = flow.enqueue()
    assert run.job(last).result(30) == [["alert"], {}]


def test_plans_refuse_wrong_uses_of_errors(own: Any, history: History) -> None:
    flow = own.lw.flow()
    node, other = flow.add(own.number.call(1)), own.lw.flow().add(own.number.call(1))
    for call, options, reason in (
        (own.gathered.call(node, node.error), {}, "waits for the success and for the failure of job 1"),
        (own.number.call(1), {"after": node, "after_failure": [node]}, "waits for the success and for the failure"),
        (own.number.call(1), {"after": node.error}, "use after_failure"),
        (own.gathered.call(other.error), {}, "not a job of this flow"),
        (own.number.call(1), {"after_failure": other}, "not a job of this flow"),
        (own.number.call(1), {"compensate": own.gathered.call(node.error)}, "the compensation 'gathered' cannot"),
        (own.number.call(1), {"compensate": own.number.options(then=own.double).call(1)}, "cannot have then"),
    ):
        with pytest.raises(ConfigError, match=reason):
            flow.add(call, **options)
    with pytest.raises(ConfigError, match="use after_failure"):
        flow.returning(node.error)
    with pytest.raises(ConfigError, match="uses results of a flow's jobs"):
        own.lw.schedule(own.gathered.call(node.error), name="s", every="1m")
    assert flow.enqueue().inspect().jobs == 1
