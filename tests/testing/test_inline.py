"""Jobs that run when they are enqueued: `inline`, with what people report of Celery's eager mode and its like."""

from __future__ import annotations

import asyncio
import datetime as dt
import threading
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Annotated, Any

import pytest

from lockwork import ConfigError, Depends, JobContext, Lockwork, current_job, current_jobs
from lockwork.testing import NoServer, enqueued, inline, record
from lockwork.types import Again

app = Lockwork("redis://127.0.0.1:1", patience=0)
log: list[Any] = []


@pytest.fixture(autouse=True)
def forget() -> None:
    log.clear()


@dataclass
class Order:
    id: int
    due: dt.datetime
    lines: list[str]


async def get_db() -> AsyncIterator[str]:
    yield "db"


@app.task(tags=["shop"])
def pay(order: Order) -> Order:
    log.append((current_job().id, current_job().attempt, current_job().tags, threading.current_thread().name))
    order.lines.append("paid")
    return order


@app.task
async def apay(order: Order) -> dt.datetime:
    await asyncio.sleep(0)
    log.append(current_job().task)
    return order.due


@app.task
def fail(text: str) -> None:
    raise LookupError(text)


@app.task
def nested(depth: int) -> int:
    log.append((depth, current_job().task))
    return nested.options(delay="1h").enqueue(depth - 1).result() + 1 if depth else 0


@app.task
async def anested(depth: int, db: Annotated[str, Depends(get_db)]) -> int:
    log.append((depth, db))
    if not depth:
        return 0
    job = await anested.aenqueue(depth - 1)  # type: ignore[call-arg]
    return await job.aresult() + 1


@app.task(batch=10)
def index(pages: list[str]) -> list[int]:
    log.append((pages, [job.task for job in current_jobs()]))
    return [len(page) for page in pages]


DUE = dt.datetime(2030, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=9)))


def test_job_runs_with_copies_of_its_arguments() -> None:
    """Celery's eager mode passes the caller's own objects, which a broker never does."""
    order = Order(5, DUE, ["a"])
    with inline() as recorded:
        job = pay.enqueue(order)
        assert job.result() == Order(5, DUE, ["a", "paid"])
        assert job.state() == "succeeded"
    assert order.lines == ["a"]
    assert log == [(job.id, 1, ("shop",), "MainThread")]
    recorded.assert_enqueued(pay, count=1)


def test_what_cannot_be_sent_is_refused_as_in_production() -> None:
    @app.task(name="anything")
    def anything(value: Any) -> Any:
        return object()

    with inline():
        with pytest.raises(ConfigError, match="the arguments.*cannot be sent"):
            anything.enqueue(object())
        with pytest.raises(ConfigError, match="the result.*cannot be sent"):
            anything.enqueue(1)


def test_errors_are_raised_as_they_are() -> None:
    with inline(), pytest.raises(LookupError, match="no such order") as raised:
        fail.enqueue("no such order")
    assert raised.value.__cause__ is None
    assert "raise LookupError" in str(raised.traceback[-1].statement)


async def test_async_errors_are_raised_as_they_are() -> None:
    with inline():
        calls = (fail.aenqueue("a"), pay.aenqueue(Order(1, DUE, [])), fail.aenqueue("b"))
        results: list[object] = list(await asyncio.gather(*calls, return_exceptions=True))
    assert [type(result).__name__ for result in results] == ["LookupError", "Job", "LookupError"]
    assert [str(result) for result in results[::2]] == ["a", "b"]


async def test_tasks_run_on_the_loop_or_in_a_thread_as_in_a_worker() -> None:
    with inline():
        job = await apay.aenqueue(Order(1, DUE, []))
        assert await job.aresult() == DUE
        await pay.aenqueue(Order(1, DUE, []))
    assert log[0] == "apay"
    assert log[1][3] != "MainThread"


def test_async_task_of_a_blocking_enqueue_gets_a_loop() -> None:
    with inline():
        assert apay.enqueue(Order(1, DUE, [])).result() == DUE


def test_jobs_that_enqueue_jobs() -> None:
    with inline() as recorded:
        assert nested.enqueue(3).result() == 3
        assert anested.enqueue(3).result() == 3  # type: ignore[call-arg]
    assert [depth for depth, _ in log] == [3, 2, 1, 0] * 2
    assert log[-1] == (0, "db")
    recorded.assert_enqueued(nested, delay="1h", count=3)


def test_batches_have_one_item() -> None:
    with inline():
        assert [job.result() for job in index.enqueue_many([("a",), ("bc",)])] == [1, 2]
    assert log == [(["a"], ["index"]), (["bc"], ["index"])]


def test_retry_is_raised() -> None:
    @app.task(name="again")
    def again() -> None:
        current_job().retry(5)

    with inline(), pytest.raises(Again):
        again.enqueue()


def test_middlewares_and_headers() -> None:
    own = Lockwork("redis://127.0.0.1:1")

    @own.enqueue_middleware
    def tenant(outgoing: Any) -> Iterator[None]:
        outgoing.headers["tenant"] = "t1"
        yield

    @own.middleware
    def inner(job: JobContext) -> Iterator[None]:
        log.append(f"inner {job.headers}")
        yield
        log.append("left")

    @own.task
    def work(n: int) -> int:
        log.append(n)
        return n

    with inline():
        assert work.enqueue(1).result() == 1
    assert log == ["inner {'tenant': 't1'}", 1, "left"]

    @own.middleware
    async def outer(job: JobContext) -> AsyncIterator[None]:
        log.append("outer")
        yield

    log.clear()
    with inline():
        assert work.enqueue(2).result() == 2
        assert asyncio.run(_result(work, 3)) == 3
    assert log == ["outer", "inner {'tenant': 't1'}", 2, "left", "outer", "inner {'tenant': 't1'}", 3, "left"]


async def _result(task: Any, value: Any) -> Any:
    return await (await task.aenqueue(value)).aresult()


def test_innermost_recording_decides() -> None:
    with record() as outer:
        fail.enqueue("not run")
        with inline(), pytest.raises(LookupError):
            fail.enqueue("run")
        fail.enqueue("not run")
        assert len(enqueued(fail)) == 3
    with inline(), record():
        fail.enqueue("not run")
    assert len(outer.jobs) == 3


def test_flows_are_refused() -> None:
    with inline(), pytest.raises(NoServer, match="run_all"):
        app.group([nested.call(0)]).enqueue()
    with inline(), pytest.raises(NoServer, match="run_all"):
        nested.options(then=nested.call(0)).enqueue(0)


def test_result_of_a_failed_job_is_unknown() -> None:
    with inline(), record() as recorded:
        job = pay.enqueue(Order(1, DUE, []))
        with pytest.raises(NoServer):
            job.result(timeout=0)
    assert len(recorded.jobs) == 1
