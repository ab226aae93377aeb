"""Calls the app's hooks for a job, in the job's own slot."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Literal, NamedTuple, TypeVar

from lockwork.hooks import Cancelled, Died, Failed, Retrying, Snoozed, Started, Succeeded, complain, is_async
from lockwork.jobs.current import JobContext, QueueContext
from lockwork.protocol.queue import ends
from lockwork.tasks.app_context import AppContext
from lockwork.worker.execution.threads import ThreadPool
from lockwork.worker.execution.timeouts import limited

E = TypeVar("E")

LIMIT = 10.0
"""Time limit of one hook call in seconds."""


class AttemptEnd(NamedTuple):
    """The end of an attempt; the next step begins after `delay` seconds."""

    kind: Literal["success", "retry", "dead", "snooze", "cancel"]
    error: BaseException | None = None
    delay: float = 0.0


SUCCESS, CANCEL = AttemptEnd("success"), AttemptEnd("cancel")


class HookRunner:
    """Runs hooks one after the other: `async def` on the event loop, `def` in a thread. Logs their errors.

    Calls the task's observer first.
    """

    def __init__(self, context: AppContext, threads: ThreadPool) -> None:
        self._hooks = context.hooks
        self._observers = context.observers
        self._contexts = context.call_contexts
        self._threads = threads

    async def started(self, job: JobContext, args: list[Any], kwargs: dict[str, Any]) -> None:
        """Call `on_start` hooks, before an attempt."""
        event = Started(
            id=job.id, task=job.task, queue=job.queue, attempt=job.attempt, args=list(args), kwargs=dict(kwargs)
        )
        await self._tell("start", self._hooks.on_start, event, job.id)

    async def ended(self, job: JobContext, seconds: float, result: object, end: AttemptEnd) -> None:
        """Call the hooks for the end of an attempt, when its outcome is on the way to the server."""
        hooks = self._hooks
        if job.task in self._observers:
            await self._observe(job, end)
        if not hooks.in_worker:
            return
        facts: dict[str, Any] = {"id": job.id, "task": job.task, "queue": job.queue, "attempt": job.attempt}
        if end.kind == "success":
            await self._tell("success", hooks.on_success, Succeeded(seconds=seconds, result=result, **facts), job.id)
        elif end.kind == "snooze":
            await self._tell("snooze", hooks.on_snooze, Snoozed(seconds=seconds, delay=end.delay, **facts), job.id)
        elif end.kind == "cancel":
            await self._tell("cancel", hooks.on_cancel, Cancelled(seconds=seconds, **facts), job.id)
        else:
            facts["error"] = end.error
            await self._tell("failure", hooks.on_failure, Failed(seconds=seconds, **facts), job.id)
            if end.kind == "dead":
                await self._tell("dead", hooks.on_dead, Died(**facts), job.id)
            else:
                await self._tell("retry", hooks.on_retry, Retrying(delay=end.delay, **facts), job.id)

    async def died(self, job: JobContext, error: BaseException) -> None:
        """Call `on_dead` hooks for a job whose process died; no process saw the attempt fail, so no other hooks run."""
        event = Died(id=job.id, task=job.task, queue=job.queue, attempt=job.attempt, error=error)
        await self._tell("dead", self._hooks.on_dead, event, job.id)

    async def report_end(
        self, job: JobContext, queue_context: QueueContext, error: BaseException | None = None
    ) -> None:
        """Take the end of a tracked job, and report it to the task's observer; not if another worker has taken it."""
        observer = self._observers[job.task]
        try:
            if await queue_context.runtime.arun(ends.take(queue_context.keys, job.id, job.task)):
                await limited(self._contexts.acall(partial(observer.ended, job, error)), LIMIT, [])
        except Exception as problem:  # noqa: BLE001 - whatever it raises changes nothing
            complain(observer.ended, "end", job.id, problem)

    async def _observe(self, job: JobContext, end: AttemptEnd) -> None:
        observer = self._observers[job.task]
        try:
            await limited(self._contexts.acall(partial(observer.attempted, job, end.kind, end.error)), LIMIT, [])
        except Exception as error:  # noqa: BLE001 - whatever it raises changes nothing
            complain(observer.attempted, "end", job.id, error)

    async def _tell(self, kind: str, hooks: tuple[Callable[[E], object], ...], event: E, id: str) -> None:
        for hook in hooks:
            try:
                result = hook(event) if is_async(hook) else await self._threads.run_out(hook, (event,), {}, LIMIT)
                if inspect.isawaitable(result):
                    await limited(self._contexts.acall(partial(_result, result)), LIMIT, [])
            except asyncio.CancelledError as error:
                task = asyncio.current_task()
                if task is not None and task.cancelling():
                    raise  # the process must end, or the job is cancelled
                complain(hook, kind, id, error)
            except BaseException as error:  # noqa: BLE001 - whatever a hook raises changes nothing
                complain(hook, kind, id, error)


async def _result(hook: Awaitable[object]) -> object:
    return await hook
