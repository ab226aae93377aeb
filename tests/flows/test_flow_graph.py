"""Flows for operators: lists of flows, and the graph of a flow's jobs."""

from __future__ import annotations

from typing import Any

import pytest
import redis

from history import History
from lockwork import ConfigError, JobFailed, Lockwork
from lockwork.errors import JobCancelled
from lockwork.flows.runs import FlowRun


@pytest.fixture
def diamond(lw: Lockwork) -> FlowRun:
    """A flow of one job, two dependents, and a job that depends on both."""

    @lw.task(queue="orders")
    def add(*numbers: Any) -> int:
        return sum(numbers)

    flow = lw.flow()
    first = flow.add(add.call(1))
    both = [flow.add(add.call(first)) for _ in range(2)]
    flow.add(add.call(*both))
    return flow.enqueue()


def test_graph_names_dependents_and_states(lw: Lockwork, diamond: FlowRun) -> None:
    nodes = diamond.graph()
    assert [(node.number, node.children) for node in nodes] == [(1, (2, 3)), (2, (4,)), (3, (4,)), (4, ())]
    assert [node.state for node in nodes] == ["ready", "blocked", "blocked", "blocked"]
    assert {node.task for node in nodes} == {"add"}
    assert [node.id for node in nodes] == [job.id for job in diamond.jobs()]
    diamond.cancel()
    assert {node.state for node in diamond.graph()} == {"cancelled"}


async def test_graph_is_read_in_parts(alw: Lockwork) -> None:
    task = alw.task(name="one")(print)
    run = await alw.group([task.call(number) for number in range(450)]).aenqueue()
    nodes = await run.agraph(300, first=101)
    assert [node.number for node in nodes] == list(range(101, 401))
    states = [node.state for node in await run.agraph(101)]
    assert states[98:] == ["ready", "ready", "active"], "the state of the first hundred jobs is read"
    assert await run.agraph(first=451) == []
    with pytest.raises(ConfigError, match="limit"):
        await run.agraph(0)
    assert await alw.flow(id="unknown").agraph() == []


def test_graph_omits_task_of_long_record(lw: Lockwork) -> None:
    task = lw.task(name="one")(print)
    run = lw.chain(task.call("x" * 5000), task).enqueue()
    assert [node.task for node in run.graph()] == [None, "one"]


def test_flows_are_listed_newest_first(lw: Lockwork, diamond: FlowRun) -> None:
    task = lw.task(name="one", queue="mail")(print)
    other = lw.chain(task.call(), task).enqueue()
    found = lw.flows()
    assert [(each.id, each.queue) for each in found.flows] == [(other.id, "mail"), (diamond.id, "orders")]
    assert found.flows[1].status == diamond.inspect()
    assert found.flows[0].enqueued is not None
    assert found.searched == found.total
    assert [each.id for each in lw.flows("orders").flows] == [diamond.id]
    assert [each.id for each in lw.flows(limit=1).flows] == [other.id]
    assert lw.flows("none").flows == []


async def test_flow_search_ends_with_its_budget(alw: Lockwork) -> None:
    task = alw.task(name="one")(print)
    await alw.chain(task.call(), *[task] * 1500).aenqueue()
    found = await alw.aflows(budget=1000)
    assert (found.searched, found.total) == (1000, None)
    assert len((await alw.aflows()).flows) == 1


def test_foreign_flow_records_are_skipped(lw: Lockwork, diamond: FlowRun, admin: redis.Redis) -> None:
    admin.hset("lw:{q:orders}:flows", "0123456789abcdef", "\xc1")
    admin.hset("lw:{q:orders}:flows", "fedcba9876543210", b"\x01")
    assert [each.id for each in lw.flows().flows] == [diamond.id]


def test_task_of_an_ended_job_is_known_from_history(flowing: Any) -> None:
    run = flowing.lw.chain(flowing.number.call(1), flowing.double).enqueue()
    run.result(30)
    assert [(node.task, node.state) for node in run.graph()] == [("number", "succeeded"), ("double", "succeeded")]


def test_list_distinguishes_failed_and_cancelled_flows(flowing: Any, history: History) -> None:
    flow = flowing.lw.flow()
    bad = flow.add(flowing.fails.call(history.path, "bad"))
    flow.add(flowing.number.call(1), after=[bad])
    failed = flow.enqueue()
    with pytest.raises(JobFailed):
        failed.result(30)
    cancelled = flowing.lw.group([flowing.number.options(delay="1h").call(1)]).enqueue()
    cancelled.cancel()
    with pytest.raises(JobCancelled):
        cancelled.result(30)
    states = {each.id: each.status for each in flowing.lw.flows(limit=1000).flows}
    assert (states[failed.id].state, states[cancelled.id].state) == ("failed", "cancelled")
    assert states[failed.id] == failed.inspect()
