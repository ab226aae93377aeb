"""Context managers of integrations around the calls of a worker: in its threads, and on its event loop."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager, AbstractContextManager, AsyncExitStack, ExitStack
from typing import Any, TypeVar

R = TypeVar("R")
InThread = Callable[[], AbstractContextManager[object]]
OnLoop = Callable[[], AbstractAsyncContextManager[object]]


class CallContexts:
    """Surrounds each call of a `def` function in a thread, and each call of a job, hook or lifespan on the event loop.

    Jobs, hooks, providers and lifespans run in different threads of a worker, so what belongs to a thread, such as a
    database connection, is set up and cleaned up in each of them. A context manager that raises fails the call.
    """

    def __init__(self) -> None:
        self._in_thread: tuple[InThread, ...] = ()
        self.on_loop: tuple[OnLoop, ...] = ()
        """Surround a coroutine: a call of a job, a hook or a lifespan."""

    def add(self, in_thread: InThread, on_loop: OnLoop) -> None:
        """Enter a context manager of `in_thread` around each call in a thread, and of `on_loop` on the event loop."""
        self._in_thread += (in_thread,)
        self.on_loop += (on_loop,)

    def call(self, function: Callable[[], R], kept_error: Callable[[], BaseException | None] | None = None) -> R:
        """Call a function in this thread.

        kept_error: returns the error of a function that keeps its error instead of raising it. The context managers
        see this error, and cannot suppress it.
        """
        if not self._in_thread:
            return function()
        with ExitStack() as stack:
            for context in self._in_thread:
                stack.enter_context(context())
            result = function()
            error = None if kept_error is None else kept_error()
            if error is not None:
                stack.pop_all().__exit__(type(error), error, error.__traceback__)
            return result

    def acall(self, function: Callable[[], Coroutine[Any, Any, R]]) -> Coroutine[Any, Any, R]:
        """Async version of `call`, on the event loop."""
        return self._surrounded(function) if self.on_loop else function()

    async def _surrounded(self, function: Callable[[], Coroutine[Any, Any, R]]) -> R:
        async with AsyncExitStack() as stack:
            for context in self.on_loop:
                await stack.enter_async_context(context())
            return await function()
