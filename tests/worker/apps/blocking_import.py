"""An app that blocks while it is imported and in its lifespan; imports after the first fail while BROKEN exists."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextvars import ContextVar
from pathlib import Path

from lockwork import Lockwork

lw = Lockwork()
lw.queue("mail").limit(concurrency=7)
loaded = asyncio.run(asyncio.sleep(0, "configuration"))
region: ContextVar[str] = ContextVar("region")

if "IMPORTS" in os.environ:
    with Path(os.environ["IMPORTS"]).open("a+") as imports:
        imports.write("imported\n")
        imports.seek(0)
        if len(imports.readlines()) > 1 and Path(os.environ["BROKEN"]).exists():
            raise RuntimeError("half deployed")


@lw.lifespan
def warmed() -> Iterator[None]:
    with lw.lock(f"warm-up:{os.getpid()}"):
        token = region.set("eu")
        yield
        region.reset(token)
    if "IMPORTS" in os.environ:
        Path(os.environ["IMPORTS"]).with_suffix(".released").touch()


@lw.task(queue="mail")
async def send() -> list[str]:
    return [loaded, region.get(), "held" if await lw.lock(f"warm-up:{os.getpid()}").alocked() else "free"]


@lw.task(queue="mail", executor="process")
def crunch() -> list[str]:
    return [loaded, region.get()]
