"""`retry` and `snooze` in a task group: the exception group has the effect of the call."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from lockwork import Lockwork, current_job
from lockwork.jobs.current import QueueContext, SlotContext, slot
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queue.leases import Leased, Outcome
from lockwork.worker.execution.contexts import ExecutionContext
from lockwork.worker.execution.executor import Executor
from lockwork.worker.execution.job_log import JobLog
from lockwork.worker.execution.slots import WorkerSlots

lw = Lockwork("redis://127.0.0.1:1", patience=0)


async def snoozes() -> None:
    current_job().snooze("1s")


async def tries_again() -> None:
    current_job().retry("2s")


async def fails() -> None:
    raise ValueError("a fault")


async def waits() -> None:
    await asyncio.sleep(600)


async def in_a_group() -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(snoozes())
        group.create_task(waits())


PARTS: dict[str, Any] = {
    "snoozes": snoozes, "tries again": tries_again, "fails": fails, "waits": waits, "in a group": in_a_group
}  # fmt: skip


@lw.task(retries=3, backoff=60)
async def grouped(names: list[str], *, itself: bool) -> None:
    async with asyncio.TaskGroup() as group:
        for name in names:
            group.create_task(PARTS[name]())
        if itself:
            current_job().snooze("3s")


class _Settled:
    def __init__(self) -> None:
        self.outcomes: list[Outcome] = []

    def add(self, outcome: Outcome) -> None:
        self.outcomes.append(outcome)

    async def confirmed(self, id: str) -> bool:
        return False


@pytest.mark.parametrize(
    ("names", "itself", "kind", "delay_ms"),
    [
        (["snoozes"], False, "z", 1000),
        (["tries again"], False, "r", 2000),
        (["waits", "snoozes", "waits"], False, "z", 1000),
        (["waits"], True, "z", 3000),
        (["in a group", "waits"], False, "z", 1000),
        (["tries again", "tries again"], False, "r", 2000),
    ],
)
async def test_signals_in_groups_have_the_effect_of_the_call(
    names: list[str], itself: bool, kind: str, delay_ms: int
) -> None:
    assert [(outcome.kind, outcome.delay_ms) for outcome in await outcomes(names, itself)] == [(kind, delay_ms)]


async def test_error_beside_a_signal_is_a_failure() -> None:
    (outcome,) = await outcomes(["snoozes", "fails"], itself=False)
    assert outcome.kind == "r"
    assert outcome.delay_ms >= 30_000
    assert b"ValueError: a fault" in outcome.value


async def outcomes(names: list[str], itself: bool) -> list[Outcome]:
    """Run one job like a worker."""
    settled, nothing = _Settled(), [None]
    queue_context = QueueContext("default", QueueKeys("lw", "default"), lw.runtime, "h/1/a", 1000)
    context = ExecutionContext(lw.registry, lw.config, nothing[0], nothing[0], WorkerSlots(1), JobLog())  # type: ignore[arg-type]
    executor = Executor(queue_context, context, settled)
    mine = SlotContext()
    mine.task = asyncio.current_task()
    slot.set(mine)
    await executor.run(Leased("id", b"1 x", grouped.call(names, itself=itself).record, 1, 7), mine)
    return settled.outcomes
