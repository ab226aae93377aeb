"""Scopes: provide values and clean them up, on the event loop and in threads."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AsyncExitStack, ExitStack
from functools import partial
from types import TracebackType
from typing import Any, Protocol

from lockwork.injection.plan import Provider
from lockwork.lazy import asyncio
from lockwork.owners import Owner, acting_as

Values = dict[Provider, Any]


class ThreadRunner(Protocol):
    """Runs blocking code in threads, beside the event loop."""

    async def run(
        self,
        function: Callable[..., Any],
        args: Any,
        kwargs: Any,
        timeout: float | None,
        within: Callable[[Callable[..., Any]], Any] | None = None,
    ) -> Any:
        """Run a call in a thread; with `within`, run `within(function)` there, which calls the function."""


class ProviderRunner(ThreadRunner, Protocol):
    """Runs blocking providers, too."""

    async def run_out(self, function: Callable[..., Any], args: Any, kwargs: Any, timeout: float | None) -> Any:
        """Run a call in a thread; if cancelled, hasten its end, and wait for it."""


class _OwnedThreads:
    """Runs blocking providers in threads that own locks as `owner`."""

    def __init__(self, threads: ProviderRunner, owner: Owner) -> None:
        self._threads = threads
        self._owner = owner

    async def run(
        self,
        function: Callable[..., Any],
        args: Any,
        kwargs: Any,
        timeout: float | None,
        within: Callable[[Callable[..., Any]], Any] | None = None,
    ) -> Any:
        """Implements `ThreadRunner.run`."""
        return await self._threads.run(partial(self._owned, function), args, kwargs, timeout, within)

    async def run_out(self, function: Callable[..., Any], args: Any, kwargs: Any, timeout: float | None) -> Any:
        """Implements `ProviderRunner.run_out`."""
        return await self._threads.run_out(partial(self._owned, function), args, kwargs, timeout)

    def _owned(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        with acting_as(self._owner):
            return function(*args, **kwargs)


class WorkerScope:
    """The values that are provided once per worker process. The asyncio task that opened the scope cleans them up.

    The scope owns the locks that its providers acquire, because the job that first needs a value ends before the value.
    """

    def __init__(self, threads: ProviderRunner) -> None:
        self.values: Values = {}
        self._owner = Owner("worker")
        self._threads = _OwnedThreads(threads, self._owner)
        self._stack = AsyncExitStack()
        self._turn = asyncio.Lock()

    async def provide(self, providers: Iterable[Provider]) -> None:
        """Provide the missing values; a provider that failed is tried again for the next call that needs it."""
        async with self._turn:
            for provider in providers:
                if provider not in self.values:
                    with acting_as(self._owner):
                        self.values[provider] = await enter(provider, self.values, self._stack, self._threads)

    async def close(self) -> None:
        """Clean up in reverse order; raises the error of a clean-up after all clean-ups have run."""
        self.values = {}
        with acting_as(self._owner):
            await self._stack.aclose()


async def enter(provider: Provider, values: Values, stack: AsyncExitStack, threads: ProviderRunner) -> Any:
    """Provide one value on the event loop, and push its clean-up on the stack. A `def` provider runs in a thread."""
    arguments = {name: values[need] for name, need in provider.needs.items()}
    if provider.kind == "awaited":
        return await provider.call(**arguments)
    if provider.kind == "async generator":
        opened = contextlib.asynccontextmanager(provider.call)(**arguments)
        value = await opened.__aenter__()

        async def leave(
            kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
        ) -> None:
            await opened.__aexit__(kind, error, trace)  # a provider cannot suppress the task's error

        stack.push_async_exit(leave)
        return value
    if provider.kind == "generator":
        return await _enter_in_thread(provider, arguments, stack, threads)
    # no clean-up waits for this thread, so `run_out` does
    return await threads.run_out(provider.call, (), arguments, None)


async def _enter_in_thread(
    provider: Provider, arguments: dict[str, Any], stack: AsyncExitStack, threads: ProviderRunner
) -> Any:
    opened = contextlib.contextmanager(provider.call)(**arguments)
    entering = asyncio.ensure_future(_tried(threads.run(opened.__enter__, (), {}, None)))

    async def leave(kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        # if the task was cancelled while the thread entered, wait until the thread has entered
        await asyncio.wait([entering])
        if not entering.cancelled() and entering.result()[0] is None:
            await threads.run(opened.__exit__, (kind, error, trace), {}, None)

    stack.push_async_exit(leave)
    error, value = await asyncio.shield(entering)
    if error is not None:
        raise error
    return value


async def _tried(call: Awaitable[Any]) -> tuple[BaseException | None, Any]:
    """Return an error instead of raising it: an asyncio task that raises SystemExit stops the whole event loop."""
    try:
        return None, await call
    except BaseException as error:  # noqa: BLE001 - the caller that waits for it raises it
        return error, None


def enter_here(provider: Provider, values: Values, stack: ExitStack) -> Any:
    """Provide one value in this thread."""
    arguments = {name: values[need] for name, need in provider.needs.items()}
    if provider.kind != "generator":
        return provider.call(**arguments)
    opened = contextlib.contextmanager(provider.call)(**arguments)
    value = opened.__enter__()

    def leave(kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        opened.__exit__(kind, error, trace)

    stack.push(leave)
    return value
