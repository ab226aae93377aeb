"""An app during a deployment: ROLLING is its version. The new version has additional and changed tasks."""

from __future__ import annotations

import os
from typing import Any

from lockwork import Lockwork, current_job, current_jobs
from notes import note

lw = Lockwork(app_name="rolling", unknown_task_ttl=os.environ.get("ROLLING_TTL", "1d"))
NEW = os.environ.get("ROLLING") == "new"


@lw.task(name="after" if NEW else "before", aliases=["before"] if NEW else [])
async def renamed(path: str) -> None:
    note(path, "ran", task=current_job().task)


@lw.task(retries=0, max_deliveries=1)
async def common(path: str, number: int) -> None:
    note(path, "ran", number=number)


if NEW:

    @lw.task(retries=0)
    async def added(path: str, number: int) -> int:
        note(path, "ran", number=number)
        return number

    @lw.task(retries=0, max_deliveries=1)
    def added_in_a_thread(path: str, number: int) -> None:
        note(path, "ran", number=number)

    @lw.task(retries=0, max_deliveries=1, executor="process")
    def added_in_a_process(path: str, number: int) -> None:
        note(path, "ran", number=number)

    @lw.task(retries=0, max_deliveries=1, key="{key}")
    async def added_with_a_key(path: str, number: int, key: str) -> None:
        note(path, "ran", number=number)

    @lw.task(retries=0, group="{group}", group_concurrency=1, priority="low")
    async def added_in_a_group(path: str, number: int, group: str) -> None:
        note(path, "ran", number=number)

    @lw.task(retries=0, unique="only", unique_until="start")
    async def added_as_unique(path: str) -> None:
        note(path, "ran", number=0)

    @lw.task(retries=0, max_deliveries=1, batch=10)
    async def added_in_batches(items: list[list[Any]]) -> None:
        for job, (path, number) in zip(current_jobs(), items, strict=True):
            note(path, job=job, number=number)

    @lw.task(every="365d", retries=0)
    async def added_schedule() -> int:
        return 7

    @lw.task(retries=0, max_deliveries=1)
    async def changed(path: str, number: int, extra: int = 0, *, why: str) -> None:
        note(path, "ran", number=number, why=why)

    @lw.task(retries=0, max_deliveries=1)
    def changed_type(path: str, number: dict[str, int]) -> None:
        note(path, "ran", number=number["value"])

else:

    @lw.task(retries=0, max_deliveries=1)
    async def changed(path: str, number: int) -> None:
        note(path, "ran", number=number, why="")

    @lw.task(retries=0, max_deliveries=1)
    def changed_type(path: str, number: list[int]) -> None:
        note(path, "ran", number=number)
