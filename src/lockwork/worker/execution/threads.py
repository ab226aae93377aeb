"""Calls a task's function: on the event loop or in a thread, with its dependencies, within its time limit."""

from __future__ import annotations

import asyncio
import ctypes
import sys
import threading
import traceback
from collections.abc import Callable
from contextvars import copy_context
from functools import partial
from types import CoroutineType
from typing import Any

from lockwork import words
from lockwork.call_contexts import CallContexts
from lockwork.errors import JobCancelled, JobTimeout
from lockwork.failures import own_frame
from lockwork.injection.calling import Caller
from lockwork.jobs.current import jobs_here
from lockwork.tasks.task import Task
from lockwork.worker.execution.call_threads import CallThreads
from lockwork.worker.execution.clean_ups import thread_cleans_up
from lockwork.worker.execution.forked_copies import leave_copy
from lockwork.worker.execution.job_grants import CallInThread
from lockwork.worker.execution.timeouts import Timeout, limited, too_long

Within = Callable[[Callable[..., Any]], Any]


def killed_after(seconds: float) -> JobTimeout:
    """Return the error of a job that exceeded its hard time-out."""
    return JobTimeout(f"it took longer than its hard time-out of {words.exact(seconds)}: its process was killed")


class ThreadPool:
    """A pool of threads, one per job at a time; a process with such a pool ends without waiting for them."""

    def __init__(self, size: int, contexts: CallContexts | None = None) -> None:
        self._contexts = contexts or CallContexts()
        self._pool = CallThreads(size, "lockwork-job")

    async def run(
        self,
        function: Callable[..., Any],
        args: Any,
        kwargs: Any,
        timeout: float | None,
        within: Within | None = None,
    ) -> Any:
        """Run a call in a thread and return its result, as `finish` does."""
        return await self.finish(ThreadRun(function, args, kwargs, within), timeout)

    async def run_out(self, function: Callable[..., Any], args: Any, kwargs: Any, timeout: float | None) -> Any:
        """Run a call as `run` does; if the job is cancelled, interrupt the call and wait for its end."""
        return await self.finish(ThreadRun(function, args, kwargs), timeout, out=True)

    async def finish(self, run: ThreadRun, timeout: float | None, *, out: bool = False) -> Any:
        """Run a call and return its result; after `timeout` seconds, raise JobTimeout once the call has ended.

        Python can interrupt a thread only between two of its instructions, so blocking native code runs to its end. A
        call that ignores the time-out is interrupted again. With `out`, a cancelled caller also waits for the end of
        the call, unless the call belongs to no running job; such calls are not part of the job's function.
        """
        context = copy_context()
        call = self._pool.start(lambda: context.run(run.run_in, self._contexts))
        limit = None if timeout is None else Timeout(timeout, run.time_out, [] if out else jobs_here(), run.place)
        try:
            await call.future()
        except asyncio.CancelledError:
            # without `out`, the thread may still run; the job must not be settled meanwhile
            if out and (kind := _why()) is not None:
                run.interrupt(kind)
                await _over(call.future(), run, kind)
            raise
        finally:
            if limit is not None:
                limit.close()
        error, value = run.take_end()
        if isinstance(error, StopIteration):
            # a coroutine cannot raise it either
            raise RuntimeError("the task raised StopIteration") from error  # noqa: TRY004 - not a wrong type
        if limit is not None and run.returned and run.timed_out:
            limit.overran()
        if error is not None:
            try:
                raise error
            finally:
                del error  # the error's traceback refers to this frame, and would keep the job's frames alive
        return value

    def close(self) -> None:
        """End idle threads."""
        self._pool.close()


async def _over(future: asyncio.Future[Any], run: ThreadRun, kind: type[BaseException]) -> None:
    """Wait for `future`; if this coroutine is cancelled meanwhile, interrupt the call again instead."""
    while not future.done():
        try:
            await asyncio.wait([future])
        except asyncio.CancelledError:
            if kind is JobTimeout:
                run.time_out(again=True)


def _why() -> type[BaseException] | None:
    """Return the exception to raise in the thread of the cancelled job; None if no job runs here."""
    jobs = jobs_here()
    if not jobs:
        return None
    return JobCancelled if all(job.cancelled for job in jobs) else JobTimeout


