"""Telling the app's hooks what becomes of a job, in the place that the job has in the worker."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from lockwork.hooks import Died, Failed, Hooks, Retrying, Started, Succeeded, complain, is_async
from lockwork.worker.context import JobContext
from lockwork.worker.threads import Threads

E = TypeVar("E")

LIMIT = 10.0
"""Seconds that one call of a hook may take."""


class FailedAttempt(NamedTuple):
    """How an attempt failed, and after how many seconds the next one begins; None: it was the last."""

    error: BaseException
    delay: float | None


class Teller:
    """Runs hooks one after the other: `async def` on the event loop, `def` in a thread; what they raise is logged."""

    def __init__(self, hooks: Hooks, threads: Threads) -> None:
        self._hooks = hooks
        self._threads = threads

    async def started(self, job: JobContext, args: list[Any], kwargs: dict[str, Any]) -> None:
        """Before an attempt."""
        event = Started(
            id=job.id, task=job.task, queue=job.queue, attempt=job.attempt, args=list(args), kwargs=dict(kwargs)
        )
        await self._tell("start", self._hooks.on_start, event, job.id)

    async def ended(self, job: JobContext, seconds: float, result: object, failed: FailedAttempt | None) -> None:
        """After an attempt, when its settling is under way."""
        if failed is None:
            event = Succeeded(
                id=job.id, task=job.task, queue=job.queue, attempt=job.attempt, seconds=seconds, result=result
            )
            await self._tell("success", self._hooks.on_success, event, job.id)
            return
        error, delay = failed
        facts: dict[str, Any] = {
            "id": job.id, "task": job.task, "queue": job.queue, "attempt": job.attempt, "error": error
        }  # fmt: skip
        await self._tell("failure", self._hooks.on_failure, Failed(seconds=seconds, **facts), job.id)
        if delay is None:
            await self._tell("dead", self._hooks.on_dead, Died(**facts), job.id)
        else:
            await self._tell("retry", self._hooks.on_retry, Retrying(delay=delay, **facts), job.id)

    async def _tell(self, kind: str, hooks: tuple[Callable[[E], object], ...], event: E, id: str) -> None:
        for hook in hooks:
            try:
                told = hook(event) if is_async(hook) else await self._threads.run(hook, (event,), {}, LIMIT)
                if inspect.isawaitable(told):
                    async with asyncio.timeout(LIMIT):
                        await told
            except asyncio.CancelledError as error:
                task = asyncio.current_task()
                if task is not None and task.cancelling():
                    raise  # the worker must go
                complain(hook, kind, id, error)
            except BaseException as error:  # noqa: BLE001 - whatever a hook raises changes nothing
                complain(hook, kind, id, error)
