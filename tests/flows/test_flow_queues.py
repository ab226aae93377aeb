"""Flows whose jobs are in several queues and partitions."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from app_modules import shared_app
from clients import client_of
from history import History
from lockwork.errors import JobCancelled, JobFailed, QueueFull
from lockwork.protocol.flows.relay import relay
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queue import leases
from lockwork.testing import record
from processes import until, worker

busy_url, crossing, acrossing = shared_app("crossing")
_QUEUES = ("home", "other", "parts/0", "parts/1", "parts/2")
_WINDOW = 600_000


def test_chain_passes_results_from_queue_to_queue(crossing: Any) -> None:
    run = crossing.lw.chain(crossing.number.call(5), crossing.double, crossing.number, crossing.double).enqueue()
    assert run.queue == "home"
    assert run.result(30) == 20
    status = run.inspect()
    assert (status.state, status.jobs, status.succeeded) == ("succeeded", 4, 4)
    assert [job.queue for job in run.jobs()] == ["home", "other", "home", "other"]
    assert [job.result(5) for job in run.jobs()] == [5, 10, 10, 20]


def test_chord_collects_results_of_queues_and_partitions(crossing: Any) -> None:
    calls = [crossing.double.call(1), *(crossing.keyed.call(n) for n in range(20)), crossing.number.call(3)]
    run = crossing.lw.chord(calls, crossing.total).enqueue()
    assert run.result(30) == 2 + sum(range(20)) + 3
    queues = {job.queue for job in run.jobs()}
    assert {"other", "home"} < queues
    assert len(queues & {"parts/0", "parts/1", "parts/2"}) > 1


def test_keys_of_one_queue_may_decide_several_partitions(crossing: Any) -> None:
    run = crossing.lw.group(crossing.keyed.call(n) for n in range(10)).enqueue()
    assert run.result(30) == list(range(10))


async def test_async_methods_across_queues(acrossing: Any) -> None:
    flow = acrossing.lw.flow()
    doubles = [flow.add(acrossing.double.call(n)) for n in range(5)]
    last = flow.add(acrossing.total.call([flow.add(acrossing.number.call(node)) for node in doubles]))
    run = await flow.aenqueue()
    assert await run.aresult(30) == 20
    assert await run.job(last).aresult(5) == 20
    assert [await job.aresult(5) for job in await run.ajobs()][:6] == [0, 2, 4, 6, 8, 0]
    assert {node.queue for node in await run.agraph()} == {None, "home", run.job(last).queue}
    assert not await run.acancel()


def test_flow_with_large_results_across_queues(crossing: Any) -> None:
    names = ["x" * 300_000 + str(n) for n in range(8)]
    flow = crossing.lw.flow()
    nodes = [flow.add(crossing.gathered.call("/dev/null", name, [])) for name in names]
    last = flow.add(crossing.gathered.call("/dev/null", "end", nodes))
    flow.add(crossing.number.call(1), after=[last])
    run = flow.returning(nodes).enqueue()
    assert run.result(30) == names


def test_flow_is_found_again_from_each_of_its_queues(crossing: Any) -> None:
    run = crossing.lw.chain(crossing.number.call(2), crossing.double).enqueue()
    assert run.result(30) == 4
    for queue in ("home", "other"):
        again = crossing.lw.flow(id=run.id, queue=queue)
        assert again.inspect().state == "succeeded"
        assert again.queue == "home"
        assert crossing.lw.flow(id=run.id, queue=queue).result(5) == 4
        assert [node.queue for node in crossing.lw.flow(id=run.id, queue=queue).graph()] == [None, "other"]
        found = crossing.lw.flow(id=run.id, queue=queue).job(2)
        assert (found.result(5), found.queue) == (4, "other")
        assert crossing.lw.flow(id=run.id, queue=queue).job(2).state() == "succeeded"
        assert [job.result(5) for job in crossing.lw.flow(id=run.id, queue=queue).jobs()] == [2, 4]
    listed = [each for each in crossing.lw.flows().flows if each.id == run.id]
    assert [each.queue for each in listed] == ["home"]


async def test_found_jobs_of_a_flow_are_gathered(acrossing: Any) -> None:
    run = await acrossing.lw.chain(acrossing.number.call(2), acrossing.double).aenqueue()
    await run.aresult(30)
    again = acrossing.lw.flow(id=run.id, queue="home")
    assert await acrossing.lw.agather([again.job(1), again.job(2)]) == [2, 4]


def test_jobs_elsewhere_wait_for_those_of_the_home(idle: Any) -> None:
    flow = idle.lw.flow()
    first = flow.add(idle.number.call(1))
    second = flow.add(idle.double.call(first))
    other = flow.add(idle.double.options(delay="1h").call(3))
    run = flow.enqueue()
    assert [run.job(node).state() for node in (first, second, other)] == ["ready", "blocked", "scheduled"]
    assert [node.state for node in run.graph()] == ["ready", "blocked", "scheduled"]
    status = idle.lw.queue("other").status()
    assert (status.blocked, status.scheduled, status.enqueued) == (1, 1, 2)
    assert (idle.lw.queue("home").status().blocked, idle.lw.queue("home").status().enqueued) == (0, 1)
    assert not run.job(second).reschedule(delay="1h")


def test_failure_cancels_dependents_in_other_queues(crossing: Any, history: History) -> None:
    flow = crossing.lw.flow()
    bad = flow.add(crossing.fails.call(history.path, "bad"))
    after = flow.add(crossing.number.call(1), after=[bad])
    last = flow.add(crossing.double.call(after))
    run = flow.enqueue()
    with pytest.raises(JobFailed, match="bad does not work"):
        run.result(30)
    assert run.queue == "other"
    for node in (after, last):
        with pytest.raises(JobCancelled, match=run.job(bad).id):
            run.job(node).result(5)


def test_failure_elsewhere_can_be_ignored(crossing: Any, history: History) -> None:
    flow = crossing.lw.flow()
    one = flow.add(crossing.number.call(1))
    bad = flow.add(crossing.fails.call(history.path, "bad"), on_failure="ignore", after=[one])
    flow.add(crossing.gathered.call(history.path, "end", [bad]))
    assert flow.enqueue().result(30) == "end"
    assert history.lines("ran")[-1]["others"] == [None]


def test_compensations_run_in_their_queues_latest_success_first(crossing: Any, history: History) -> None:
    flow = crossing.lw.flow(on_failure="compensate")
    undone = crossing.undone
    one = flow.add(crossing.number.call(1), compensate=lambda n: undone.call(history.path, "one", n))
    two = flow.add(crossing.double.call(one), compensate=lambda n: undone.call(history.path, "two", n))
    three = flow.add(crossing.total.call([two]), compensate=crossing.double)
    flow.add(crossing.fails.call(history.path, "bad"), after=[three])
    run = flow.enqueue()
    with pytest.raises(JobFailed, match="3 compensations have run"):
        run.result(30)
    assert [(line["name"], line["result"]) for line in history.lines("undone")] == [("two", 2), ("one", 1)]
    assert (run.inspect().compensated, run.inspect().uncompensated) == (3, 0)


def test_cancelled_flow_stops_jobs_in_all_queues(crossing: Any, history: History) -> None:
    flow = crossing.lw.flow()
    one = flow.add(crossing.number.call(1))
    runs = flow.add(crossing.sleeps.call(history.path), after=[one])
    waits = flow.add(crossing.double.call(1), after=[runs])
    later = flow.add(crossing.double.options(delay="1h").call(1))
    run = flow.enqueue()
    history.wait(1, "sleeps")
    assert crossing.lw.flow(id=run.id, queue="other").cancel()
    until(lambda: run.inspect().state == "cancelled", "the flow has ended")
    assert [run.job(node).state() for node in (one, runs, waits, later)] == ["succeeded", *["cancelled"] * 3]
    assert run.inspect().cancelled == 3


def test_cancelled_job_elsewhere_counts_as_failed(idle: Any) -> None:
    flow = idle.lw.flow()
    one = flow.add(idle.number.call(1))
    two = flow.add(idle.double.call(one))
    run = flow.enqueue()
    assert run.job(two).cancel()
    assert run.job(two).state() == "cancelled"
    assert not run.job(two).retry()
    assert idle.lw.queue("other").status().blocked == 0


def test_clearing_another_queue_cancels_its_waiting_jobs(idle: Any, own_url: str, apps: Path) -> None:
    flow = idle.lw.flow()
    one = flow.add(idle.number.call(1))
    two = flow.add(idle.double.call(3))
    last = flow.add(idle.total.call([one, two]))
    run = flow.enqueue()
    assert idle.lw.queue("other").clear() == 1
    with worker("crossing:lw", url=own_url, folder=apps):
        with pytest.raises(JobCancelled):
            run.result(30)
        assert run.job(last).state() == "cancelled"


def test_cancelled_job_elsewhere_is_retried_after_the_jobs_before_it(idle: Any, own_url: str, apps: Path) -> None:
    flow = idle.lw.flow()
    one = flow.add(idle.number.call(1))
    two = flow.add(idle.double.call(4), after=[one])
    run = flow.enqueue()
    assert run.job(two).cancel()
    assert not run.job(two).retry()
    with worker("crossing:lw", url=own_url, folder=apps):
        with pytest.raises(JobCancelled):
            run.result(30)
        until(run.job(two).retry, "it may run again")
        assert run.job(two).result(30) == 8


def test_full_queue_refuses_the_whole_flow(idle: Any) -> None:
    idle.lw.queue("other").limit(size=1)
    flow = idle.lw.chain(idle.number.call(1), idle.double, idle.keyed.call(1), idle.double)
    with pytest.raises(QueueFull, match="'other'"):
        flow.enqueue()
    runtime = idle.lw.runtime
    for name in _QUEUES:
        keys = QueueKeys("lw", name)
        runtime.run(leases.expire(keys, _WINDOW))
        assert idle.lw.queue(name.partition("/")[0]).status().ready == 0
        assert not idle.lw.jobs(queue=name.partition("/")[0]).jobs
    assert not idle.lw.flows().flows
    idle.lw.queue("other").limit(size=None)
    assert flow.enqueue().inspect().state == "running"


def test_flow_fails_when_a_queue_has_lost_its_part(idle: Any, own_url: str, apps: Path) -> None:
    flow = idle.lw.flow()
    one = flow.add(idle.number.call(1))
    two = flow.add(idle.double.call(one))
    three = flow.add(idle.total.call([two]))
    run = flow.enqueue()
    keys = QueueKeys("lw", "other")
    with client_of(own_url) as server:
        server.delete(keys.flows, keys.jobs)
    with worker("crossing:lw", url=own_url, folder=apps), pytest.raises(JobFailed, match="lost its part of the flow"):
        run.result(30)
    assert [node.state for node in run.graph()] == ["succeeded", "failed", "cancelled"]
    assert run.job(three).state() == "cancelled"


def test_paused_queue_delays_its_jobs_and_no_message(idle: Any, own_url: str, apps: Path) -> None:
    idle.lw.queue("other").pause()
    flow = idle.lw.flow()
    one = flow.add(idle.number.call(1))
    two = flow.add(idle.double.call(one))
    flow.add(idle.number.call(two))
    run = flow.enqueue()
    with worker("crossing:lw", url=own_url, folder=apps):
        until(lambda: run.job(two).state() == "ready", "the job may run")
        assert run.inspect().succeeded == 1
        idle.lw.queue("other").resume()
        assert run.result(30) == 2


def test_relay_at_its_limit_leaves_the_rest_to_others(idle: Any) -> None:
    """A batch that it had taken without delivering it would wait until its lease ends."""
    flow = idle.lw.flow()
    first = flow.add(idle.number.options(delay="1h").call(1))
    flow.group(idle.double.call(first) for _ in range(100))
    run, runtime, home = flow.enqueue(), idle.lw.runtime, QueueKeys("lw", "home")
    assert run.job(first).cancel()
    runtime.run(relay(home, _WINDOW, most=1))
    assert 0 < idle.lw.queue("other").status().blocked < 100
    runtime.run(relay(home, _WINDOW))
    assert idle.lw.queue("other").status().blocked == 0
    assert run.inspect().state == "cancelled"


def test_burst_runs_flows_across_queues_to_their_end(idle: Any, own_url: str, apps: Path) -> None:
    runs = [idle.lw.chain(idle.number.call(n), idle.double, idle.number, idle.double).enqueue() for n in range(5)]
    with worker("crossing:lw", "--burst", url=own_url, folder=apps) as process:
        assert process.wait() == 0
    assert [run.result(0) for run in runs] == [0, 4, 8, 12, 16]


def test_workers_of_one_queue_each_complete_a_flow(idle: Any, own_url: str, apps: Path) -> None:
    run = idle.lw.chain(idle.number.call(1), *[idle.double, idle.number] * 5).enqueue()
    with (
        worker("crossing:lw", "-q", "home", url=own_url, folder=apps),
        worker("crossing:lw", "-q", "other", url=own_url, folder=apps),
    ):
        assert run.result(30) == 32


@pytest.mark.usefixtures("only_its_apps")
def test_recorded_flow_across_queues_runs(idle: Any) -> None:
    with record() as recorded:
        run = idle.lw.chain(idle.number.call(4), idle.double, idle.number).enqueue()
        assert [(job.task, job.queue) for job in recorded.jobs] == [
            ("number", "home"), ("number", "home"), ("double", "other"),
        ]  # fmt: skip
        recorded.run_all()
        assert run.result(0) == 8


def test_flow_ends_after_a_worker_dies_with_a_job_elsewhere(
    idle: Any, own_url: str, apps: Path, history: History
) -> None:
    flow = idle.lw.flow()
    one = flow.add(idle.number.call(1))
    two = flow.add(idle.dies_once.call(history.path, "two"), after=[one])
    flow.add(idle.gathered.call(history.path, "end", [two]))
    run = flow.enqueue()
    with worker("crossing:lw", "--lease", "1", url=own_url, folder=apps):
        assert run.result(30) == "end"
    assert [line["name"] for line in history.lines("ran")] == ["two", "two", "end"]


def test_chord_whose_jobs_are_in_a_limited_queue_calls_back(idle: Any, own_url: str, apps: Path) -> None:
    """bullmq#2644: some children of a rate-limited queue never start, nor does the parent in another queue."""
    idle.lw.queue("other").limit(rate="30/s", concurrency=2)
    run = idle.lw.chord([idle.double.call(n) for n in range(15)], idle.number.call(1)).enqueue()
    assert run.queue == "other"
    with worker("crossing:lw", url=own_url, folder=apps):
        assert run.result(30) == 1


