"""An app with hooks, a lifespan and dependencies; every event is appended to the file HISTORY."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator
from typing import Annotated

from lockwork import Depends, Lockwork, current_job
from lockwork.hooks import Died, Failed, Started, Succeeded
from notes import record

lw = Lockwork()


@lw.lifespan
def life() -> Iterator[None]:
    if os.environ.get("LIFESPAN_FAILS") and "lockwork.worker.process.runner" in sys.orig_argv:
        raise ConnectionError("no fire")
    record("begins")
    yield
    record("ends")


@lw.hooks.start
def started(event: Started) -> None:
    record("start", id=event.id, args=event.args)


@lw.hooks.success
async def succeeded(event: Succeeded) -> None:
    await asyncio.sleep(float(os.environ.get("HOOK_SECONDS", "0")))
    record("success", id=event.id, result=event.result)


@lw.hooks.failure
def failed(event: Failed) -> None:
    record("failure", id=event.id, error=repr(event.error))


@lw.hooks.dead
def died(event: Died) -> None:
    record("dead", id=event.id)


def get_iron() -> str:
    record("iron")
    return "iron"


def get_fire() -> Iterator[str]:
    record("lit")
    yield f"fire for {current_job().id}"
    record("out")


@lw.task(executor="process")
def smelt(
    weight: int, iron: Annotated[str, Depends(get_iron, scope="worker")], fire: Annotated[str, Depends(get_fire)]
) -> list[object]:
    return [weight, iron, fire, os.getpid(), os.getppid()]


@lw.task(executor="process", max_deliveries=1)
def bursts() -> None:
    record("parent", child=os.getppid())
    os._exit(5)


@lw.task(hard_timeout="10m")
async def watched(weight: int) -> int:
    return weight
