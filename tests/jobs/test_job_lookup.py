"""Job lookup: the state, the queue, and the workers of the queue."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator

import pytest

from lockwork import Lockwork, ResultTimeout, ResultUnavailable
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queue import leases

SESSION = "host/1/a"


def begin(lw: Lockwork, queue: str = "default", session: str = SESSION) -> None:
    lw.runtime.run(leases.beat(QueueKeys("lw", queue), {session: True}, 60_000, 1))


def lease(lw: Lockwork, queue: str = "default") -> None:
    begin(lw, queue)
    assert lw.runtime.run(leases.reserve(QueueKeys("lw", queue), SESSION, 1, "r1", "")).jobs


@pytest.fixture
def tasks(own_url: str) -> Iterator[Lockwork]:
    with Lockwork(own_url) as lw:

        @lw.task
        def add(a: int) -> int:
            return a

        @lw.task(queue="mail", key="{to}")
        def send(to: str) -> None: ...

        yield lw


async def test_job_state_is_ready_or_running(tasks: Lockwork) -> None:
    async with tasks as lw:
        add, send = lw.registry.get("add"), lw.registry.get("send")
        first, second = await add.aenqueue(1), await add.aenqueue(2)
        assert await first.astate() == "ready"
        assert (await first.ainspect()).state == "ready"
        await lw.runtime.arun(leases.beat(QueueKeys("lw", "default"), {SESSION: True, "host/2/b": True}, 60_000, 1))
        await lw.runtime.arun(leases.reserve(QueueKeys("lw", "default"), SESSION, 1, "r1", ""))
        assert [await job.astate() for job in (first, second)] == ["running", "ready"]
        assert (await first.ainspect()).state == "running"
        assert await (await send.aenqueue("ada")).astate() == "ready", "a job with a key, before a worker admits it"


def test_result_timeout_names_the_state_of_the_job(tasks: Lockwork) -> None:
    add = tasks.registry.get("add")
    job = add.enqueue(1)
    said = f"job {job.id} in queue 'default' has not ended yet: "
    for also in ("it is ready, and no worker serves the queue", "it is ready, and the queue is paused"):
        with pytest.raises(ResultTimeout) as late:
            job.result(0)
        assert str(late.value) == said + also
        tasks.queue().pause()
    tasks.queue().resume()
    lease(tasks)
    with pytest.raises(ResultTimeout) as late:
        job.result(0.01)
    assert re.fullmatch(
        re.escape(said) + rf"attempt 1 of 4 has been running for [\d.]+ m?s on worker {SESSION}", str(late.value)
    )
    begin(tasks, session="host/2/b")
    later = add.options(delay="1h").enqueue(1)
    text = "it is scheduled, to start in (1 h|59 min 59 s|60.0 s)[^,]*, and 2 worker processes serve the queue"
    with pytest.raises(ResultTimeout, match=text):
        later.result(0)


def test_result_timeout_tells_the_last_failure(lw: Lockwork) -> None:
    @lw.task(retries=3, backoff="1h")
    def fail(text: str) -> None:
        raise TypeError(text)

    @lw.task(max_deliveries=2, backoff="1h")
    def fail_twice() -> None:
        raise LookupError

    jobs = [fail.enqueue("no\nnumber"), fail.enqueue("x" * 1000), fail_twice.enqueue()]
    worker = lw.worker()
    thread = threading.Thread(target=worker.run, name="lockwork-test-worker")
    thread.start()
    while any(job.state() != "scheduled" or not job.attempts() for job in jobs):
        time.sleep(0.01)
    worker.stop()
    thread.join()
    texts = []
    for job in jobs:
        with pytest.raises(ResultTimeout) as late:
            job.result(0.01)
        texts.append(str(late.value).partition(" has not ended yet: ")[2])
    pause = r"; next attempt in [^,]+, and no worker serves the queue"
    assert re.fullmatch(f"attempt 1 of 4 failed: TypeError: no number{pause}", texts[0])
    assert re.fullmatch(f"attempt 1 of 4 failed: TypeError: x+\\.\\.\\.{pause}", texts[1])
    assert len(texts[1]) < 320
    assert re.fullmatch(f"attempt 1 of 2 failed: LookupError{pause}", texts[2])


def test_worker_with_expired_lease_does_not_serve_its_queue(tasks: Lockwork) -> None:
    tasks.runtime.run(leases.beat(QueueKeys("lw", "default"), {SESSION: True}, 0, 1))
    with pytest.raises(ResultTimeout, match="no worker serves the queue"):
        tasks.registry.get("add").enqueue(1).result(0)


def test_job_is_found_in_any_queue(tasks: Lockwork, own_url: str) -> None:
    add, send = (tasks.registry.get(name) for name in ("add", "send"))
    for job in (add.enqueue(1), send.enqueue("ada")):
        found = tasks.job(job.id)
        assert found.state() == job.state()
        assert found.queue == job.queue
        assert tasks.job(job.id).cancel()
        assert found.state() == "cancelled"
    with pytest.raises(ResultUnavailable, match="nothing is known of job nobody in any queue on this server: "):
        tasks.job("nobody").result(0)
    assert tasks.job("nobody").state() == "unknown"
    here = send.enqueue("bob")
    with Lockwork(own_url) as other:
        found = other.job(here.id)
        assert found.state() == "ready", "an app without that task searches all queues"
        assert found.queue == "mail"
        assert other.job(here.id, "default").state() == "unknown"
        with pytest.raises(ResultUnavailable, match=f"nothing is known of job {here.id} in queue 'default'"):
            other.job(here.id, "default").result(0)
        assert other.job(here.id, "mail").state() == "ready"


async def test_async_job_handle_finds_its_queue(tasks: Lockwork) -> None:
    async with tasks as lw:
        job = await lw.registry.get("send").aenqueue("ada")
        assert await lw.job(job.id).astate() == "ready"
        assert await lw.job(job.id).acancel()


def test_task_makes_handles_of_its_jobs(own_url: str) -> None:
    with Lockwork(own_url, partitions={"mail": 3}) as lw:

        @lw.task
        def add(a: int) -> tuple[int, str]:
            return a, "a"

        @lw.task(queue="mail")
        def send(to: int) -> None: ...

        job = add.enqueue(1)
        begin(lw)
        (leased,) = lw.runtime.run(leases.reserve(QueueKeys("lw", "default"), SESSION, 1, "r1", "")).jobs
        outcome = leases.Outcome(job.id, leased.token, "s", b'[1,"a"]')
        lw.runtime.run(leases.settle(QueueKeys("lw", "default"), SESSION, [outcome], 60_000))
        assert add.job(job.id).result(0) == (1, "a"), "the result has the task's type"
        for sent in [send.enqueue(number) for number in range(6)]:
            assert send.job(sent.id).state() == lw.job(sent.id).state() == "ready"
            found = send.job(sent.id)
            assert found.cancel()
            assert found.queue == sent.queue
