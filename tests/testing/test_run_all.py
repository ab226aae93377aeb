"""Jobs that run as in a worker, with the real scripts on an embedded server: `run_all`, `worker` and the clock."""

from __future__ import annotations

import asyncio
import datetime as dt
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from lockwork import ConfigError, JobContext, Lockwork, ResultTimeout, current_job
from lockwork.errors import BlockingCallError, JobExpired, LockLost
from lockwork.testing import (
    TooManyRuns,
    arun_all,
    assert_enqueued,
    enqueued,
    fake_job,
    record,
    run_all,
    server,
    worker,
)
from lockwork.testing.servers import stop_server
from lockwork.types import JobFailure, Succeeded

pytestmark = pytest.mark.usefixtures("only_its_apps")
URL = "redis://127.0.0.1:1"
log: list[Any] = []


@pytest.fixture(scope="module", autouse=True)
def stopped() -> Iterator[None]:
    yield
    stop_server()


@pytest.fixture(autouse=True)
def forget() -> None:
    log.clear()


@pytest.fixture
def shop() -> Iterator[Lockwork]:
    with Lockwork(URL, patience=0) as lw:
        yield lw


def test_recorded_jobs_run_with_what_they_enqueue(shop: Lockwork) -> None:
    @shop.task(queue="mail")
    async def send(user: int) -> str:
        log.append(f"mail {user}")
        return f"mail {user}"

    @shop.task
    def order(number: int) -> int:
        log.append(f"order {number}")
        send.enqueue(number)
        return number

    with record() as recorded:
        job = order.enqueue(5)
        assert log == []
        done = run_all()
        assert log == ["order 5", "mail 5"]
        assert job.result(0) == 5
        assert_enqueued(send, args=(5,), count=1)
        order.enqueue(6)  # recorded, and on the server
        assert len(run_all().succeeded) == 2
    assert sorted(event.task for event in done.succeeded) == ["order", "send"]
    assert (done.attempts, len(recorded.enqueued(order))) == (2, 2)


def test_retries_and_back_off_take_no_time(shop: Lockwork) -> None:
    @shop.task(retries=3, backoff=100)
    def flaky() -> int:
        log.append(current_job().attempt)
        if current_job().attempt < 4:
            raise LookupError
        return current_job().attempt

    began = time.monotonic()
    with record():
        job = flaky.enqueue()
        done = run_all(within="1h")
        assert log == [1, 2, 3, 4]
        assert (len(done.retried), done.attempts, len(done.succeeded)) == (3, 4, 1)
        assert job.inspect().attempts in (None, 4)
    assert time.monotonic() - began < 20


def test_error_of_a_dead_job_is_raised_as_it_is(shop: Lockwork) -> None:
    """dramatiq's StubBroker.join and Celery's worker fixture leave it in the log."""

    @shop.task(retries=1, backoff=0)
    def fail(text: str) -> None:
        raise LookupError(text)

    with record():
        job = fail.enqueue("no such order")
        with pytest.raises(LookupError, match="no such order") as raised:
            run_all()
        assert "failed for good, in attempt 2" in raised.value.__notes__[0]
        assert job.state() == "dead"
        fail.enqueue("a")
        fail.enqueue("b")
        with pytest.raises(ExceptionGroup, match="2 jobs failed for good"):
            run_all()
        fail.enqueue("c")
        done = run_all(raise_errors=False)
        assert [str(event.error) for event in done.dead] == ["c"]


def test_delayed_jobs_run_when_the_clock_reaches_them(shop: Lockwork) -> None:
    @shop.task
    def remind(day: int) -> None:
        log.append(day)

    with record() as recorded:
        remind.options(delay="3d").enqueue(3)
        remind.options(delay="5m").enqueue(0)
        run_all()
        assert log == [0]
        run_all(within="4d")
        assert log == [0, 3]
        remind.options(delay="300d").enqueue(300)
        run_all(within=None)
        assert log == [0, 3, 300]
        assert run_all(within=0).attempts == 0
    assert len(recorded.jobs) == 3


