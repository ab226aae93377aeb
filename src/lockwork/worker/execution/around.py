"""Runs the app's middlewares around calls of task functions: for one job, or for all jobs of a batch."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from types import AsyncGeneratorType, GeneratorType, TracebackType
from typing import Any, TypeVar

from lockwork.errors import ConfigError, JobTimeout
from lockwork.introspection import shown
from lockwork.jobs.current import JobContext, SlotContext, slot
from lockwork.tasks.middleware import JobMiddleware
from lockwork.tasks.task import Task
from lockwork.worker.execution.threads import finished, name_limit

T = TypeVar("T")


class CallEnd:
    """The end of the call for one job: an error or a value."""

    __slots__ = ("_trace", "error", "value")

    def __init__(self, error: BaseException | None, value: Any = None) -> None:
        self.error: BaseException | None = error
        self.value: Any = value
        self._trace: TracebackType | None = None if error is None else error.__traceback__

    @classmethod
    def of(cls, result: object) -> CallEnd:
        """Return the end of a job of a batch, whose result may be an exception."""
        return cls(result) if isinstance(result, BaseException) else cls(None, result)

    def restore(self) -> None:
        """Drop traceback frames that were added later: several jobs and middlewares may raise the same error."""
        if self.error is not None:
            self.error.__traceback__ = self._trace

    def get(self) -> Any:
        """Return the value, or raise the error."""
        if self.error is not None:
            try:
                raise self.error.with_traceback(self._trace)
            finally:
                del self  # the error's traceback refers to this frame, and would keep the job's frames alive
        return self.value


class _JobRun:
    """The middlewares around one job."""

    __slots__ = ("_alone", "_open", "end", "job")

    def __init__(self, job: JobContext, *opened: tuple[JobMiddleware, Any]) -> None:
        self.job = job
        self.end: CallEnd | None = None
        self._open: list[tuple[JobMiddleware, Any]] = list(opened)
        here = slot.get()
        self._alone: SlotContext | None = None
        """Slot context that `current_job()` returns in this job's middlewares, in a batch."""
        if here is not None and here.batch:
            self._alone = SlotContext()
            self._alone.job = job

    async def enter(self, middlewares: Sequence[JobMiddleware]) -> None:
        """Run each middleware up to its yield; if one raises, its error is the end."""
        token = None if self._alone is None else slot.set(self._alone)
        try:
            for middleware in middlewares:
                generator: Any = middleware(self.job)
                if isinstance(generator, AsyncGeneratorType):
                    started = await anext(generator, _ENDED) is not _ENDED
                else:
                    started = next(generator, _ENDED) is not _ENDED
                if not started:
                    raise _no_yield(middleware, self.job)
                self._open.append((middleware, generator))
        except BaseException as error:  # noqa: BLE001 - whatever it raises is the outcome
            self.end = CallEnd(error)
        finally:
            if token is not None:
                slot.reset(token)

    async def leave(self) -> CallEnd:
        """Run the rest of each middleware, the innermost first; return the end of the job."""
        assert self.end is not None
        token = None if self._alone is None else slot.set(self._alone)
        try:
            for middleware, generator in reversed(self._open):
                end = self.end
                try:
                    if isinstance(generator, AsyncGeneratorType):
                        if await _aresume(generator, end):
                            end = CallEnd(_two_yields(middleware, self.job))
                            await generator.aclose()
                    elif _resume(generator, end):
                        end = CallEnd(_two_yields(middleware, self.job))
                        generator.close()
                except BaseException as error:  # noqa: BLE001 - whatever it raises is the outcome
                    end = _changed(end, error)
                end.restore()
                self.end = end
        finally:
            if token is not None:
                slot.reset(token)
        return self.end


_ENDED = object()


def _resume(generator: Any, end: CallEnd) -> bool:
    """Continue a middleware after the call; return True if it yields again."""
    try:
        if end.error is None:
            generator.send(end.value)
        else:
            generator.throw(end.error)
    except StopIteration:
        return False
    return True


async def _aresume(generator: AsyncGeneratorType[Any, Any], end: CallEnd) -> bool:
    """Async version of `_resume`."""
    try:
        if end.error is None:
            await generator.asend(end.value)
        else:
            await generator.athrow(end.error)
    except StopAsyncIteration:
        return False
    return True


