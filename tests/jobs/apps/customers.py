"""Tasks whose jobs have keys, groups and unique names from users' data."""

from __future__ import annotations

from lockwork import Lockwork, current_job

lw = Lockwork()


@lw.task(key="{customer}", group="{customer}", group_concurrency=1)
async def bill(customer: str, number: int) -> int:
    return number


@lw.task(unique="{customer}", unique_until="start")
async def remind(customer: str) -> str:
    return current_job().id
