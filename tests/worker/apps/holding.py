"""Tasks that acquire locks of every kind, and keep them until the latch `done` opens."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from lockwork import Lockwork

lw = Lockwork()

KINDS: dict[str, Callable[[], Any]] = {
    "lock": lambda: lw.lock("lock", tags=["night", "a;b"]),
    "rwlock": lambda: lw.rwlock("rwlock").write(),
    "reader": lambda: lw.rwlock("reader").read(),
    "semaphore": lambda: lw.semaphore("semaphore", 1),
    "multilock": lambda: lw.multilock("multi-a", "multi-b"),
    "queuelock": lambda: lw.queue("other").lock("queuelock"),
    "election": lambda: lw.election("election"),
    "sticky": lambda: lw.lock("sticky", sticky=True),
}


@lw.task
def hold(kind: str) -> None:
    with KINDS[kind]():
        lw.latch("done", 1).wait(60)


@lw.task(name="ahold;it's,here")
async def ahold(kind: str) -> None:
    async with KINDS[kind]():
        await lw.latch("done", 1).await_(60)


@lw.task
async def hold_in_a_child_task(kind: str) -> None:
    await asyncio.create_task(ahold.function(kind), name="child")


@lw.task(executor="process")
def hold_in_a_process(kind: str) -> None:
    hold.function(kind)


@lw.task(batch=10, linger=0.5)
async def hold_in_a_batch(kinds: list[str]) -> None:
    await ahold.function(kinds[0])


@lw.task
def hold_a_quorum(url: str) -> None:
    with Lockwork(url, prefix="b") as b, Lockwork(url, prefix="c") as c, lw.quorum([lw, b, c]) as quorum:
        holding = quorum.lock("quorum").acquire()
        lw.latch("done", 1).wait(60)
        holding.release()


@lw.task
async def run_once() -> str:
    return await lw.once("once", "1h").arun(lambda: "done")


@lw.task
async def cross(first: str, second: str) -> None:
    """Deadlocks when two of these jobs have the names in different orders."""
    async with lw.lock(first):
        await lw.barrier("both", 2).await_(60)
        async with lw.lock(second):
            pass
