"""Concurrent enqueues share round trips; each caller still receives its own result."""

from __future__ import annotations

import asyncio
import json
import random
import threading
from typing import Any

import pytest
import redis

from commandstats import script_calls
from lockwork import Lockwork, PayloadTooLarge, ServerRefused
from lockwork.protocol.queue import record_header
from lockwork.tasks.task import Task


async def note(number: int | str) -> None: ...


@pytest.fixture
async def step(alw: Lockwork) -> Task[[int | str], None, Any]:
    """A task whose queue's script the server knows."""
    made = alw.task(note)
    await made.aenqueue(0)
    return made


async def test_concurrent_enqueues_share_few_calls(
    step: Task[[int | str], None, Any], alw: Lockwork, admin: redis.Redis
) -> None:
    """The first job is sent alone, the next in three early calls, and all others in one call."""
    before = script_calls(admin)
    jobs = await asyncio.gather(*(step.aenqueue(number) for number in range(1, 1000)))
    assert script_calls(admin) - before <= 5
    assert len({job.id for job in jobs}) == 999
    assert (await alw.queue().astatus()).ready == 1000


async def test_callers_wait_in_call_order(step: Task[[int | str], None, Any], admin: redis.Redis) -> None:
    jobs = await asyncio.gather(*(step.aenqueue(number) for number in range(50)))
    ready = admin.lrange("lw:{q:default}:ready:1", 1, -1)
    assert [id.decode() for id in ready] == [job.id for job in jobs]  # type: ignore[union-attr]


async def test_callers_do_not_overtake_waiting_callers(step: Task[[int | str], None, Any], admin: redis.Redis) -> None:
    """Also if a caller comes in the turn of the loop when the pending call has ended."""
    turns = random.Random(1)
    came: list[int] = []

    async def come(number: int) -> None:
        for _ in range(turns.choice((0, 0, 1, 2, 5))):
            await asyncio.sleep(0)
        came.append(number)
        await step.aenqueue(number)

    async def keep_coming(first: int) -> None:
        for number in range(first, first + 200):
            await come(number)

    await asyncio.gather(*(keep_coming(1000 * caller) for caller in range(1, 5)))
    ready: Any = admin.lrange("lw:{q:default}:ready:1", 1, -1)
    records: Any = admin.hmget("lw:{q:default}:jobs", ready)
    assert [json.loads(record_header.body(record))[1][0] for record in records] == came


async def test_tasks_of_one_queue_share_a_call(alw: Lockwork, admin: redis.Redis) -> None:
    one, two = alw.task(name="one")(note), alw.task(name="two")(note)
    await one.aenqueue(0)
    before = script_calls(admin)
    await asyncio.gather(*(task.aenqueue(1) for task in (one, two, two.options(priority="high")) * 5))
    assert script_calls(admin) - before <= 2


async def test_cancelled_caller_does_not_affect_others(step: Task[[int | str], None, Any], alw: Lockwork) -> None:
    """The job of the cancelled caller may be enqueued or not."""
    tasks = [asyncio.create_task(step.aenqueue(number)) for number in range(10)]
    await asyncio.sleep(0)
    for cancelled in (tasks[0], tasks[5]):
        cancelled.cancel()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert [isinstance(result, asyncio.CancelledError) for result in results] == [
        number in (0, 5) for number in range(10)
    ]
    assert 9 <= (await alw.queue().astatus()).ready <= 11
    await step.aenqueue(1)


async def test_too_large_job_does_not_affect_others(step: Task[[int | str], None, Any], alw: Lockwork) -> None:
    calls = [step.aenqueue("x" * 10_000_000 if number == 3 else number) for number in range(6)]
    results = await asyncio.gather(*calls, return_exceptions=True)
    assert [isinstance(result, PayloadTooLarge) for result in results] == [number == 3 for number in range(6)]
    assert (await alw.queue().astatus()).ready == 6


async def test_failure_reaches_every_caller(step: Task[[int | str], None, Any], admin: redis.Redis) -> None:
    admin.rename("lw:{q:default}:stats", "lw:{q:default}:away")
    admin.set("lw:{q:default}:stats", "of another type")
    results = await asyncio.gather(*(step.aenqueue(number) for number in range(6)), return_exceptions=True)
    assert all(isinstance(result, ServerRefused) for result in results), results
    assert admin.llen("lw:{q:default}:ready:1") == 1
    admin.rename("lw:{q:default}:away", "lw:{q:default}:stats")
    await step.aenqueue(1)


def test_event_loops_of_separate_threads_can_enqueue(lw: Lockwork) -> None:
    step = lw.task(note)

    async def several() -> None:
        await asyncio.gather(*(step.aenqueue(number) for number in range(100)))
        await asyncio.gather(*(step.aenqueue(number) for number in range(100)))

    threads = [threading.Thread(target=lambda: asyncio.run(several())) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert lw.queue().status().ready == 600
