"""An app with hooks, a lifespan and dependencies; every event is appended to the file HISTORY."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Iterator
from typing import Annotated

from lockwork import Depends, Lockwork, current_job
from lockwork.hooks import Died, Failed, Started, Succeeded

lw = Lockwork()


def note(event: str, **facts: object) -> None:
    line = {"event": event, "pid": os.getpid(), **facts}
    file = os.open(os.environ["HISTORY"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(file, json.dumps(line).encode() + b"\n")
    finally:
        os.close(file)


@lw.lifespan
def life() -> Iterator[None]:
    if os.environ.get("LIFESPAN_FAILS") and "lockwork.worker.process.runner" in sys.orig_argv:
        raise ConnectionError("no fire")
    note("begins")
    yield
    note("ends")


@lw.hooks.start
def started(event: Started) -> None:
    note("start", id=event.id, args=event.args)


@lw.hooks.success
async def succeeded(event: Succeeded) -> None:
    await asyncio.sleep(float(os.environ.get("HOOK_SECONDS", "0")))
    note("success", id=event.id, result=event.result)


@lw.hooks.failure
def failed(event: Failed) -> None:
    note("failure", id=event.id, error=repr(event.error))


@lw.hooks.dead
def died(event: Died) -> None:
    note("dead", id=event.id)


def get_iron() -> str:
    note("iron")
    return "iron"


def get_fire() -> Iterator[str]:
    note("lit")
    yield f"fire for {current_job().id}"
    note("out")


@lw.task(executor="process")
def smelt(
    weight: int, iron: Annotated[str, Depends(get_iron, scope="worker")], fire: Annotated[str, Depends(get_fire)]
) -> list[object]:
    return [weight, iron, fire, os.getpid(), os.getppid()]


@lw.task(executor="process", max_deliveries=1)
def bursts() -> None:
    note("parent", child=os.getppid())
    os._exit(5)


@lw.task(hard_timeout="10m")
async def watched(weight: int) -> int:
    return weight
