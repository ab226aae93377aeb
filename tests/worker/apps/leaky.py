"""Jobs that acquire locks and do not release them."""

from __future__ import annotations

import asyncio
import gc
import os
import time
from collections.abc import AsyncIterator, Iterator
from typing import Annotated

from lockwork import Depends, Lockwork
from lockwork.locks.grant import Grant

gc.disable()  # a job's objects are deleted by their reference counts
lw = Lockwork(lock_lease="1m")
kept: list[Grant] = []
background: set[asyncio.Task[None]] = set()


@lw.task(retries=0)
def takes() -> None:
    lw.lock("x").acquire()


@lw.task(retries=0)
async def atakes() -> None:
    await lw.lock("x").aacquire()


@lw.task(retries=0, executor="process")
def takes_in_a_process() -> None:
    lw.lock("x").acquire()


@lw.task(retries=0, executor="process")
async def atakes_in_a_process() -> None:
    await lw.lock("x").aacquire()


@lw.task(retries=0, batch=10)
def takes_in_a_batch(items: list[int]) -> None:
    lw.lock("x").acquire()


@lw.task(retries=0, batch=10)
async def atakes_in_a_batch(items: list[int]) -> None:
    await lw.lock("x").aacquire()


@lw.task(retries=0)
def takes_a_permit() -> None:
    lw.semaphore("x", 1).acquire()


@lw.task(retries=0)
async def atakes_a_permit() -> None:
    await lw.semaphore("x", 1).aacquire()


@lw.task(retries=0)
def fails_with_a_permit() -> None:
    permit = lw.semaphore("x", 1).acquire()
    raise ValueError(permit.name)


@lw.task(retries=0)
async def afails_with_a_permit() -> None:
    permit = await lw.semaphore("x", 1).aacquire()
    raise ValueError(permit.name)


@lw.task(retries=0, batch=10)
def fails_with_a_permit_in_a_batch(items: list[int]) -> None:
    permit = lw.semaphore("x", 1).acquire()
    raise ValueError(permit.name)


@lw.task(retries=0, timeout="200ms")
def times_out() -> None:
    permit, grant = lw.semaphore("x", 1).acquire(), lw.lock("x").acquire()
    while not (permit.lost and grant.lost):
        time.sleep(0.01)


@lw.task(retries=0, timeout="200ms")
async def atimes_out() -> None:
    permit, grant = await lw.semaphore("x", 1).aacquire(), await lw.lock("x").aacquire()
    await asyncio.sleep(60)
    assert permit.fence > grant.fence


@lw.task(retries=0)
def takes_everything() -> None:
    lw.multilock("x", "y").acquire()
    lw.rwlock("x").read().acquire()
    lw.lock("sticky", sticky=True).acquire()
    lw.queue().lock("x").acquire()


@lw.task(retries=0)
def takes_for_a_minimum(seconds: float) -> None:
    lw.lock("x", at_least=seconds).acquire()


@lw.task(retries=0)
def keeps_its_permit() -> None:
    kept.append(lw.semaphore("x", 1).acquire())


@lw.task(retries=0)
def releases_the_kept() -> None:
    kept.pop().release()


@lw.task(retries=0)
async def starts_what_goes_on() -> None:
    holds = asyncio.Event()

    async def go_on() -> None:
        async with lw.lock("x"):
            holds.set()
            await asyncio.sleep(600)

    task = asyncio.create_task(go_on())
    background.add(task)
    await holds.wait()


def lock_of_the_job() -> Iterator[Grant]:
    with lw.lock("x").acquire() as grant:
        yield grant


@lw.task(retries=0)
async def uses_a_dependency(grant: Annotated[Grant, Depends(lock_of_the_job)]) -> bool:
    await asyncio.sleep(0.05)
    return grant.lost


def lock_of_the_worker() -> Iterator[Grant]:
    with lw.lock(f"worker-{os.getpid()}") as grant:
        yield grant


async def async_lock_of_the_worker() -> AsyncIterator[Grant]:
    async with lw.lock(f"async-worker-{os.getpid()}") as grant:
        yield grant


@lw.task(retries=0)
async def uses_the_workers_locks(
    one: Annotated[Grant, Depends(lock_of_the_worker, scope="worker")],
    other: Annotated[Grant, Depends(async_lock_of_the_worker, scope="worker")],
) -> list[str]:
    return [grant.name for grant in (one, other) if not grant.lost]
