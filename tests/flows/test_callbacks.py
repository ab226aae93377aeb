"""The options `then` and `on_error` of single jobs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from history import History
from lockwork import JobFailed
from lockwork.errors import ConfigError, JobCancelled, QueueFull
from lockwork.jobs.job import origin_of
from lockwork.protocol.queue import job_control


def names(history: History) -> list[str]:
    """Return the names of the jobs that ran, in order."""
    return [line["name"] for line in history.lines("ran")]


def stored(job: Any) -> bytes:
    """Return the record of a job."""
    origin = origin_of(job)
    record: bytes = origin.runtime.run(job_control.inspect(origin.keys, job.id)).record
    return record


def test_then_gets_the_result(flowing: Any, history: History) -> None:
    job = flowing.number.options(
        then=lambda n: flowing.noted.call(history.path, "receipt", n), on_error=flowing.double
    ).enqueue(5)
    assert job.result(30) == 5
    run = flowing.lw.flow(id=job.id)
    assert run.result(30) == "receipt"
    assert history.lines("ran")[-1]["others"] == [5]
    assert [each.state() for each in run.jobs()] == ["succeeded", "succeeded", "skipped"]


def test_on_error_gets_the_error(flowing: Any, history: History) -> None:
    charge = flowing.fails.options(
        then=flowing.noted.call(history.path, "receipt"),
        on_error=lambda error: flowing.alert.call(error, history.path),
    )
    job = charge.enqueue(history.path, "charge")
    run = flowing.lw.flow(id=job.id)
    with pytest.raises(JobFailed, match="charge does not work"):
        run.result(30)
    with pytest.raises(JobFailed, match="charge does not work"):
        job.result(0)
    assert names(history) == ["charge", "alert"]
    (alert,) = [line for line in history.lines("ran") if line["name"] == "alert"]
    assert (alert["failed"], alert["type"]) == (job.id, "ValueError")
    with pytest.raises(JobCancelled, match=f"because job {job.id} failed"):
        run.job(2).result(0)


async def test_async_enqueue_with_callbacks(aflowing: Any, history: History) -> None:
    job = await aflowing.number.options(then=[aflowing.double, aflowing.noted.call(history.path, "b")]).aenqueue(4)
    assert await job.aresult(30) == 4
    run = aflowing.lw.flow(id=job.id)
    assert await run.aresult(30) == [8, "b"]


def test_enqueue_many_adds_callbacks_to_all_jobs(flowing: Any) -> None:
    jobs = flowing.number.options(then=flowing.double).enqueue_many([(1,), (2,), (3,)])
    assert [job.result(30) for job in jobs] == [1, 2, 3]
    flows = [flowing.lw.flow(id=job.id) for job in jobs]
    assert len({flow.id for flow in flows}) == 3
    assert [flow.result(30) for flow in flows] == [2, 4, 6]


def test_removed_callbacks_leave_a_plain_job(own: Any) -> None:
    task = own.number.options(then=own.double, on_error=own.double)
    job = task.options(then=None, on_error=None).enqueue(1)
    assert job.inspect().flow is None
    assert len(task.options(then=None).call(1).callbacks.on_error) == 1


def test_call_with_callbacks_in_a_flow(own: Any, history: History) -> None:
    flow = own.lw.flow()
    node = flow.add(own.number.options(then=own.double, on_error=own.double).call(1))
    last = flow.add(own.total.call([node]))
    run = flow.enqueue()
    graph = run.graph()
    assert [each.children for each in graph] == [(2, 3, 4), (), (), ()]
    assert [each.after_failure for each in graph] == [(3,), (), (), ()]
    assert run.job(last).state() == "blocked"


@pytest.mark.parametrize("option", ["then", "on_error"])
def test_callback_that_is_no_step_is_refused(own: Any, option: str) -> None:
    for wrong in (5, "receipt", own.number.enqueue(1), [own.double, 5]):
        with pytest.raises(ConfigError, match=f"{option} must be a call, such as receipt.call"):
            own.number.options(**{option: wrong})
    with pytest.raises(ConfigError, match="the next step must be a task"):
        own.number.options(**{option: lambda _: 5}).enqueue(1)
    assert own.lw.queue().status().enqueued == 1


def test_call_with_callbacks_is_refused_where_one_job_is_enqueued(own: Any) -> None:
    call = own.number.options(then=own.double).call(1)
    with pytest.raises(ConfigError, match="has then=, so it is a flow of several jobs"):
        own.lw.schedule(call, name="s", every="1m")
    with pytest.raises(ConfigError, match="has then=, so it is a flow of several jobs"):
        own.lw.stock("phones", 5).reserve("buyer", enqueue=call)


def test_options_that_flows_do_not_support_are_refused(own: Any) -> None:
    for options, reason in (
        ({"expires": "1m"}, "cannot expire"),
        ({"unique": "a"}, "cannot be unique"),
        ({"id": "a"}, "cannot have its own"),
    ):
        with pytest.raises(ConfigError, match=reason):
            own.number.options(then=own.double, **options).enqueue(1)


def test_callbacks_after_commit(own: Any) -> None:
    callbacks: list[Any] = []
    job = own.number.options(then=own.double).on_commit(callbacks.append).enqueue(1)
    assert job.state() == "unknown"
    callbacks[0]()
    assert job.state() == "ready"
    assert own.lw.flow(id=job.id).inspect().jobs == 2


def test_flow_with_refused_callback_is_unchanged(own: Any) -> None:
    flow = own.lw.flow()
    first = flow.add(own.number.call(1))
    with pytest.raises(ConfigError, match="the next step must be a task"):
        flow.add(own.number.options(then=[own.double, lambda _: 5]).call(1), after=first)
    flow.add(own.double.call(first))
    assert flow.enqueue().inspect().jobs == 2


def test_full_queue_says_how_many_jobs_are_enqueued(own: Any) -> None:
    own.lw.queue().limit(size=5)
    with pytest.raises(QueueFull) as full:
        own.number.options(then=own.double).enqueue_many([(n,) for n in range(4)])
    assert full.value.enqueued == 2
    assert own.lw.queue().status().enqueued == 4


def test_middlewares_and_hooks_see_one_enqueue(own: Any) -> None:
    seen: list[Any] = []

    def stamped(outgoing: Any) -> Iterator[None]:
        outgoing.headers["trace"] = "7"
        yield
        seen.append((outgoing.task, outgoing.count, outgoing.ids))

    own.lw.enqueue_middleware(stamped)
    own.lw.hooks.enqueue(lambda event: seen.append((event.task, event.id, event.args)))
    jobs = own.number.options(then=own.double).enqueue_many([(1,), (2,)])
    ids = [job.id for job in jobs]
    assert seen == [("number", ids[0], [1]), ("number", ids[1], [2]), ("number", 2, tuple(ids))]
    for job in own.lw.flow(id=jobs[0].id).jobs():
        assert b'"trace":"7"' in stored(job)


def test_callbacks_have_their_own_options(own: Any) -> None:
    then = own.double.options(delay="1h", priority="high", tags=["later"])
    job = own.number.options(key="a", then=then, on_error=own.elsewhere).enqueue(1)
    run = own.lw.flow(id=job.id)
    first, second, third = (each.inspect() for each in run.jobs())
    assert (first.key, first.priority, first.tags) == ("a", "normal", ())
    assert (second.key, second.priority, second.tags) == (None, "high", ("later",))
    assert (third.queue, third.task) == ("elsewhere", "elsewhere")


def test_callback_that_cannot_take_the_error_is_refused_at_once(own: Any) -> None:
    """celery#9034: an errback with other parameters fails in the worker."""
    with pytest.raises(TypeError, match="path"):
        own.number.options(on_error=own.alert).enqueue(1)
    assert own.lw.queue().status().enqueued == 0