def test_worker_without_the_task_of_the_next_job_starts_it(idle: Any, own_url: str, apps: Path) -> None:
    """celery#6846: the worker that ends a chord's last job does not know the callback, which is in another queue."""
    run = idle.lw.chain(idle.number.call(4), idle.double, idle.number).enqueue()
    with (
        worker("crossing_home:lw", url=own_url, folder=apps),
        worker("crossing:lw", "-q", "other", url=own_url, folder=apps),
    ):
        assert run.result(30) == 8


def test_deleted_job_elsewhere_ends_its_flow(idle: Any, own_url: str, apps: Path) -> None:
    """bullmq#800: the parent of a child that was removed waits forever."""
    flow = idle.lw.flow()
    one = flow.add(idle.number.call(1))
    two, three = flow.add(idle.double.call(one)), flow.add(idle.double.options(delay="1h").call(3))
    flow.add(idle.number.call(two), after=[three])
    run = flow.enqueue()
    assert run.job(two).delete()
    assert run.job(three).delete()
    with worker("crossing:lw", url=own_url, folder=apps), pytest.raises(JobCancelled):
        run.result(30)
    assert [node.state for node in run.graph()] == ["succeeded", *["cancelled"] * 3]


async def test_waiter_in_another_queue_learns_of_the_end(acrossing: Any) -> None:
    run = await acrossing.lw.chain(acrossing.number.call(2), acrossing.double).aenqueue()
    again = acrossing.lw.flow(id=run.id, queue="other")
    assert await asyncio.wait_for(again.aresult(), 30) == 4


