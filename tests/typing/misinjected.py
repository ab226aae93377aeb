"""Hooks and tasks that must be errors to mypy and pyright."""

from __future__ import annotations

from typing import Annotated

from lockwork import Depends, Lockwork, current_job
from lockwork.hooks import Died, Enqueued, Started
from lockwork.injection import INJECTED

lw = Lockwork("redis://nowhere")


@lw.task
async def send(user_id: int, *, db: Annotated[str, Depends(lambda: "db")] = INJECTED) -> str:
    return db * user_id


@lw.task(retries=2)
def gradual(value: int) -> str:
    """celery-types#230, celery#9581, tasktiger#302: there, none of the calls below is an error."""
    return f"{current_job().attempt} {value}"


async def later(event: Enqueued) -> None: ...


def two(event: Started, more: int) -> None: ...


def other(event: Died) -> None: ...


lw.hooks.enqueue(later)  # type: ignore[type-var]
lw.hooks.start(two)  # type: ignore[type-var]
lw.hooks.start(other)  # type: ignore[type-var]
lw.error_type(5)  # type: ignore[call-overload]
Depends("get_db")  # type: ignore[arg-type]
Depends(str, scope="request")  # type: ignore[arg-type]


def called() -> None:
    send.enqueue("42")  # type: ignore[arg-type]
    send.enqueue()  # type: ignore[call-arg]
    gradual.enqueue("wrong")  # type: ignore[arg-type]
    gradual.options(delay="1s").enqueue()  # type: ignore[call-arg]
    gradual.enqueue(1, delay=5)  # type: ignore[call-arg]
    number: int = gradual.enqueue(1).result()  # type: ignore[assignment]
    print(number)
