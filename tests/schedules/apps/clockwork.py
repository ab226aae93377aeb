"""Scheduled tasks; each run appends a line to the file HISTORY."""

from __future__ import annotations

from gates import opened
from lockwork import Lockwork, current_job
from notes import record

lw = Lockwork()


@lw.task(every="1s", misfire="all", keep_result=False)
async def second() -> None:
    record("second", id=current_job().id)


@lw.task
async def gated(gate: str) -> None:
    record("gated", id=current_job().id)
    await opened(gate)


@lw.task
async def greet(name: str) -> str:
    record(f"greeted {name}", id=current_job().id)
    return f"hello {name}"


lw.schedule(greet.call("you"), cron="30 4 1 1 *", tz="Europe/Berlin", name="new-year")
