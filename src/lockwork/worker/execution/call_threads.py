"""Threads that run calls for an event loop, which wakes once for all calls that have ended meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import weakref
from collections import deque
from collections.abc import Callable
from queue import Empty, SimpleQueue


class ThreadCall:
    """A call that waits for a thread, runs, or has ended."""

    __slots__ = ("_ended", "_function", "_future", "_loop")

    def __init__(self, function: Callable[[], object], loop: asyncio.AbstractEventLoop) -> None:
        self._function = function
        self._loop = loop
        self._ended = False
        self._future: asyncio.Future[None] = loop.create_future()

    def __call__(self) -> None:
        self._function()

    def end(self) -> None:
        """Complete the future; on the loop's thread."""
        self._ended = True
        if not self._future.done():
            self._future.set_result(None)

    def future(self) -> asyncio.Future[None]:
        """Return the future of the call's end; a new one if a cancelled coroutine cancelled the last one."""
        if self._future.cancelled() and not self._ended:
            self._future = self._loop.create_future()
        return self._future


class _LoopCalls:
    """The calls of one event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.count = 0
        """Calls that have not ended, as far as the loop knows."""
        self._ended: deque[ThreadCall] = deque()
        self._woken = False

    def end(self, call: ThreadCall) -> None:
        """Complete a call on the loop; from any thread."""
        self._ended.append(call)
        if not self._woken:
            self._woken = True
            with contextlib.suppress(RuntimeError):  # no coroutine waits, because the loop is closed
                self.loop.call_soon_threadsafe(self._complete)

    def _complete(self) -> None:
        # first: a call that ends from here on either is in the queue in time, or wakes the loop again
        self._woken = False
        while self._ended:
            self.count -= 1
            self._ended.popleft().end()


_Waiting = SimpleQueue[tuple[ThreadCall, _LoopCalls] | None]


class CallThreads:
    """Up to `size` threads, which start when calls need them, and end with this object at the latest.

    An event loop's `run_in_executor` wakes the loop for each call, and locks several times: it takes twice as long.
    """

    def __init__(self, size: int, name: str) -> None:
        self._size = size
        self._name = name
        self._waiting: _Waiting = SimpleQueue()
        self._threads = 0
        self._calls: _LoopCalls | None = None
        weakref.finalize(self, self._waiting.put, None).atexit = False  # the threads would keep the interpreter alive

    def start(self, function: Callable[[], object]) -> ThreadCall:
        """Run a function, which must not raise, in a thread as soon as one is free; on the loop's thread."""
        loop = asyncio.get_running_loop()
        calls = self._calls
        if calls is None or calls.loop is not loop:
            calls = self._calls = _LoopCalls(loop)
        call = ThreadCall(function, loop)
        calls.count += 1
        if self._threads < min(self._size, calls.count):
            # not a daemon: threads that a job starts would be daemons, too
            name = f"{self._name}_{self._threads}"
            threading.Thread(target=_work, args=(self._waiting,), name=name, daemon=False).start()
            self._threads += 1
        self._waiting.put((call, calls))
        return call

    def close(self) -> None:
        """End the threads; calls that run continue, and calls that wait do not start."""
        with contextlib.suppress(Empty):
            while True:
                self._waiting.get_nowait()
        self._waiting.put(None)


def _work(waiting: _Waiting) -> None:
    while (entry := waiting.get()) is not None:
        call, calls = entry
        call()
        calls.end(call)
        del call, calls, entry  # a thread that waits must keep no job's objects alive
    waiting.put(None)  # for the next thread
