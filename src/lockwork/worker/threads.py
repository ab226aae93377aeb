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


class JobTimeout(TimeoutError):
    """The attempt took longer than its task's timeout."""

    def __init__(self, message: str = "it took longer than its task's timeout") -> None:
        super().__init__(message)


class Threads:
    """A pool of daemon-like threads, one per job at a time."""

    def __init__(self, size: int) -> None:
        self._pool = ThreadPoolExecutor(size, thread_name_prefix="lockwork-job")

    async def run(self, run: Run, timeout: float | None) -> Any:
        """Run a call and return its result; raises JobTimeout once the thread has really stopped.

        Python can end a thread only between two of its own instructions: native code that blocks is waited for.
        """
        loop = asyncio.get_running_loop()
        future = loop.run_in_executor(self._pool, copy_context().run, run)
        timer = None if timeout is None else loop.call_later(timeout, run.interrupt, JobTimeout)
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


class Run:
    """One call of a function in a thread."""

    def __init__(self, function: Callable[..., Any], args: Any, kwargs: Any) -> None:
        self._function, self._args, self._kwargs = function, args, kwargs
        self._lock = threading.Lock()
        self._thread: int | None = None
        self._refused: type[BaseException] | None = None
        self._begun = False

    def __call__(self) -> tuple[BaseException | None, Any]:
        # what it raises is returned: a future cannot carry StopIteration, and treats others in its own way
        try:
            return self._call()
        finally:
            owners.renew_thread()

    def _call(self) -> tuple[BaseException | None, Any]:
        with self._lock:
            if self._refused is not None:
                return self._refused(), None
            self._begun = True
            self._thread = threading.get_ident()
        try:
            return None, self._function(*self._args, **self._kwargs)
        except BaseException as error:  # noqa: BLE001 - the executor decides
            return error, None
        finally:
            # an interrupt that is on its way strikes here at the latest, and is raised instead of the result
            with self._lock:
                self._thread = None

    def interrupt(self, kind: type[BaseException]) -> None:
        """Raise `kind` in the thread, if it still runs this call; one that has not begun does not begin."""
        with self._lock:
            if self._thread is not None:
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self._thread), ctypes.py_object(kind))
            elif not self._begun:
                self._refused = kind
