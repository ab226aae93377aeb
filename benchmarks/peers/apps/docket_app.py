"""Docket's jobs in a Redis stream. Those of a killed worker run again after the redelivery time-out."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import AsyncExitStack

from docket import Docket

from benchmarks.peers.jobs import acpu, aio, anoop

tasks = [anoop, aio, acpu]
_stack = AsyncExitStack()
_docket: list[Docket] = []


async def enqueue(kind: str, times: Sequence[float]) -> None:
    """Enqueue jobs."""
    if not _docket:
        _docket.append(await _stack.enter_async_context(Docket(name="peers", url=os.environ["PEER_REDIS"])))
    job = {"noop": anoop, "io": aio, "cpu": acpu}[kind]
    for due in times:
        await _docket[0].add(job)(due)
