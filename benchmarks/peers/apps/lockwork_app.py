"""Lockwork's jobs. A worker that is killed loses none, and its share of jobs goes to the others after a lease."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from benchmarks.peers.jobs import ASYNC, BLOCKING
from lockwork import Lockwork

lw = Lockwork(os.environ["PEER_REDIS"])
tasks: dict[str, Any] = {
    "noop": lw.task(name="noop", keep_result=False)(ASYNC["noop"]),
    "io": lw.task(name="io", keep_result=False)(ASYNC["io"]),
    "cpu": lw.task(name="cpu", keep_result=False, executor="process")(BLOCKING["cpu"]),
    "noop_def": lw.task(name="noop_def", keep_result=False)(BLOCKING["noop"]),
    "io_def": lw.task(name="io_def", keep_result=False)(BLOCKING["io"]),
}


async def enqueue(kind: str, times: Sequence[float]) -> None:
    """Enqueue jobs."""
    if len(times) == 1:
        await tasks[kind].aenqueue(times[0])
    else:
        await tasks[kind].aenqueue_many([(due,) for due in times])
