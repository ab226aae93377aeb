"""Running `def` tasks in threads, and ending one that takes too long."""

from __future__ import annotations

import asyncio
import ctypes
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any

from lockwork import owners


class JobTimeout(Exception):
    """The attempt took longer than its task's timeout."""

    def __init__(self, message: str = "it took longer than its task's timeout") -> None:
        super().__init__(message)


class Threads:
    """A pool of daemon-like threads, one per job at a time."""

    def __init__(self, size: int) -> None:
        self._pool = ThreadPoolExecutor(size, thread_name_prefix="lockwork-job")

    async def run(
        self,
        function: Callable[..., Any],
        args: Any,
        kwargs: Any,
        timeout: float | None,
        within: Callable[[Callable[..., Any]], Any] | None = None,
    ) -> Any:
        """Run a call in a thread and return its result; raises JobTimeout once the thread has really stopped.

        With `within`, that function runs there and is given the call to make; only the call itself is interrupted.
        Python can end a thread only between two of its own instructions: native code that blocks is waited for.
        """
        run = _Run(function, args, kwargs, within)
        loop = asyncio.get_running_loop()
        future = loop.run_in_executor(self._pool, copy_context().run, run)
        timer = None if timeout is None else loop.call_later(timeout, run.interrupt)
        try:
            error, value = await asyncio.shield(future)
        except asyncio.CancelledError:
            # the thread goes on; whoever cancelled must not settle the job while it does
            future.add_done_callback(lambda done: done.exception())
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
        """Let idle threads go."""
        self._pool.shutdown(wait=False, cancel_futures=True)


class _Run:
    def __init__(
        self,
        function: Callable[..., Any],
        args: Any,
        kwargs: Any,
        within: Callable[[Callable[..., Any]], Any] | None,
    ) -> None:
        self._function, self._args, self._kwargs, self._within = function, args, kwargs, within
        self._lock = threading.Lock()
        self._thread: int | None = None
        self._late = False

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
            if self._late:
                raise JobTimeout
            self._thread = threading.get_ident()
        try:
            return self._function(*args, **kwargs)
        finally:
            # an interrupt that is on its way strikes here at the latest, and is raised instead of the result
            with self._lock:
                self._thread = None

    def interrupt(self) -> None:
        """Raise JobTimeout in the thread, if it runs the call now, or before it does."""
        with self._lock:
            self._late = True
            if self._thread is not None:
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self._thread), ctypes.py_object(JobTimeout))
