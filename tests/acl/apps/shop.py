"""The tasks that run as users of few rights."""

from __future__ import annotations

from lockwork import Lockwork, current_job

lw = Lockwork()


@lw.task
async def add(a: int, b: int) -> int:
    await current_job().aprogress(50)
    return a + b


@lw.task(key="k:{a}", group="g:{a}", retries=1, backoff="10ms")
def keyed(a: int) -> int:
    if current_job().attempt == 1:
        raise ValueError("once more")
    return a


@lw.task(unique="n:{a}")
def alone(a: int) -> int:
    return a


@lw.task(queue="other")
def elsewhere(a: int) -> int:
    return a


@lw.task(retries=0)
def fail() -> None:
    raise ValueError("for good")


@lw.task(every="1s")
def tick() -> None: ...
