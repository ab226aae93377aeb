"""Calling a task's function: on the event loop or in a thread, with its dependencies, within its time limit."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from types import CoroutineType
from typing import Any

from lockwork import owners
from lockwork.errors import JobCancelled, JobTimeout
from lockwork.injection.calling import Caller
from lockwork.jobs.current import slot
from lockwork.tasks.task import Task

Within = Callable[[Callable[..., Any]], Any]


def killed_after(seconds: float) -> JobTimeout:
    """Return the error of a job that was over its hard time-out."""
    return JobTimeout(f"it took longer than its hard time-out of {seconds:g} s: its process was killed")


class ThreadPool:
    """A pool of threads, one per job at a time; a process that has such a pool ends without waiting for them."""

    def __init__(self, size: int) -> None:
        self._pool = ThreadPoolExecutor(size, thread_name_prefix="lockwork-job")

    async def run(
        self,
        function: Callable[..., Any],
        args: Any,
        kwargs: Any,
        timeout: float | None,
        within: Within | None = None,
    ) -> Any:
        """Run a call in a thread and return its result; as `finish`."""
        return await self.finish(ThreadRun(function, args, kwargs, within), timeout)

    async def run_out(self, function: Callable[..., Any], args: Any, kwargs: Any, timeout: float | None) -> Any:
        """As `run`; if the job is cancelled, interrupt the call and wait for its end."""
        return await self.finish(ThreadRun(function, args, kwargs), timeout, out=True)

    async def finish(self, run: ThreadRun, timeout: float | None, *, out: bool = False) -> Any:
        """Run a call and return its result; after `timeout` seconds, raises JobTimeout once the call has ended.

        Python can interrupt a thread only between two of its instructions, so blocking native code runs to its end.
        With `out`, a cancelled caller waits for that end too, unless the call belongs to no running job.
        """
        loop = asyncio.get_running_loop()
        future = loop.run_in_executor(self._pool, copy_context().run, run)
        timer = None if timeout is None else loop.call_later(timeout, run.interrupt, JobTimeout)
        try:
            error, value = await asyncio.shield(future)
        except asyncio.CancelledError:
            kind = _why() if out else None
            if kind is None:
                # the thread goes on; the job must not be settled while it does
                future.add_done_callback(lambda done: done.exception())
            else:
                run.interrupt(kind)
                await _over(future)
            raise
        finally:
            if timer is not None:
                timer.cancel()
        if isinstance(error, StopIteration):
            # a coroutine cannot raise it either
            raise RuntimeError("the task raised StopIteration") from error  # noqa: TRY004 - not a wrong type
        if error is not None:
            raise error
        return value

    def close(self) -> None:
        """End idle threads."""
        self._pool.shutdown(wait=False, cancel_futures=True)


async def _over(future: asyncio.Future[Any]) -> None:
    """Wait for `future`, even if this coroutine is cancelled meanwhile."""
    while not future.done():
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait([future])


def _why() -> type[BaseException] | None:
    """Return what to raise in the thread of the job just cancelled; None if no job runs here."""
    mine = slot.get()
    if mine is not None and mine.batch:
        jobs = mine.batch
    elif mine is not None and mine.job is not None and not mine.job.over:
        jobs = [mine.job]
    else:
        return None
    return JobCancelled if all(job.cancelled for job in jobs) else JobTimeout


class JobThreads:
    """The threads as one job sees them: `begun` receives each call, so that it can be interrupted.

    `around`: runs in the thread around all of it, and is given what to run.
    """

    __slots__ = ("_around", "_begun", "_threads")

    def __init__(
        self,
        threads: ThreadPool,
        begun: Callable[[ThreadRun], None],
        around: Callable[[Callable[[], Any]], Any] | None = None,
    ) -> None:
        self._threads = threads
        self._begun = begun
        self._around = around

    async def run(
        self, function: Callable[..., Any], args: Any, kwargs: Any, timeout: float | None, within: Within | None = None
    ) -> Any:
        """As ThreadPool.run."""
        if self._around is not None:
            within = partial(self._surrounded, self._around, within, args, kwargs)
        run = ThreadRun(function, args, kwargs, within)
        self._begun(run)
        return await self._threads.finish(run, timeout)

    @staticmethod
    def _surrounded(
        around: Callable[[Callable[[], Any]], Any],
        within: Within | None,
        args: Any,
        kwargs: Any,
        call: Callable[..., Any],
    ) -> Any:
        return around(partial(call, *args, **kwargs) if within is None else partial(within, call))


class ThreadRun:
    """One call of a function in a thread.

    With `within`, the thread runs `within(call)` instead, and only the call itself can be interrupted.
    """

    def __init__(self, function: Callable[..., Any], args: Any, kwargs: Any, within: Within | None = None) -> None:
        self._function, self._args, self._kwargs, self._within = function, args, kwargs, within
        self._lock = threading.Lock()
        self._thread: int | None = None
        self._refused: type[BaseException] | None = None
        self._begun = False
        self._raised: set[type[BaseException]] = set()

    def __call__(self) -> tuple[BaseException | None, Any]:
        # what it raises is returned: a future cannot carry StopIteration, and treats others in its own way
        try:
            if self._within is None:
                return None, self._call(*self._args, **self._kwargs)
            return None, self._within(self._call)
        except BaseException as error:  # noqa: BLE001 - the executor decides
            return error, None
        finally:
            owners.renew_thread()

    def _call(self, *args: Any, **kwargs: Any) -> Any:
        with self._lock:
            if self._refused is not None:
                raise self._refused
            self._begun = True
            self._thread = threading.get_ident()
        try:
            return self._function(*args, **kwargs)
        finally:
            # a pending interrupt is raised here at the latest, instead of the result
            with self._lock:
                self._thread = None

    def interrupt(self, kind: type[BaseException]) -> None:
        """Raise `kind` in the thread once, if it runs this call; a call that has not started does not start."""
        with self._lock:
            if kind in self._raised:
                return  # it may be cleaning up
            self._raised.add(kind)
            if self._thread is not None:
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self._thread), ctypes.py_object(kind))
            elif not self._begun:
                self._refused = kind


async def call(
    task: Task[Any, Any, Any],
    args: list[Any],
    kwargs: dict[str, Any],
    timeout: float | None,
    threads: JobThreads,
    caller: Caller,
) -> Any:
    """Call a task's function and return its result."""
    try:
        if task.injected:
            value = await caller.call(
                task.function, task.injection, args, kwargs, is_async=task.is_async, timeout=timeout, threads=threads
            )
            return finished(value, task)
        if not task.is_async:
            return finished(await threads.run(task.function, args, kwargs, timeout), task)
        if timeout is None:
            return await task.function(*args, **kwargs)
        return await limited(task.function(*args, **kwargs), timeout)
    except JobTimeout as error:
        name_limit(error, timeout)
        raise


def name_limit(error: JobTimeout, timeout: float | None) -> None:
    """Let the error say how long the job could take."""
    if timeout is not None:
        # a thread is interrupted by a class, which does not know, and what was provided took some of the time
        error.args = (_too_long(timeout),)


def finished(value: Any, task: Task[Any, Any, Any]) -> Any:
    """Refuse a coroutine as a result: it has not run."""
    if type(value) is not CoroutineType:
        return value
    value.close()
    raise TypeError(
        f"task {task.name!r} returned a coroutine that is never awaited: its function is async, so its decorator "
        "must be async, too"
    )


async def limited(awaitable: Awaitable[Any], timeout: float) -> Any:
    """Await for at most `timeout` seconds; raises JobTimeout."""
    limit = asyncio.timeout(timeout)
    try:
        async with limit:
            return await awaitable
    except TimeoutError:
        if limit.expired():
            raise JobTimeout(_too_long(timeout)) from None
        raise


def _too_long(timeout: float) -> str:
    return f"it took longer than {timeout:g} s"
