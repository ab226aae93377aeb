"""What type checkers know of flows: the whole project's check reads this file, and nobody runs it."""

from __future__ import annotations

from typing import assert_type

from lockwork import Lockwork
from lockwork.flows.flow import Flow, Node
from lockwork.flows.runs import FlowRun
from lockwork.tasks.call import ResultCall

lw = Lockwork()


@lw.task
async def fetch(page: int) -> bytes:
    return b"%d" % page


@lw.task
def length(page: bytes) -> int:
    return len(page)


@lw.task
async def add_up(lengths: list[int]) -> float:
    return float(sum(lengths))


async def flows() -> None:
    """Results keep their types on the way from job to job."""
    flow = lw.flow()
    assert_type(flow, Flow)
    assert_type(fetch.call(1), ResultCall[bytes])
    page = flow.add(fetch.call(1), on_failure="ignore")
    assert_type(page, Node[bytes])
    size = flow.add(length.call(page.value), compensate=add_up.call([1]))
    assert_type(size, Node[int])
    total = flow.add(add_up.call([size.value, 2]), after=[page])
    assert_type(total, Node[float])
    length.call(size.value)  # type: ignore[arg-type]
    fetch.call("one")  # type: ignore[arg-type]
    flow.add(fetch.call(2), on_failure="skip")  # type: ignore[arg-type]
    assert_type(await flow.aenqueue(), FlowRun)
    assert_type(lw.chain(fetch.call(1), length, lambda size: add_up.call([size])), Flow)
    assert_type(lw.chord([length.call(b"")], add_up).enqueue(), FlowRun)
