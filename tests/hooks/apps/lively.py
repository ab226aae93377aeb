"""An app with lifespans; the variable LIFE selects their behavior."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated

from lockwork import Depends, Lockwork
from notes import record

lw = Lockwork()
LIFE = os.environ["LIFE"]
state: dict[str, str] = {}


@lw.lifespan
async def first() -> AsyncIterator[None]:
    record("first begins")
    state["first"] = "ready"
    yield
    await asyncio.sleep(0)
    record("first ends")


@lw.lifespan
def second() -> Iterator[None]:
    record("second begins")
    if LIFE == "fails":
        raise ConnectionError("the database is away")
    if LIFE == "exits":
        sys.exit("no configuration")
    if LIFE == "fails once" and not Path(os.environ["MARK"]).exists():
        Path(os.environ["MARK"]).touch()
        os._exit(9)
    yield
    record("second ends")
    if LIFE == "ends badly":
        raise ConnectionError("not closed")
    if LIFE == "exits at its end":
        sys.exit("not closed")
    if LIFE == "ends in several ways":
        raise BaseExceptionGroup("not closed", [ConnectionError(), KeyboardInterrupt()])


@lw.lifespan
@asynccontextmanager
async def third() -> AsyncIterator[None]:
    if LIFE == "hangs":
        record("hangs")
        await asyncio.Event().wait()
    if LIFE == "cancelled":
        raise asyncio.CancelledError
    if LIFE == "returns":
        return
    background = asyncio.create_task(asyncio.Event().wait())
    yield
    if background.cancel() and LIFE == "ends cancelled":
        await background


async def get_model() -> str:
    if LIFE == "no model":
        raise FileNotFoundError("the model is gone")
    record("model")
    return "model"


@lw.task
async def ready() -> str:
    return state["first"]


@lw.task
async def kills() -> None:
    os._exit(1)


@lw.task(queue="models")
async def infer(model: Annotated[str, Depends(get_model, scope="worker")]) -> str:
    return model
