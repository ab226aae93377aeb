"""What is enqueued without a server: `record`, and the assertions on it."""

from __future__ import annotations

import asyncio
import datetime as dt
import socket
import threading
import unittest
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from unittest.mock import ANY

import pytest

from lockwork import ConfigError, Lockwork, PayloadTooLarge, ServerUnavailable
from lockwork.errors import BlockingCallError
from lockwork.testing import NoServer, assert_enqueued, assert_not_enqueued, enqueued, record
from lockwork.types import Enqueued, Outgoing

app = Lockwork("redis://127.0.0.1:1", patience=0)
other = Lockwork("redis://127.0.0.1:1", patience=0, prefix="other", partitions={"parts": 4})


@dataclass
class Order:
    id: int
    lines: list[str]


@app.task(queue="mail", key="user:{user}")
def send(user: int, subject: str = "hello", *, urgent: bool = False) -> str:
    return subject


@app.task
def pay(order: Order) -> None: ...


@app.task(unique="report:{user}")
def report(user: int) -> None: ...


@app.task
def add(a: int, b: int) -> int:
    return a + b


@other.task(queue="parts", name="send")
def spread(number: int) -> None: ...


@pytest.fixture(autouse=True)
def connected(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[object]]:
    """Fail a test that connects a socket, or leaves a thread."""
    addresses: list[object] = []

    def refuse(_socket: object, address: object) -> None:
        addresses.append(address)
        raise ConnectionRefusedError

    monkeypatch.setattr(socket.socket, "connect", refuse)
    threads = threading.active_count()
    yield addresses
    assert addresses == []
    assert threading.active_count() == threads


def complaint(check: Callable[[], object]) -> str:
    with pytest.raises(AssertionError) as raised:
        check()
    return str(raised.value)


def test_records_calls_of_all_kinds() -> None:
    with record() as recorded:
        job = send.enqueue(1, urgent=True)
        send.options(delay="10m", priority="high", tags=["x"]).enqueue(2, "bye")
        send.enqueue_many([(3,), (4,)])
        send.options(expires="1h").enqueue(5)
        spread.enqueue_many([(n,) for n in range(2000)])
    assert [one.args for one in recorded.enqueued(send)] == [[1], [2, "bye"], [3], [4], [5]]
    first, second, *_ = recorded.enqueued(send)
    assert (first.id, first.kwargs, first.queue, first.key, first.delay) == (
        job.id,
        {"urgent": True},
        "mail",
        "user:1",
        0,
    )
    assert (second.delay, second.priority, second.tags, second.flow) == (600, "high", ("x",), None)
    assert {one.queue for one in recorded.enqueued(spread)} == {f"parts/{n}" for n in range(4)}
    assert len(recorded.enqueued()) == len(recorded.jobs) == 2005
    assert job.new


async def test_records_asyncio_calls() -> None:
    with record() as recorded:
        jobs = await asyncio.gather(*(send.aenqueue(n) for n in range(100)))
        await send.aenqueue_many([(100,)])
    assert sorted(one.args[0] for one in recorded.enqueued(send)) == [*range(101)]
    assert {job.id for job in jobs} < {one.id for one in recorded.jobs}


async def test_blocking_call_on_a_loop_is_refused_as_in_production() -> None:
    with record() as recorded:
        with pytest.raises(BlockingCallError):
            send.enqueue(1)
    assert recorded.jobs == []


def test_arguments_and_options_are_checked_as_in_production() -> None:
    small = Lockwork("redis://127.0.0.1:1", max_payload=100)

    @small.task(key="user:{user}")
    def note(user: object) -> None: ...

    with record() as recorded:
        with pytest.raises(TypeError, match="missing a required argument"):
            note.enqueue()  # type: ignore[call-arg]
        with pytest.raises(ConfigError, match="cannot be sent as JSON"):
            note.enqueue(object())
        with pytest.raises(PayloadTooLarge):
            note.enqueue("x" * 200)
        with pytest.raises(ConfigError, match="did you mean 'delay'"):
            note.options(dela=1)  # type: ignore[call-arg]
        with pytest.raises(ConfigError, match="no NaN"):
            note.enqueue(float("nan"))
    assert recorded.jobs == []


def test_arguments_are_as_a_worker_gets_them() -> None:
    """Sidekiq's fake! and Celery's eager mode keep the caller's objects; a change after the call is then seen."""
    lines = ["a"]
    with record() as recorded:
        pay.enqueue(Order(5, lines))
        lines.append("b")
    (job,) = recorded.enqueued(pay)
    assert job.args == [{"id": 5, "lines": ["a"]}]
    recorded.assert_enqueued(pay, args=(Order(5, ["a"]),))
    recorded.assert_enqueued(pay, kwargs={"order": {"id": 5}})
    recorded.assert_not_enqueued(pay, kwargs={"order": Order(5, ["a", "b"])})


