"""Flows of successful jobs: their order and their results."""

from __future__ import annotations

import asyncio
import itertools
import json
from datetime import date
from typing import Any

import pytest

from history import History
from lockwork import ResultTimeout, ResultUnavailable
from lockwork.cli.report import document
from lockwork.cli.text import arguments
from lockwork.protocol.queue import records


def test_chain_passes_results_on(flowing: Any) -> None:
    run = flowing.lw.chain(
        flowing.number.call(5), flowing.double, lambda n: flowing.gathered.call(n, to="end")
    ).enqueue()
    assert run.result(30) == [[10], {"to": "end"}]
    status = run.inspect()
    assert (status.state, status.jobs, status.succeeded, status.ended) == ("succeeded", 3, 3, 3)
    assert [job.result(0) for job in run.jobs()] == [5, 10, [[10], {"to": "end"}]]


def test_arguments_from_results_are_shown_by_the_ids_of_their_jobs(flowing: Any) -> None:
    flow = flowing.lw.flow()
    one, two = (flow.add(flowing.number.call(n)) for n in (1, 2))
    last = flow.add(flowing.gathered.call(one, "x", [one, two], {"a": [two, "y"]}, whole=two))
    run = flow.enqueue()
    assert run.result(30) == [[1, "x", [1, 2], {"a": [2, "y"]}], {"whole": 2}]
    job = run.job(last)
    first, second = (f"<result of job {run.job(node).id}>" for node in (one, two))
    expected = ((first, "x", [first, second], {"a": [second, "y"]}), {"whole": second})
    seen = job.inspect()
    (row,) = flowing.lw.jobs(task="gathered", state="succeeded", limit=1).jobs
    for found in (seen, row):
        assert (found.args, found.kwargs) == expected
    assert (seen.args[0].job, seen.args[1]) == (run.job(one).id, "x")
    assert arguments(seen.args[:2], {"a": second}) == f'{first}, "x", a="{second}"'
    assert json.loads(document(seen))["kwargs"] == {"whole": second}


@pytest.mark.parametrize("paths", ["[1]", "[[[],1]]", '[[["x",0],1]]', "[[[5],1]]", '[[[0],"x"]]', "[[[0,1],2]]"])
def test_record_with_wrong_result_references_is_reported(paths: str) -> None:
    record = f'1,3,,,>;["gathered",[null],{{}},{{}},{paths},[]]'.encode()
    call = records.read(record, len(record), "f.00002")
    assert (call.task, call.args, call.problem) == ("gathered", None, "its arguments cannot be read")


def test_group_returns_all_results_in_order(flowing: Any) -> None:
    run = flowing.lw.group(flowing.number.call(n) for n in range(20)).enqueue()
    assert run.result(30) == list(range(20))
    assert flowing.lw.group([flowing.number.call(7)]).enqueue().result(30) == [7]


def test_chord_calls_back_with_all_results(flowing: Any) -> None:
    run = flowing.lw.chord([flowing.number.call(n) for n in range(50)], flowing.total).enqueue()
    assert run.result(30) == sum(range(50))
    assert flowing.lw.chord([], flowing.total).enqueue().result(30) == 0


async def test_async_methods_of_flows(aflowing: Any) -> None:
    flow = aflowing.lw.chord([aflowing.number.call(n) for n in range(5)], aflowing.total)
    run = await flow.aenqueue()
    assert await run.aresult(30) == 10
    assert (await run.ainspect()).state == "succeeded"
    assert [await job.aresult(0) for job in await run.ajobs()] == [0, 1, 2, 3, 4, 10]
    assert not await run.acancel()
    # a plan can be enqueued again as another run
    again = await flow.aenqueue()
    assert again.id != run.id
    assert await again.aresult(30) == 10


def test_chords_and_groups_can_be_nested(flowing: Any) -> None:
    """A group is a list of nodes and can be nested like any list."""
    flow = flowing.lw.flow()
    sums = [flow.chord([flowing.number.call(n) for n in range(k)], flowing.total) for k in range(1, 5)]
    doubled = flow.group(flow.chain(one, flowing.double) for one in sums)
    last = flow.add(flowing.gathered.call(doubled, [sums, "and", sums[0]], whole=flow.chain(doubled, flowing.total)))
    run = flow.enqueue()
    assert run.result(30) == [[[0, 2, 6, 12], [[0, 1, 3, 6], "and", 0]], {"whole": 20}]
    assert run.job(last).state() == "succeeded"


def test_job_waits_for_its_dependencies(flowing: Any, history: History) -> None:
    flow = flowing.lw.flow()
    first = flow.add(flowing.slow.call(history.path, "first", 0.2))
    other = flow.add(flowing.slow.call(history.path, "other", 0.1))
    flow.add(flowing.noted.call(history.path, "last"), after=[first, other])
    assert flow.enqueue().result(30) == "last"
    events = [(line["event"], line["name"]) for line in history.lines()]
    assert events.index(("ran", "last")) > max(events.index(("done", "first")), events.index(("done", "other")))