def test_handlers_in_other_queues(crossing: Any, history: History) -> None:
    flow = crossing.lw.flow()
    good, bad = flow.add(crossing.double.call(1)), flow.add(crossing.fails.call(history.path, "bad"))
    handlers = [flow.add(task.call(3), after_failure=bad) for task in (crossing.number, crossing.double)]
    skipped = [flow.add(task.call(3), after_failure=good) for task in (crossing.number, crossing.double)]
    last = flow.add(crossing.double.call(skipped[0]))
    run = flow.enqueue()
    with pytest.raises(JobFailed, match="bad does not work"):
        run.result(30)
    assert [run.job(node).result(30) for node in handlers] == [3, 6]
    until(lambda: {run.job(node).state() for node in (*skipped, last)} == {"skipped"}, "the messages have arrived")
    assert run.inspect().skipped == 3


def test_callbacks_in_other_queues(crossing: Any) -> None:
    jobs = crossing.keyed.options(then=crossing.double, on_error=crossing.number.call(1)).enqueue_many(
        [(n,) for n in range(10)]
    )
    assert [job.result(30) for job in jobs] == list(range(10))
    runs = [crossing.lw.flow(id=job.id, queue=job.queue) for job in jobs]
    assert [run.result(30) for run in runs] == [2 * n for n in range(10)]
    assert {run.queue for run in runs} == {job.queue for job in jobs} <= {"parts/0", "parts/1", "parts/2"}
