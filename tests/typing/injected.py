"""A task with injected parameters for mypy and pyright: with INJECTED as default, callers may omit them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated, assert_type

from lockwork import Depends, Job, Lockwork, current_job
from lockwork.hooks import Died, Enqueued, Started
from lockwork.injection import INJECTED

lw = Lockwork("redis://nowhere")


class Db:
    """An injected value."""


async def get_db() -> AsyncIterator[Db]:
    yield Db()


@lw.task
async def send(user_id: int, *, db: Annotated[Db, Depends(get_db)] = INJECTED) -> str:
    assert_type(db, Db)
    return str(user_id)


@lw.task(retries=2)
def gradual(value: int) -> str:
    """celery-types#230, tasktiger#302: options, or a job that knows itself, cost the signature."""
    return f"{current_job().attempt} {value}"


@lw.hooks.enqueue
def enqueued(event: Enqueued) -> None:
    assert_type(event.delay, float)


@lw.hooks.start
async def started(event: Started) -> None:
    assert_type(event.attempt, int)


@lw.hooks.dead
def died(event: Died) -> None:
    assert_type(event.error, BaseException)


@lw.lifespan
async def lifespan() -> AsyncIterator[None]:
    yield


@lw.error_type
class Refused(Exception):
    """An exception class, unchanged by the decorator."""

    def __init__(self, code: int) -> None:
        super().__init__(f"code {code}")
        self.code = code


@lw.error_type(name="other")
class Other(Exception):
    """The same with options."""


def called() -> None:
    assert_type(send.enqueue(42), Job[str])
    assert_type(gradual.enqueue(1), Job[str])
    assert_type(gradual.options(delay="1s").enqueue(value=1), Job[str])
    assert_type(gradual(1), str)
    assert_type(Refused(5).code, int)
    assert_type(Other(), Other)
    with lw.override(get_db, lambda: Db()):
        pass


async def awaited() -> None:
    assert_type(await send.arun(42), str)
    assert_type(await send.arun(42, db=Db()), str)