def test_results_of_any_shape_are_passed_on(flowing: Any) -> None:
    flow = flowing.lw.flow()
    a, b = flow.add(flowing.number.call(1)), flow.add(flowing.number.call(2))
    flow.add(flowing.gathered.call(a.value, {"deep": [[{"er": b}]]}, 3, [a, b], (a, 0), named={"x": a}))
    assert flow.enqueue().result(30) == [[1, {"deep": [[{"er": 2}]]}, 3, [1, 2], [1, 0]], {"named": {"x": 1}}]


def test_results_under_keys_of_any_type(flowing: Any) -> None:
    flow = flowing.lw.flow()
    one, two = (flow.add(flowing.number.call(n)) for n in (1, 2))
    day = date(2026, 11, 21)
    flow.add(flowing.gathered.call({1: one, 2.5: {day: [two], 3: "plain"}}, x={-7: [one, two]}))
    assert flow.enqueue().result(30) == [
        [{"1": 1, "2.5": {"2026-11-21": [2], "3": "plain"}}],
        {"x": {"-7": [1, 2]}},
    ]


def test_flow_returns_a_custom_result(flowing: Any) -> None:
    flow = flowing.lw.flow()
    a, b = flow.add(flowing.number.call(1)), flow.add(flowing.number.call(2))
    flow.add(flowing.total.call([a, b]))
    assert flow.returning([b, [a]]).enqueue().result(30) == [2, [1]]


def test_arguments_that_look_like_placeholders_are_kept(flowing: Any) -> None:
    odd = [{"$": 1}, {"$": "1"}, None, [[], {}]]
    flow = flowing.lw.flow()
    a = flow.add(flowing.gathered.call(odd))
    flow.add(flowing.gathered.call(a, odd))
    assert flow.enqueue().result(30) == [[[[odd], {}], odd], {}]


def test_retry_and_delay_postpone_dependents(flowing: Any, history: History) -> None:
    flow = flowing.lw.flow()
    a = flow.add(flowing.fails_twice.call(history.path))
    flow.add(flowing.noted.options(delay="50ms").call(history.path, "after", a))
    assert flow.enqueue().result(30) == "after"
    names = [line["name"] for line in history.lines("ran")]
    assert names == ["fails_twice"] * 3 + ["after"]
    assert history.lines("ran")[-1]["others"] == ["at last"]


def test_chord_with_retried_jobs_calls_back(flowing: Any, history: History) -> None:
    """celery#1401: the callback never runs when jobs of the group were retried."""
    flow = flowing.lw.chord([flowing.fails_twice.call(history.path), flowing.number.call(1)], flowing.gathered)
    assert flow.enqueue().result(30) == [[["at last", 1]], {}]


def test_keys_and_priorities_hold_in_flows(flowing: Any, history: History) -> None:
    flow = flowing.lw.flow()
    firsts = flow.group(flowing.one_at_a_time.call(history.path, f"a{n}") for n in range(5))
    lasts = [flow.add(flowing.one_at_a_time.options(priority="high").call(history.path, "b"), after=firsts)]
    assert flow.returning([firsts, lasts]).enqueue().result(30) == [["a0", "a1", "a2", "a3", "a4"], ["b"]]
    assert [line["name"] for line in history.lines("ran")] == ["a0", "a1", "a2", "a3", "a4", "b"]


def test_chain_of_thirty_levels(flowing: Any) -> None:
    run = flowing.lw.chain(flowing.number.call(1), *itertools.repeat(flowing.double, 30)).enqueue()
    assert run.result(30) == 2**30


def test_flow_handle_is_made_from_its_id(flowing: Any) -> None:
    run = flowing.lw.chain(flowing.number.call(4), flowing.double).enqueue()
    found = flowing.lw.flow(id=run.id)
    assert found.result(30) == 8
    assert found.job(2).result(0) == 8
    with pytest.raises(ResultUnavailable, match="nothing is known of flow nobody"):
        flowing.lw.flow(id="nobody").result(0)
    assert flowing.lw.flow(id="nobody").inspect().state == "unknown"
    assert flowing.lw.flow(id="nobody").jobs() == []


def test_result_of_unfinished_flow_raises_timeout(own: Any) -> None:
    run = own.lw.chord([own.number.call(1), own.number.call(2)], own.total).enqueue()
    with pytest.raises(ResultTimeout, match="0 of its 3 jobs have"):
        run.result(0)
    states = [job.state() for job in run.jobs()]
    assert states[2] == "blocked"
    assert own.lw.queue().status().blocked == 1
    with pytest.raises(ResultTimeout, match="it is blocked"):
        run.jobs()[2].result(0)
    assert not run.jobs()[2].reschedule(delay=0)
    assert run.jobs()[2].inspect().state == "blocked"


async def test_flow_result_has_several_waiters(aflowing: Any) -> None:
    run = await aflowing.lw.chord([aflowing.number.call(n) for n in range(10)], aflowing.total).aenqueue()
    waiting = [run.aresult(30), aflowing.lw.flow(id=run.id).aresult(30), run.job(11).aresult(30)]
    assert await asyncio.gather(*waiting) == [45, 45, 45]
