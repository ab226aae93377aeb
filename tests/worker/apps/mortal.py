"""Tasks whose workers die; every event is appended to the file HISTORY.

A worker process that imports this module waits for the file GATE, if the variable GATE is set.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from pathlib import Path

from lockwork import Lockwork, current_job
from lockwork.errors import WorkerDied
from lockwork.hooks import Died, Failed
from notes import record

lw = Lockwork()


if "GATE" in os.environ and "lockwork.worker.process.main" in sys.orig_argv:
    record("importing")
    while not Path(os.environ["GATE"]).exists():
        time.sleep(0.01)


def ran() -> int:
    job = current_job()
    record("ran", id=job.id, attempt=job.attempt)
    return job.attempt


@lw.hooks.dead
def died(event: Died) -> None:
    record("dead", id=event.id, task=event.task, queue=event.queue, attempt=event.attempt, error=str(event.error),
         of_worker=isinstance(event.error, WorkerDied))  # fmt: skip


@lw.hooks.failure
def failed(event: Failed) -> None:
    record("failure", id=event.id, attempt=event.attempt)


@lw.task(retries=0)
async def mark() -> int:
    return ran()


@lw.task(retries=0)
async def holds_once() -> int:
    if ran() == 1:
        await asyncio.sleep(600)
    return current_job().attempt


@lw.task(retries=0)
async def kills_its_worker() -> None:
    ran()
    os.kill(os.getpid(), 9)


@lw.task(retries=1, backoff="1ms")
async def dies_then_fails() -> None:
    if ran() == 1:
        os.kill(os.getpid(), 9)
    raise ValueError("no")


@lw.task(retries=1, backoff="1ms", max_deliveries=2)
async def may_start_twice() -> None:
    if ran() == 1:
        raise ValueError("no")
    os.kill(os.getpid(), 9)


@lw.task(max_deliveries=1, backoff="1ms")
async def kills_once() -> None:
    ran()
    os.kill(os.getpid(), 9)


@lw.task(max_deliveries=1, backoff="1ms")
async def fails_once() -> None:
    ran()
    raise ValueError("no")


@lw.task(max_deliveries=1)
async def starts_once() -> None:
    ran()
    await asyncio.sleep(600)


@lw.task(max_deliveries=1)
def starts_once_in_a_thread() -> None:
    ran()
    time.sleep(600)


@lw.task(max_deliveries=1, executor="process")
def starts_once_in_a_process() -> None:
    ran()
    time.sleep(600)
