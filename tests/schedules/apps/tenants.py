"""A task without schedules in code: `create_schedule` makes them."""

from __future__ import annotations

from lockwork import Lockwork, current_job
from notes import record

lw = Lockwork()


@lw.task
async def report(tenant: int) -> None:
    record("report", id=current_job().id, tenant=tenant)
