"""The app whose jobs and worker the tests of the commands inspect."""

from __future__ import annotations

import asyncio

from lockwork import Lockwork, current_job

lw = Lockwork()


@lw.task(queue="mail", retries=0)
async def send(user: int, subject: str = "hello") -> int:
    """Fail for user 7."""
    if user == 7:
        raise ValueError(f"user {user} has no address")
    return user + len(subject)


@lw.task(queue="mail", retries=1, backoff=600)
async def again(user: int) -> None:
    """Fail at each attempt, with ten minutes between them."""
    raise ConnectionError(f"no line to {user}")


@lw.task(queue="slow")
async def rest() -> None:
    """Run until it is cancelled."""
    await current_job().aprogress({"done": 3, "of": 10})
    await asyncio.sleep(600)


@lw.task(queue="sums")
async def add(*numbers: int) -> int:
    return sum(numbers)


@lw.task(queue="sums", cron="0 3 29 2 *", name="nightly", overlap="skip")  # no slot begins in a test
async def nightly() -> None:
    await asyncio.sleep(600)


@lw.task(
    queue="keyed",
    retries=7,
    key="order:{number}",
    group="all",
    group_concurrency=3,
    priority="low",
    tags=["shop", "new"],
)
async def order(number: int, *, note: str = "") -> str:
    return f"{number}{note}"


@lw.task(queue="keyed", hide_arguments=True)
async def charge(card: str) -> str:
    return "charged"
