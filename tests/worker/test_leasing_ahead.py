"""A worker leases jobs for one half of its slots while the jobs in the other half run."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any, cast

import pytest
import redis

from lockwork import Lockwork
from lockwork.protocol import keys
from lockwork.protocol.effects import Protocol, script_call
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queue.leases import Batch, Leased
from lockwork.worker.execution.contexts import FetchOptions, SessionContext
from lockwork.worker.execution.fetcher import Fetcher
from lockwork.worker.execution.queue_state import QueueState
from lockwork.worker.execution.slots import WorkerSlots


class Full:
    """A server that always has enough jobs."""

    def __init__(self, events: list[str]) -> None:
        self._events = events

    def run(self, protocol: Any) -> Any:
        effect = protocol.send(None)
        protocol.close()
        return self._lease(effect.args[1]) if effect.script.name == "queue/reserve" else asyncio.sleep(0)

    async def _lease(self, want: int) -> Batch:
        self._events.append(f"leases {want}")
        await asyncio.sleep(0)
        return Batch([Leased(str(number), b"", b"", 1, 0) for number in range(want)], None)


class Runs:
    """Runs jobs that await nothing."""

    def __init__(self, events: list[str], stop: Callable[[], None]) -> None:
        self._events = events
        self._stop = stop

    async def run(self, job: Leased, slot: object) -> None:
        self._events.append("runs")
        if self._events.count("runs") == 6:
            self._stop()

    def give_back(self, job: Leased) -> None:
        pass

    cancelled = give_back


@pytest.mark.parametrize(
    ("size", "begins"),
    [(1, ["leases 1", "runs"]), (3, ["leases 2", "leases 1", "runs", "runs"]), (4, ["leases 2", "leases 2", "runs"])],
)
async def test_half_of_the_slots_are_filled_while_the_other_jobs_run(size: int, begins: list[str]) -> None:
    events: list[str] = []
    slots = WorkerSlots(size)
    queue = QueueState("default", QueueKeys("lw", "default"), Runs(events, lambda: fetcher.stop()))
    fetcher = Fetcher(SessionContext(cast("Any", Full(events)), "host/1/a", "lw", slots, 1000), [queue], FetchOptions())
    async with asyncio.timeout(5):
        await fetcher.run()
    await slots.close()
    assert events[: len(begins)] == begins


def _write(prefix: str, name: str, *, prompt: bool) -> Protocol[Any]:
    return (yield script_call("locks/register_set", keys.fenced(prefix, name), [name, b"1", 1, 0, 0], prompt=prompt))


async def test_prompt_call_is_sent_before_the_loop_continues(alw: Lockwork, admin: redis.Redis) -> None:
    """Otherwise, a worker's request would wait until all leased jobs have run."""
    await alw.fenced("connects").aset(1, 1)
    run, prefix = alw.runtime.arun, alw.config.prefix
    calls = [asyncio.create_task(run(_write(prefix, name, prompt=name == "b"))) for name in ("a", "b")]
    await asyncio.sleep(0)  # both coroutines made their call
    end = time.monotonic() + 5
    while not admin.exists(keys.fenced(prefix, "b")):
        assert time.monotonic() < end
    await asyncio.gather(*calls)