class JobThreads:
    """The threads of one job: `begun` receives each call, so that it can be interrupted.

    around: a function that runs in the thread, around the call that it receives.
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
        """Run a call as ThreadPool.run does."""
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
        self.returned: bool = False
        """True if the call returned a value."""
        self._end: tuple[BaseException | None, Any] = None, None

    def run_in(self, contexts: CallContexts) -> None:
        """Make the call in this thread, within the context managers of integrations; never raises."""
        try:
            contexts.call(self, self.error)
        except BaseException as error:  # noqa: BLE001 - an error of a context manager fails the call
            self._end = error, None

    def __call__(self) -> None:
        # a future would not do: it rejects StopIteration, treats some others specially, and keeps the exception until
        # the next garbage collection
        grants = CallInThread()
        try:
            if self._within is None:
                self._end = None, self._call(*self._args, **self._kwargs)
            else:
                self._end = None, self._within(self._call)
        except BaseException as error:  # noqa: BLE001 - the executor decides
            self._end = error, None
        finally:
            grants.end()

    def error(self) -> BaseException | None:
        """Return the error of the ended call."""
        return self._end[0]

    def take_end(self) -> tuple[BaseException | None, Any]:
        """Return the error and the value of the ended call, once."""
        end, self._end = self._end, (None, None)
        return end

    def _call(self, *args: Any, **kwargs: Any) -> Any:
        # an interrupt may arrive at any instruction of these three `try`; none arrives after the last
        try:
            try:
                self._enter()
                value = self._function(*args, **kwargs)
            finally:
                leave_copy()
                self._leave()
        finally:
            if self._thread is not None:
                self._leave()
        self.returned = True
        return value

    def _enter(self) -> None:
        with self._lock:
            if self._refused is not None:
                raise self._refused
            self._begun = True
            self._thread = threading.get_ident()

    def _leave(self) -> None:
        """Accept no more interrupts; a pending one is raised here at the latest, instead of the result."""
        with self._lock:
            self._thread = None

    def interrupt(self, kind: type[BaseException]) -> None:
        """Raise `kind` in the thread once, if it runs this call; an unstarted call does not start."""
        with self._lock:
            if kind not in self._raised:  # the call may already be cleaning up
                self._raise(kind)

    def time_out(self, again: bool) -> bool:
        """Raise JobTimeout in the thread; with `again`, even if it was raised before.

        Returns False, and raises nothing, if the call no longer runs, or is inside Lockwork's own cleanup.
        """
        with self._lock:
            if again and (self._thread is None or thread_cleans_up(self._thread)):
                return False
            if again or JobTimeout not in self._raised:
                self._raise(JobTimeout)
            return True

    def _raise(self, kind: type[BaseException]) -> None:
        self._raised.add(kind)
        if self._thread is not None:
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self._thread), ctypes.py_object(kind))
        elif not self._begun:
            self._refused = kind

    @property
    def timed_out(self) -> bool:
        """True if the call was interrupted because of its time limit."""
        return JobTimeout in self._raised

    def place(self) -> str:
        """Return the line of the app's code that the call executes, for the log."""
        with self._lock:
            frame = None if self._thread is None else sys._current_frames().get(self._thread)  # noqa: SLF001 - documented
        line = own_frame(traceback.extract_stack(frame)) if frame is not None else ""
        return f" at {line}" if line else ""


async def call_task(
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
            function = partial(awaited, task.function) if task.is_async else task.function
            value = await caller.call(
                function, task.injection, args, kwargs, is_async=task.is_async, timeout=timeout, threads=threads
            )
            return finished(value, task)
        if not task.is_async:
            return finished(await threads.run(task.function, args, kwargs, timeout), task)
        coroutine = awaited(task.function, *args, **kwargs)
        return await (coroutine if timeout is None else limited(coroutine, timeout))
    except JobTimeout as error:
        name_limit(error, timeout)
        raise


async def awaited(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a coroutine function; a copy of the process that it forked ends here, before any cleanup."""
    try:
        return await function(*args, **kwargs)
    finally:
        leave_copy()


def name_limit(error: JobTimeout, timeout: float | None) -> None:
    """Add the time limit to the error."""
    if timeout is not None:
        # a thread is interrupted by an exception class, without the limit, and its dependencies used some of the time
        error.args = (too_long(timeout),)


def finished(value: Any, task: Task[Any, Any, Any]) -> Any:
    """Raise an error if the result is a coroutine, because it has not run."""
    if type(value) is not CoroutineType:
        return value
    value.close()
    raise TypeError(
        f"task {task.name!r} returned a coroutine that is never awaited: its function is async, so its decorator "
        "must be async, too"
    )