def test_unique_jobs_flows_hooks_and_middlewares(shop: Lockwork) -> None:
    @shop.task(unique=True)
    def report(user: int) -> None:
        log.append("report")

    @shop.task
    def add(a: int, b: int) -> int:
        return a + b

    @shop.middleware
    def around(job: JobContext) -> Iterator[None]:
        log.append(f"begin {job.task}")
        yield

    @shop.hooks.success
    def succeeded(event: Succeeded) -> None:
        log.append(f"end {event.task}")

    with record():
        report.enqueue(1)
        report.enqueue(1)
        flow = shop.flow()
        first = flow.add(add.call(1, 2))
        flow.add(add.call(first.value, 10))
        run = flow.enqueue()
        done = run_all()
        assert run.result(0) == 13
    assert sorted(event.task for event in done.succeeded) == ["add", "add", "report"]
    assert log.count("begin add") == log.count("end add") == 2
    assert log.count("report") == 1
    assert shop.hooks.on_dead == ()


def test_callbacks(shop: Lockwork) -> None:
    @shop.task(retries=1, backoff="1s")
    def charge(order: int) -> str:
        if order < 0:
            raise ValueError(order)
        return f"payment {order}"

    @shop.task
    def receipt(payment: str) -> None:
        log.append(payment)

    @shop.task
    def alert(error: JobFailure) -> None:
        log.append(f"{error.type} {error.text}")

    with record() as recorded:
        for order in (7, -7):
            charge.options(then=receipt, on_error=alert).enqueue(order)
        recorded.assert_enqueued(charge, args=[7], count=1)
        run_all(raise_errors=False)
    assert sorted(log) == ["ValueError -7", "payment 7"]


def test_job_that_enqueues_itself_is_stopped(shop: Lockwork) -> None:
    @shop.task
    def forever() -> None:
        forever.enqueue()

    @shop.task(name="snoozes")
    def snoozes() -> None:
        current_job().snooze(1)

    for task in (forever, snoozes):
        with record():
            task.enqueue()
            with pytest.raises(TooManyRuns, match="does a job enqueue itself"):
                run_all(most=20, within=None)


@pytest.fixture
def other() -> Iterator[Lockwork]:
    with Lockwork(URL, prefix="other") as lw:
        yield lw


def test_jobs_of_two_apps(shop: Lockwork, other: Lockwork) -> None:
    @other.task
    def pong(n: int) -> None:
        log.append(f"pong {n}")
        if n:
            ping.enqueue(n - 1)

    @shop.task
    def ping(n: int) -> None:
        log.append(f"ping {n}")
        pong.enqueue(n)

    with record():
        ping.enqueue(1)
        run_all()
    assert log == ["ping 1", "pong 1", "ping 0", "pong 0"]


def test_schedules(shop: Lockwork) -> None:
    @shop.task(cron="0 9 * * *", misfire="all")
    def report() -> None:
        log.append("report")

    with server() as local:
        local.clock.advance("3d")
        run_all()
    assert log == ["report"] * 3


def test_expired_and_limited(shop: Lockwork) -> None:
    @shop.task
    def work() -> None:
        log.append("work")

    with server() as local:
        job = work.options(expires="1h").enqueue()
        local.clock.advance("2h")
        run_all()
        with pytest.raises(JobExpired):
            job.result(0)
    assert log == []


async def test_asyncio(shop: Lockwork) -> None:
    @shop.task
    async def work(n: int) -> int:
        return n + 1

    with record():
        job = await work.aenqueue(1)
        with pytest.raises(BlockingCallError):
            run_all()
        done = await arun_all()
        assert await job.aresult(0) == 2
        assert len(done.succeeded) == 1


def test_run_all_needs_something_to_run() -> None:
    with pytest.raises(RuntimeError, match="use record"):
        run_all()