def _run_in_thread(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never waits, because none of its middlewares is async."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        value: T = end.value
        return value
    raise RuntimeError("a middleware of a thread waited")


def _changed(end: CallEnd, error: BaseException) -> CallEnd:
    """Return the end after a middleware raised; the call's own end if the middleware only let its error pass."""
    passed = error is end.error
    if isinstance(end.error, StopIteration | StopAsyncIteration):  # a generator cannot re-raise these unchanged
        passed = passed or (isinstance(error, RuntimeError) and error.__cause__ is end.error)
    return end if passed else CallEnd(error)


def _no_yield(middleware: JobMiddleware, job: JobContext) -> ConfigError:
    return ConfigError(f"the middleware {shown(middleware)} ended before its yield, so job {job.id} did not run")


def _two_yields(middleware: JobMiddleware, job: JobContext) -> ConfigError:
    return ConfigError(f"the middleware {shown(middleware)} yielded twice for job {job.id}: it must yield once")


def ended(task: Task[Any, Any, Any], timeout: float | None, call: Callable[[], Any]) -> CallEnd:
    """Call a `def` task's function in its thread; return the end of the call."""
    try:
        return CallEnd(None, finished(call(), task))
    except JobTimeout as error:
        name_limit(error, timeout)
        return CallEnd(error)
    except BaseException as error:  # noqa: BLE001 - whatever it raises is the outcome
        return CallEnd(error)


async def aended(call: Awaitable[Any]) -> CallEnd:
    """Await a call of a task's function; return its end."""
    try:
        return CallEnd(None, await call)
    except BaseException as error:  # noqa: BLE001 - whatever it raises is the outcome
        return CallEnd(error)


async def aaround_job(
    middlewares: Sequence[JobMiddleware],
    job: JobContext,
    call: Callable[[], Awaitable[Any]],
    abandoned: list[object],
) -> Any:
    """Run the middlewares around the call for one job; return its value, or raise its error.

    A job whose thread keeps running stays in `abandoned`, because its process ends.
    """
    if len(middlewares) == 1:
        try:
            generator: Any = middlewares[0](job)
            if type(generator) is GeneratorType and next(generator, _ENDED) is _ENDED:
                raise _no_yield(middlewares[0], job)
        except BaseException as error:  # noqa: BLE001 - whatever it raises is the outcome
            return CallEnd(error).get()
        if type(generator) is GeneratorType:
            return await _around_call(middlewares[0], generator, job, call, abandoned)
    run = _JobRun(job)
    await run.enter(middlewares)
    if run.end is None:
        run.end = await aended(call())
        if _left_running(run.end, job):
            abandoned.append(run)
            return run.end.get()
    return (await run.leave()).get()


async def _around_call(
    middleware: JobMiddleware,
    generator: Any,
    job: JobContext,
    call: Callable[[], Awaitable[Any]],
    abandoned: list[object],
) -> Any:
    """Run the call, and the rest of its only middleware: the usual case, without the objects for several of them."""
    try:
        value = await call()
    except BaseException as error:  # noqa: BLE001 - whatever it raises is the outcome
        run = _JobRun(job, (middleware, generator))
        run.end = CallEnd(error)
        if _left_running(run.end, job):
            abandoned.append(run)
            return run.end.get()
        return (await run.leave()).get()
    try:
        generator.send(value)
    except StopIteration:
        return value
    except BaseException as error:  # noqa: BLE001 - as above
        return CallEnd(error).get()
    end = CallEnd(_two_yields(middleware, job))
    try:
        generator.close()
    except BaseException as error:  # noqa: BLE001 - as above
        end = _changed(end, error)
    return end.get()


Calls = Callable[[list[int]], list[CallEnd]]
"""Calls the function for the jobs at these positions, which their middlewares let run; never raises."""
AsyncCalls = Callable[[list[int]], Awaitable[list[CallEnd]]]


def around(middlewares: Sequence[JobMiddleware], jobs: Sequence[JobContext], call: Calls) -> list[CallEnd]:
    """Run the middlewares of each job around one call, in this thread."""
    runs = [_JobRun(job) for job in jobs]
    for run in runs:
        _run_in_thread(run.enter(middlewares))
    live = [at for at, run in enumerate(runs) if run.end is None]
    if live:
        for at, end in zip(live, call(live), strict=True):
            runs[at].end = end
    return [_run_in_thread(run.leave()) for run in reversed(runs)][::-1]


async def aaround(
    middlewares: Sequence[JobMiddleware], jobs: Sequence[JobContext], call: AsyncCalls, abandoned: list[object]
) -> list[CallEnd]:
    """Async version of `around`; a job whose thread keeps running stays in `abandoned`, because its process ends."""
    runs = [_JobRun(job) for job in jobs]
    for run in runs:
        await run.enter(middlewares)
        if run.end is not None and isinstance(run.end.error, asyncio.CancelledError):
            for other in runs:
                other.end = other.end or run.end
            break
    live = [at for at, run in enumerate(runs) if run.end is None]
    if live:
        for at, end in zip(live, await call(live), strict=True):
            runs[at].end = end
            if _left_running(end, jobs[at]):
                abandoned.append(runs)
                end.get()
    return [await run.leave() for run in reversed(runs)][::-1]


def _left_running(end: CallEnd, job: JobContext) -> bool:
    """Return True if the job's task is cancelled, and its thread keeps running."""
    if job.thread is None or not isinstance(end.error, asyncio.CancelledError):
        return False
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
