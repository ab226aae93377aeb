"""Jobs that the server counts as running in a worker process that does not have them, for example after a failover."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from lockwork import Lockwork
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queue import leases
from lockwork.protocol.queue.leases import Leased, Outcome
from lockwork.worker.execution import unknown_jobs
from lockwork.worker.execution.contexts import SessionContext
from lockwork.worker.execution.queue_state import QueueState
from lockwork.worker.execution.settler import Settler
from lockwork.worker.execution.slots import WorkerSlots

SESSION = "host/1/a"
QUEUE = QueueKeys("lw", "default")


class Runner:
    """Runs each job forever."""

    async def run(self, _job: Leased, _slot: Any) -> None:
        await asyncio.Event().wait()

    def give_back(self, job: Leased) -> None: ...

    def cancelled(self, job: Leased) -> None: ...


async def test_unknown_jobs_are_returned(
    alw: Lockwork, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(unknown_jobs, "PAUSE", 0.05)

    @alw.task
    def step() -> None: ...

    for _ in range(4):
        await step.options(expires="1h").aenqueue()  # the token then contains the expiry
    driver = await alw.runtime.driver()
    await driver.run(leases.beat(QUEUE, {SESSION: True}, 60_000, 5))
    running, lost, settling, asked = [
        (await driver.run(leases.reserve(QUEUE, SESSION, 1, f"r{number}", ""))).jobs[0] for number in range(4)
    ]
    runner, slots = Runner(), WorkerSlots(4)
    slots.start([running], runner)
    settler = Settler(driver, QUEUE, SESSION, 1000)
    monkeypatch.setattr(settler, "unsettled", lambda: [Outcome(settling.id, settling.token, "s")])
    queue = QueueState("default", QUEUE, runner, request="r3")
    context = SessionContext(driver, SESSION, "", slots, 1000)
    returning = asyncio.create_task(unknown_jobs.return_unknown_jobs(context, queue, settler))
    async with asyncio.timeout(20):
        while not (await alw.queue().astatus()).ready:
            await asyncio.sleep(0.02)
    await asyncio.sleep(0.3)
    returning.cancel()
    await asyncio.gather(returning, return_exceptions=True)
    await settler.drained()
    await slots.close()
    status = await alw.queue().astatus()
    assert (status.ready, status.running) == (1, 3)
    assert f"job {lost.id}: the server counts it as running here, but it is not" in caplog.text
    assert await driver.run(leases.strays(QUEUE, SESSION, [])) == {
        (job.id, job.token) for job in (running, settling, asked)
    }
    again = (await driver.run(leases.reserve(QUEUE, SESSION, 1, "r4", ""))).jobs[0]
    assert (again.id, again.attempt) == (lost.id, 1)
    await driver.run(leases.recover(QUEUE, SESSION, 1000, gone=True))