def test_match_is_partial_however_the_call_passed_them() -> None:
    with record() as recorded:
        send.enqueue(1, "hi")
        send.enqueue(user=1, subject="ho", urgent=True)
    check = recorded.assert_enqueued
    assert len(check(send, args=(1,), count=2)) == 2
    check(send, args=(1, "ho"), count=1)
    check(send, kwargs={"user": 1}, count=2)
    check(send, kwargs={"urgent": False}, count=1)
    check(send, kwargs={"subject": ANY}, key="user:1", queue="mail", count=2)
    check("send", kwargs={"urgent": True}, count=1)
    check(send, args=(2,), count=0)
    check(send, args=(), kwargs={}, count=2)
    with pytest.raises(ConfigError, match="no argument 'users'"):
        check(send, kwargs={"users": 1})
    with pytest.raises(ConfigError, match="tuple of arguments"):
        check(send, args="1")
    with pytest.raises(ConfigError, match="pass a task"):
        check(print)  # type: ignore[arg-type]


def test_delay_and_moment() -> None:
    tomorrow = dt.datetime.now(dt.UTC) + dt.timedelta(days=1)
    with record() as recorded:
        send.options(delay="10m").enqueue(1)
        send.options(at=tomorrow).enqueue(2)
        send.enqueue(3)
    check = recorded.assert_enqueued
    check(send, delay=600, args=(1,))
    check(send, delay=dt.timedelta(days=1), count=1, args=(2,))
    check(send, at=tomorrow.astimezone(dt.timezone(dt.timedelta(hours=9))), count=1)
    check(send, at=dt.datetime.now(dt.UTC) + dt.timedelta(minutes=10), args=(1,))
    check(send, delay=0, count=1)
    assert "expected 300 s, found 600 s" in complaint(lambda: check(send, delay="5m"))
    with pytest.raises(ConfigError, match="zone"):
        check(send, at=dt.datetime(2030, 1, 1))  # noqa: DTZ001
    with pytest.raises(ConfigError, match="not both"):
        check(send, at=tomorrow, delay=1)


def test_errors_show_the_differences() -> None:
    with record() as recorded:
        assert (
            complaint(lambda: recorded.assert_enqueued(send)) == "no job of 'send' was enqueued\nnothing was enqueued"
        )
        send.options(delay=60).enqueue(1, "a" * 500)
        pay.enqueue(Order(5, ["a", "b"]))
    text = complaint(lambda: recorded.assert_enqueued(pay, kwargs={"order": {"id": 6, "lines": ["a", "c"]}}))
    assert text.splitlines() == [
        "no job of 'pay' was enqueued with kwargs={'order': {'id': 6, 'lines': ['a', 'c']}}",
        "the 1 job of 'pay':",
        "  1. pay({'id': 5, 'lines': ['a', 'b']}), queue 'default'",
        "       kwargs['order']['id']: expected 6, found 5",
        "       kwargs['order']['lines'][1]: expected 'c', found 'b'",
    ]
    text = complaint(lambda: recorded.assert_enqueued(send, args=(2, "b", 3), delay=0, queue="post", key="user:2"))
    assert len(max(text.splitlines(), key=len)) < 300
    for part in (
        "args[0]: expected 2, found 1",
        "args[2]: expected 3, found nothing",
        "delay: expected 0 s, found 60 s",
        "queue: expected 'post', found 'mail'",
        "key: expected 'user:2', found 'user:1'",
        "queue 'mail', delay 60 s, key 'user:1'",
    ):
        assert part in text
    assert complaint(lambda: recorded.assert_enqueued(pay, count=2)).startswith("expected 2 jobs of 'pay', and found 1")
    assert complaint(lambda: recorded.assert_not_enqueued(pay)).startswith(
        "1 job of 'pay' enqueued, but none was expected"
    )
    assert complaint(lambda: recorded.assert_enqueued(report)).endswith("the others: 'send' (1), 'pay' (1)")


def test_tasks_of_two_apps_with_one_name_are_told_apart() -> None:
    with record() as recorded:
        spread.enqueue(1)
    recorded.assert_not_enqueued(send)
    recorded.assert_enqueued(spread, queue="parts")
    recorded.assert_enqueued("send")