def test_retries_keep_the_callbacks_and_start_none(flowing: Any, history: History) -> None:
    """dramatiq#425: on_failure runs after each attempt."""
    task = flowing.fails_twice.options(
        then=lambda result: flowing.noted.call(history.path, "then", result),
        on_error=flowing.noted.call(history.path, "alert"),
    )
    job = task.enqueue(history.path)
    assert flowing.lw.flow(id=job.id).result(30) == "then"
    assert names(history) == ["fails_twice"] * 3 + ["then"]
    assert history.lines("ran")[-1]["others"] == ["at last"]


def test_deleted_job_runs_no_callback(own: Any) -> None:
    """bullmq#1752: a flow waits forever for a job that was removed."""
    job = own.number.options(then=own.double, on_error=own.double).enqueue(1)
    assert job.delete()
    run = own.lw.flow(id=job.id)
    assert [each.state() for each in run.jobs()][1:] == ["cancelled", "skipped"]
    assert run.inspect().state == "cancelled"


def test_cleared_queue_runs_no_callback(own: Any) -> None:
    job = own.number.options(then=own.double, on_error=own.double).enqueue(1)
    assert own.lw.queue().clear() == 1
    assert own.lw.flow(id=job.id).inspect().skipped == 1
    assert own.lw.queue().status().blocked == 0
