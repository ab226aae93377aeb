"""Two versions of one app, by the environment variable SHOP_VERSION; the tasks return the version that ran them."""

from __future__ import annotations

import asyncio
import os
from datetime import date
from typing import Any
from uuid import UUID

from lockwork import Lockwork

VERSION = os.environ["SHOP_VERSION"]
lw = Lockwork(app_name="shop", app_version=VERSION)

if VERSION == "1":

    @lw.task
    async def optional(user: int) -> str:
        return "1"

    @lw.task
    def required(user: int) -> str:
        return "1"

    @lw.task
    def removed_parameter(user: int, subject: str) -> str:
        return "1"

    @lw.task
    async def renamed_parameter(user: int) -> str:
        return "1"

    @lw.task
    async def changed_default(user: int, subject: str = "old") -> str:
        return f"1 {subject}"

    @lw.task
    def changed_type(item: date) -> str:
        return "1"

    @lw.task
    def plain_type(item: int) -> str:
        return "1"

    @lw.task
    def changed_result(item: int) -> int:
        return 1

    @lw.task(name="send")
    def renamed(user: int) -> str:
        return "1"

    @lw.task
    def deleted(user: int) -> str:
        return "1"

    @lw.task(queue="before")
    def moved(user: int) -> str:
        return "1"

    @lw.task(retries=0, timeout=60, key="user:{user}")
    def options(user: int) -> str:
        raise LookupError("version 1")

    @lw.task(retries=0)
    async def slow() -> None:
        await asyncio.sleep(30)

    @lw.task(cron="0 1 * * *")
    def nightly() -> str:
        return "1"

else:

    @lw.task
    async def optional(user: int, subject: str = "hello") -> str:
        return "2"

    @lw.task
    def required(user: int, subject: str) -> str:
        return "2"

    @lw.task
    def removed_parameter(user: int) -> str:
        return "2"

    @lw.task
    async def renamed_parameter(member: int) -> str:
        return "2"

    @lw.task
    async def changed_default(user: int, subject: str = "new") -> str:
        return f"2 {subject}"

    @lw.task
    def changed_type(item: UUID) -> str:
        return "2"

    @lw.task
    def plain_type(item: list[int]) -> str:
        return "2"

    @lw.task
    def changed_result(item: int) -> dict[str, Any]:
        return {"version": 2}

    @lw.task(name="mail.send", aliases=["send"])
    def renamed(user: int) -> str:
        return "2"

    @lw.task
    def added(user: int) -> str:
        return "2"

    @lw.task(queue="after", other_queues=["before"])
    def moved(user: int) -> str:
        return "2"

    @lw.task(retries=1, backoff="10ms", timeout=60, key="member:{user}")
    def options(user: int) -> str:
        raise LookupError("version 2")

    @lw.task(retries=0, timeout=0.05)
    async def slow() -> None:
        await asyncio.sleep(30)

    @lw.task(cron="0 2 * * *")
    def nightly() -> str:
        return "2"
