"""The tasks of the tests of jobs that wait for results of other jobs."""

from __future__ import annotations

import asyncio

from gates import opened
from lockwork import Lockwork, stuck

lw = Lockwork()
stuck.LEAST = 1.0


@lw.task
def inner(number: int) -> int:
    return number


@lw.task
def outer() -> int:
    return inner.enqueue(7).result()


@lw.task
async def outer_on_loop() -> int:
    return await (await inner.aenqueue(7)).aresult()


@lw.task
async def outer_of_many() -> list[int]:
    jobs = [await inner.aenqueue(number) for number in range(20)]
    return list(await asyncio.gather(*(job.aresult() for job in jobs)))


@lw.task
async def outer_in_group() -> int:
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(outer_on_loop.function())
    return waiting.result()


@lw.task(executor="process")
def outer_in_runner() -> int:
    return inner.enqueue(7).result()


@lw.task(executor="process")
def inner_in_runner(number: int) -> int:
    return number


@lw.task(executor="process")
def outer_of_runners() -> int:
    return inner_in_runner.enqueue(7).result()


@lw.task(batch=1)
def outer_in_batch(items: list[int]) -> list[int]:
    return [inner.enqueue(item).result() for item in items]


@lw.task
def outer_of_flow() -> int:
    flow = lw.flow()
    flow.add(inner.call(7))
    return int(flow.enqueue().result())


@lw.task(queue="a")
def of_a(depth: int) -> int:
    return of_b.enqueue(depth - 1).result() if depth else 0


@lw.task(queue="b")
def of_b(depth: int) -> int:
    return of_a.enqueue(depth - 1).result() if depth else 0


@lw.task(queue="a")
async def waits_for_a_file(path: str) -> None:
    await opened(path)


@lw.task(queue="a")
def waits_for_a_slow_job(path: str) -> None:
    waits_for_a_file.enqueue(path).result()
