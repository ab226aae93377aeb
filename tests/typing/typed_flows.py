"""Flows, to mypy and pyright: results keep their types, and any task that can be called with one result is a step."""

from __future__ import annotations

from typing import Annotated, assert_type

from lockwork import Depends, Job, Lockwork
from lockwork.flows.flow import Flow, Node
from lockwork.flows.runs import FlowRun
from lockwork.injection import INJECTED
from lockwork.tasks.call import ResultCall
from lockwork.types import JobFailure

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


@lw.task(retries=2)
def halved(size: int, by: int = 2) -> int:
    return size // by


@lw.task
async def shown(size: int, *, unit: str = "bytes") -> str:
    return f"{size} {unit}"


@lw.task
def stored(text: str, *, db: Annotated[str, Depends(str)] = INJECTED) -> int:
    return len(text + db)


@lw.task(batch=10)
async def batched(sizes: list[int]) -> list[str]:
    return [str(size) for size in sizes]


@lw.task
def averaged(sizes: list[int], digits: int = 2) -> float:
    return round(sum(sizes) / len(sizes), digits)


@lw.task
def any_number(*sizes: int) -> int:
    return sum(sizes)


@lw.task
def two(size: int, other: int) -> int:
    return size + other


@lw.task
def by_name(*, size: int) -> int:
    return size


def steps() -> None:
    """Defaults, keyword-only and injected parameters and batches make no difference."""
    call = length.call(b"")
    assert_type(lw.chain(call, halved, shown, stored, any_number, batched), Flow)
    flow = lw.flow()
    flow.chain(call, halved, halved.options(delay="1m"), shown, lambda text: stored.call(text), halved.call(4))
    flow.chain(flow.group([call, call]), averaged)
    assert_type(flow.chord([call, call], averaged), Node[float])
    assert_type(lw.chord([call, halved.call(4)], averaged), Flow)
    assert_type(lw.group([call, shown.call(1), batched.call(2)]), Flow)
    assert_type(flow.add(call, compensate=halved), Node[int])
    assert_type(flow.add(call, compensate=shown), Node[int])
    assert_type(flow.add(call, compensate=batched), Node[int])
    assert_type(flow.add(batched.call(1), compensate=stored), Node[str])
    assert_type(flow.add(stored.call("a"), compensate=lambda size: halved.call(size)), Node[int])


def wrong_steps() -> None:
    """Misuses that both call wrong."""
    flow = lw.flow()
    lw.chain(fetch.call(1), two)  # type: ignore[arg-type]
    lw.chain(fetch.call(1), by_name)  # type: ignore[arg-type]
    lw.chain(fetch.call(1), 5)  # type: ignore[arg-type]
    lw.chord([fetch.call(1)], two)  # type: ignore[arg-type]
    lw.group([fetch])  # type: ignore[list-item]
    flow.add(fetch)  # type: ignore[arg-type]
    flow.add(fetch.call(1), compensate=halved)  # type: ignore[arg-type]
    flow.add(length.call(b""), compensate=stored)  # type: ignore[arg-type]


@lw.task
def alert(error: JobFailure, who: str = "") -> bool:
    return bool(error.text or who)


async def callbacks() -> None:
    """Callbacks do not change the type of the task."""
    linked = fetch.options(then=length, on_error=[alert, alert.call(JobFailure("", "", "", "")), lambda error: error])
    assert_type(linked.enqueue(1), Job[bytes])
    assert_type(await linked.aenqueue(1), Job[bytes])
    assert_type(linked.enqueue_many([(1,)]), list[Job[bytes]])
    linked.enqueue("one")  # type: ignore[arg-type]
    fetch.options(then=lambda page: length.call(page), on_error=None)
    fetch.options(then=5)  # type: ignore[arg-type]
    fetch.options(on_error="alert")  # type: ignore[arg-type]
    lw.remote_task("other", returns=int).options(then=halved).enqueue(1)


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
    assert_type(size.error, JobFailure)
    assert_type(flow.add(alert.call(size.error)), Node[bool])
    flow.add(alert.call(7), after_failure=[page, total])  # type: ignore[arg-type]
    assert_type(await flow.aenqueue(), FlowRun)
    assert_type(lw.chain(fetch.call(1), length, lambda size: add_up.call([size])), Flow)
    assert_type(lw.chord([length.call(b"")], add_up).enqueue(), FlowRun)