def test_fake_job_of_the_test_is_not_that_of_its_jobs(shop: Lockwork) -> None:
    @shop.task
    def work() -> None:
        log.append(current_job().id)

    with record(), fake_job(id="fake") as fake:
        work.enqueue()
        run_all()
        assert fake.progress == []
    assert log != ["fake"]


def test_worker_in_this_process(shop: Lockwork) -> None:
    @shop.task
    def work(n: int) -> str:
        return f"{n} {threading.current_thread() is threading.main_thread()}"

    with server():
        with worker(shop, concurrency=2):
            assert work.enqueue(1).result(10) == "1 False"
            with record():
                assert work.enqueue(2).result(10) == "2 False"
                assert len(enqueued(work)) == 1
        with pytest.raises(ResultTimeout):
            work.enqueue(3).result(0)
        with pytest.raises(ConfigError), worker(Lockwork()):
            pass


def test_clock_wakes_a_sleeping_worker(shop: Lockwork) -> None:
    @shop.task
    def work() -> int:
        return 1

    @shop.task(every="1d")
    def daily() -> None:
        log.append("daily")

    with server() as local, worker(shop):
        job = work.options(delay="3d").enqueue()
        time.sleep(0.5)
        began = local.clock.now
        local.clock.advance("3d")
        assert local.clock.now - began >= dt.timedelta(days=3)
        started = time.monotonic()
        assert job.result(20) == 1
        assert time.monotonic() - started < 3
        deadline = time.monotonic() + 10
        while "daily" not in log and time.monotonic() < deadline:
            time.sleep(0.05)
        assert "daily" in log


def test_clock_moves_leases_limiters_and_once(shop: Lockwork) -> None:
    with server() as local:
        shop.limiter("api", "1/h").acquire(wait=0)
        with shop.lock("other"):
            pass
        grant = shop.lock("order", lease=30).acquire()
        assert grant is not None
        assert [shop.once("report", every="1d").run(lambda: 1), shop.once("report", every="1d").run(lambda: 2)] == [
            1,
            1,
        ]
        local.clock.advance("2d")
        shop.limiter("api", "1/h").acquire(wait=0)
        assert shop.once("report", every="1d").run(lambda: 3) == 3
        with shop.lock("order", wait=0):
            pass
        with pytest.raises(LockLost):
            grant.release()


async def test_clock_wakes_coroutines(shop: Lockwork) -> None:
    @shop.task(every="1d")
    async def daily() -> None: ...

    with server() as local:
        with pytest.raises(BlockingCallError):
            local.clock.advance("1d")
        await shop.limiter("api", "1/h").aacquire()
        waiting = asyncio.create_task(shop.limiter("api", "1/h").aacquire(wait="2h"))
        await asyncio.sleep(0.2)
        await local.clock.aadvance("1h")
        await asyncio.wait_for(waiting, 10)
        await shop.aclose()


def test_error_of_a_block_is_raised_before_what_it_leaves(shop: Lockwork) -> None:
    @shop.task
    def work() -> None: ...

    with pytest.raises(ZeroDivisionError), record():
        work.enqueue()
        run_all()
        shop.lock("order").acquire()
        raise ZeroDivisionError
    with pytest.raises(AssertionError, match="lock 'order' is held by"), server():
        shop.lock("order").acquire()


def test_clock_of_the_next_test_is_right(shop: Lockwork) -> None:
    with server() as local:
        local.clock.advance("3d")
    with server() as local:
        assert abs((local.clock.now - dt.datetime.now(dt.UTC)).total_seconds()) < 5
        with shop.lock("a"):
            pass


def test_run_all_runs_jobs_of_every_queue_that_was_chosen() -> None:
    with server(), Lockwork() as app:

        @app.task
        def send(user: int) -> int:
            return user

        job = send.options(queue="urgent").enqueue(1)
        assert run_all().attempts == 1
        assert job.result(timeout=1) == 1
