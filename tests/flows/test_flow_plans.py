"""Validation of flow plans, before a call to the server."""

from __future__ import annotations

from typing import Any

import pytest

from lockwork import ConfigError
from lockwork.protocol.flows import flows
from lockwork.protocol.keys import QueueKeys


def test_nodes_of_another_flow_are_refused(own: Any) -> None:
    stranger = own.lw.flow().add(own.number.call(1))
    flow = own.lw.flow()
    with pytest.raises(ConfigError, match="not a job of this flow"):
        flow.add(own.double.call(stranger))
    with pytest.raises(ConfigError, match="not a job of this flow"):
        flow.add(own.number.call(1), after=stranger)
    with pytest.raises(ConfigError, match="not a job of this flow"):
        flow.returning([stranger])


def test_step_that_ignores_the_result_waits_for_the_previous_one(own: Any) -> None:
    run = own.lw.chain(own.number.call(1), lambda _: own.number.call(2), own.number.call(3)).enqueue()
    assert [job.state() for job in run.jobs()] == ["ready", "blocked", "blocked"]


def test_result_reference_outside_of_its_flow(own: Any) -> None:
    node = own.lw.flow().add(own.number.call(1))
    with pytest.raises(ConfigError, match="cannot be sent as JSON"):
        own.double.enqueue(node)
    with pytest.raises(ConfigError, match="add it to that flow"):
        own.lw.stock("phones", 5).reserve("buyer", enqueue=own.double.call(node))
    with pytest.raises(ConfigError, match="add it to that flow"):
        own.lw.schedule(own.double.call(node), name="s", every="1m")


@pytest.mark.parametrize("policy", ["skip", None, 3])
def test_unknown_failure_policy_is_refused(own: Any, policy: Any) -> None:
    with pytest.raises(ConfigError, match="on_failure must be one of fail, ignore, compensate"):
        own.lw.flow(on_failure=policy)


def test_plans_refuse_values_that_are_no_calls(own: Any) -> None:
    flow = own.lw.flow()
    with pytest.raises(ConfigError, match="a flow consists of calls"):
        flow.add(own.number)
    with pytest.raises(ConfigError, match="a chain begins with a call"):
        flow.chain(own.number)
    for one in (own.number.call(1), flow.add(own.number.call(1))):
        with pytest.raises(ConfigError, match="a group is a list of calls"):
            flow.group(one)
    with pytest.raises(ConfigError, match="the next step must be a task"):
        flow.chain(own.number.call(1), 5)
    for first in (5, "x", own.number, [5], [flow.add(own.number.call(1)), 5]):
        with pytest.raises(ConfigError, match="a chain begins with a call|5 is not a job of this flow"):
            flow.chain(first, own.double)
    with pytest.raises(ConfigError, match="is not a job of this flow"):
        own.lw.flow().chain(flow.add(own.number.call(1)), own.double)
    with pytest.raises(ConfigError, match="the next step must be a task"):
        flow.chain(own.number.call(1), lambda n: n)
    with pytest.raises(TypeError):
        own.double.call()


def test_empty_flow_is_refused(own: Any) -> None:
    with pytest.raises(ConfigError, match="the flow is empty"):
        own.lw.flow().enqueue()


@pytest.mark.parametrize(("calls", "result"), [([], []), ([[], []], [[], []])])
def test_empty_group_has_ended_when_it_is_enqueued(own: Any, calls: list[Any], result: list[Any]) -> None:
    for group in (own.lw.group(calls), own.lw.flow().returning(calls)):
        run = group.enqueue()
        assert run.result(0) == result
        assert own.lw.flow(id=run.id).result(0) == result
        assert (run.inspect().state, run.inspect().jobs, run.jobs(), run.cancel()) == ("succeeded", 0, [], False)
    status = own.lw.queue().status()
    assert (status.enqueued, status.blocked) == (0, 0)


def test_empty_group_is_accepted_by_full_queue(own: Any) -> None:
    own.lw.queue().limit(size=0)
    assert own.lw.group([]).enqueue().result(0) == []


def test_references_to_results_that_are_not_stored_are_refused(own: Any) -> None:
    flow = own.lw.flow()
    node = flow.add(own.forgets.call(1))
    with pytest.raises(ConfigError, match="'forgets', whose task has keep_result=False"):
        flow.add(own.double.call(node))
    flow.add(own.number.call(1), after=node)


def test_key_with_a_result_is_refused(own: Any) -> None:
    async def by_number(n: int) -> None: ...

    task = own.lw.task(key="n{n}")(by_number)
    flow = own.lw.flow()
    with pytest.raises(
        ConfigError, match="not known yet, and cannot be part of a text, nor of a key or group: pass the node"
    ):
        task.call(flow.add(own.number.call(1)))