def test_nested_recordings() -> None:
    with record() as outer:
        send.enqueue(1)
        with record() as inner:
            send.enqueue(2)
            assert [one.args for one in enqueued(send)] == [[2]]
            assert_not_enqueued(send, args=(1,))
        assert_enqueued(send, args=(1,))
        inner_jobs = inner.jobs
        send.enqueue(3)
    assert [one.args for one in outer.jobs] == [[1], [2], [3]]
    assert inner.jobs == inner_jobs
    with pytest.raises(RuntimeError, match="nothing is recorded"):
        enqueued()
    outer.clear()
    assert outer.jobs == []


def test_recordings_may_end_in_any_order() -> None:
    first, second = record().start(), record().start()
    first.stop()
    send.enqueue(1)
    second.stop()
    second.stop()
    assert (len(first.jobs), len(second.jobs)) == (0, 1)
    with pytest.raises(RuntimeError, match="has begun already"), record() as again:
        again.start()


def test_threads_and_loops_are_recorded() -> None:
    def work() -> None:
        send.enqueue(1)
        asyncio.run(asend())

    async def asend() -> None:
        await send.aenqueue(2)

    with record() as recorded:
        threads = [threading.Thread(target=work) for _ in range(10)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(recorded.jobs) == 20


def test_on_commit_records_at_the_commit() -> None:
    callbacks: list[Callable[[], object]] = []
    with record() as recorded:
        job = send.on_commit(callbacks.append).enqueue(1)
        send.on_commit(callbacks.append).enqueue_many([(2,), (3,)])
        assert recorded.jobs == []
        for callback in callbacks:
            callback()
        assert [one.args for one in recorded.jobs] == [[1], [2], [3]]
        assert recorded.jobs[0].id == job.id


def test_unique_jobs_are_all_recorded() -> None:
    with record() as recorded:
        jobs = [report.enqueue(1), report.enqueue(1)]
        report.options(unique=None).enqueue(1)
    assert [one.unique for one in recorded.enqueued(report)] == ["report:1", "report:1", None]
    assert all(job.new for job in jobs)


def test_flows_are_recorded() -> None:
    with record() as recorded:
        flow = app.flow()
        first = flow.add(add.call(1, 2))
        flow.add(add.call(first.value, 3))
        run = flow.enqueue()
    jobs = recorded.assert_enqueued(add, count=2)
    assert [job.flow for job in jobs] == [run.id] * 2
    recorded.assert_enqueued(add, args=(ANY, 3), count=1)
    recorded.assert_enqueued(add, kwargs={"a": 1}, count=1)


def test_replicas_hooks_and_enqueue_middlewares() -> None:
    own = Lockwork("redis://127.0.0.1:1")
    events: list[Enqueued] = []

    @own.task(replicas=2)
    def safe(n: int) -> None: ...

    @own.enqueue_middleware
    def trace(outgoing: Outgoing) -> Iterator[None]:
        outgoing.headers["trace"] = "t1"
        yield

    own.hooks.enqueue(events.append)
    with record() as recorded:
        safe.enqueue(1)
        asyncio.run(_aenqueue(safe))
    assert [job.headers for job in recorded.jobs] == [{"trace": "t1"}] * 2
    assert [event.args for event in events] == [[1], [2]]


async def _aenqueue(task: Any) -> None:
    await task.aenqueue(2)


def test_what_needs_a_server_says_so() -> None:
    with record():
        job = send.enqueue(1)
        calls: dict[str, Callable[[], Any]] = {
            "a call about jobs": lambda: job.result(timeout=1),
            "locks": lambda: app.lock("a").acquire(wait=0),
            "synchronizers|limiter": lambda: app.limiter("a", "1/s").acquire(wait=0),
            "stock": lambda: app.stock("phone", 1).reserve("me"),
            "a call about": job.cancel,
        }
        for call in calls.values():
            with pytest.raises(NoServer, match="needs a server.*lockwork_server"):
                call()
        with pytest.raises(NoServer), app.lock("a"):
            pass
    with pytest.raises(NoServer):
        with record():
            asyncio.run(_astate(send))


async def _astate(task: Any) -> None:
    job = await task.aenqueue(1)
    async with asyncio.timeout(5):
        await job.astate()


def test_nothing_is_left_in_force(connected: list[object]) -> None:
    with pytest.raises(ZeroDivisionError), record():
        raise ZeroDivisionError
    with pytest.raises(ServerUnavailable):
        send.enqueue(1)
    assert connected
    connected.clear()


class Shop(unittest.TestCase):
    def setUp(self) -> None:
        self.recorded = record().start()
        self.addCleanup(self.recorded.stop)

    def test_one(self) -> None:
        send.enqueue(1)
        self.recorded.assert_enqueued(send, count=1)

    def test_two(self) -> None:
        send.enqueue(2)
        assert_enqueued(send, args=(2,), count=1)