@pytest.mark.parametrize("name", ["{n}", "{n!r}", "{n.number}", "{n.task}", "{n.value}", "{n[0]}", "{n.date.year}"])
@pytest.mark.parametrize("where", ["key", "group"])
def test_key_or_group_with_a_part_of_a_result_is_refused(own: Any, where: str, name: str) -> None:
    async def by_number(n: Any) -> None: ...

    node = own.lw.flow().add(own.number.call(1))
    task = own.lw.task(**{where: f"n{name}"})(by_number)
    for argument in (node, [node]):
        with pytest.raises(ConfigError, match="cannot be part of a text, nor of a key or group"):
            task.call(argument)


def test_key_template_may_use_arguments_beside_a_result(own: Any) -> None:
    async def by_order(order: Any, pair: Any) -> None: ...

    flow = own.lw.flow()
    node = flow.add(own.number.call(1))
    task = own.lw.task(key="{order[id]}/{order[lines][0]}/{pair[1]}")(by_order)
    with_result = task.call({"id": 7, "lines": [3, node]}, (1, 2))
    assert with_result.record.split(b";")[0] == task.call({"id": 7, "lines": [3]}, (1, 2)).record.split(b";")[0]


def test_dict_key_that_json_cannot_encode_is_refused(own: Any) -> None:
    node = own.lw.flow().add(own.number.call(1))
    with pytest.raises(ConfigError, match="cannot be sent as JSON: Only dicts with str-like or number-like keys"):
        own.gathered.call({(1, 2): node})


def test_jobs_that_expire_are_refused_in_flows(own: Any) -> None:
    with pytest.raises(ConfigError, match="cannot expire"):
        own.lw.flow().add(own.number.options(expires="1h").call(1))


def test_refused_call_does_not_change_the_plan(own: Any) -> None:
    flow = own.lw.flow()
    call, stranger = own.number.call(1), own.lw.flow().add(own.number.call(1))
    wrong: list[dict[str, Any]] = [
        {"compensate": own.number.options(delay=1).call(1)},
        {"compensate": 5},
        {"after": [stranger]},
        {"after": 5},
        {"on_failure": "skip"},
    ]
    for policy in wrong:
        with pytest.raises(ConfigError):
            flow.add(call, **policy)
    with pytest.raises(ConfigError, match="the flow is empty"):
        flow.enqueue()
    assert flow.add(own.elsewhere.call(1)).number == 1
    assert flow.enqueue().queue == "elsewhere"


def test_group_of_tasks_instead_of_calls_is_refused(own: Any) -> None:
    for wrong in (own.number, 5, "fetch"):
        with pytest.raises(ConfigError, match="a flow consists of calls, such as fetch.call"):
            own.lw.group([wrong])


@pytest.mark.parametrize("number", [0, -1, "1", 1.0, True, None, flows.MOST_JOBS + 1])
def test_wrong_job_number_of_a_run_is_refused(own: Any, number: Any) -> None:
    with pytest.raises(ConfigError, match="a node of its plan, or a number from 1 on"):
        own.lw.flow(id="some").job(number)


def test_compensation_with_a_delay_is_refused(own: Any) -> None:
    with pytest.raises(ConfigError, match="cannot have a delay"):
        own.lw.flow().add(own.number.call(1), compensate=own.number.options(delay=1).call(1))


def test_plan_with_too_many_jobs_is_refused(own: Any) -> None:
    flow = own.lw.flow()
    call = own.number.call(1)
    flow.group([call] * flows.MOST_JOBS)
    with pytest.raises(ConfigError, match="at most 20,000 jobs"):
        flow.add(call)


def test_plan_with_too_many_links_is_refused(own: Any) -> None:
    flow = own.lw.flow()
    group = flow.group([own.number.call(1)] * 1000)
    for _ in range(100):
        flow.add(own.number.call(1), after=group)
    with pytest.raises(ConfigError, match="at most 100,000 times: between two large groups, add one job"):
        flow.add(own.number.call(1), after=group)


def test_cycle_in_a_flow_is_refused() -> None:
    """A plan cannot have a cycle, because nodes use earlier nodes only; the protocol checks it as well."""
    for parents in ([1], [2], [0], [-1]):
        job = flows.FlowJob(b"1,1,,;[]", parents)
        with pytest.raises(ValueError, match="one that is not before it"):
            next(flows.push(QueueKeys("lw", "q"), "f", [job, flows.FlowJob(b"1,1,,;[]")], 0))


def test_marked_header_is_recognized() -> None:
    for head in (b"1,4,,;", b"0,12,key,;", b"2,1,,group,0/0/0;", b"1,4,k,g,1/2/3;"):
        marked = flows.marked(head + b"[];>;")
        assert flows.is_marked(marked)
        assert marked.endswith(b">;[];>;")
        assert not flows.is_marked(head + b"[];>;")
    assert not flows.is_marked(b"1,4,>,>;[]")
