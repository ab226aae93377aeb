"""Lifespans: resources that an app opens when a worker process starts, and closes when it stops."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import Context, copy_context
from functools import partial
from typing import Any, TypeVar

from lockwork import introspection
from lockwork.call_contexts import CallContexts
from lockwork.errors import ConfigError, LockworkError
from lockwork.lazy import asyncio

L = TypeVar("L", bound=Callable[[], Any])


class SetUpFailed(LockworkError):
    """A lifespan failed to start, so the worker process runs no jobs."""


class Lifespans:
    """The app's lifespans: started in the order of registration, ended in reverse."""

    def __init__(self) -> None:
        self._all: list[Callable[[], Any]] = []

    def add(self, lifespan: L) -> L:
        """Register a sync or async generator function with one `yield`, or a function returning a context manager."""
        if not callable(lifespan):
            raise ConfigError(f"a lifespan must be a function with one yield, not {lifespan!r}")
        try:
            inspect.signature(lifespan).bind()
        except TypeError:
            raise ConfigError(f"a lifespan must take no arguments: {_name(lifespan)}") from None
        except ValueError:
            pass  # a builtin without a signature
        if _lacks_yield(lifespan):
            raise ConfigError(
                f"the lifespan {_name(lifespan)} has no yield: put `yield` between its setup and teardown"
            )
        self._all.append(lifespan)
        return lifespan

    @contextlib.asynccontextmanager
    async def around(self, contexts: CallContexts | None = None) -> AsyncIterator[None]:
        """Keep all lifespans open; raises SetUpFailed if one fails to start.

        `contexts` surround each setup and teardown. At the end, each started lifespan continues after its `yield`: no
        exception is thrown into it.
        """
        stack = contextlib.AsyncExitStack()
        try:
            for lifespan in self._all:
                try:
                    await _begin(lifespan, stack, contexts or CallContexts())
                except (Exception, SystemExit) as error:
                    raise SetUpFailed(
                        f"the lifespan {_name(lifespan)} failed to start: {type(error).__name__}: {error}"
                    ) from error
            yield
        finally:
            await stack.aclose()


async def _begin(lifespan: Callable[[], Any], stack: contextlib.AsyncExitStack, contexts: CallContexts) -> None:
    manager: Any
    if inspect.isasyncgenfunction(lifespan):
        manager = contextlib.asynccontextmanager(lifespan)()
    elif inspect.isgeneratorfunction(lifespan):
        manager = contextlib.contextmanager(lifespan)()
    else:
        manager = lifespan()
    if hasattr(manager, "__aenter__"):
        await contexts.acall(manager.__aenter__)
        stack.push_async_callback(contexts.acall, partial(manager.__aexit__, None, None, None))
    elif hasattr(manager, "__enter__"):
        await _begin_in_thread(manager, stack, contexts)
    else:
        raise ConfigError(f"it returned {manager!r} instead of a context manager")


async def _begin_in_thread(
    manager: contextlib.AbstractContextManager[Any], stack: contextlib.AsyncExitStack, contexts: CallContexts
) -> None:
    """Enter and exit a context manager in a separate thread, where it may block."""
    thread, context, loop = ThreadPoolExecutor(1, "lockwork-lifespan"), copy_context(), asyncio.get_running_loop()
    stack.callback(thread.shutdown, wait=False)
    entering = loop.run_in_executor(thread, context.run, partial(contexts.call, manager.__enter__))
    try:
        await asyncio.shield(entering)
    finally:
        # when cancelled, it is still entered, and then exited
        await asyncio.wait([entering])
        if not entering.exception():
            leave = partial(manager.__exit__, None, None, None)
            stack.push_async_callback(lambda: loop.run_in_executor(thread, context.run, partial(contexts.call, leave)))
            _adopt(context)


def _adopt(context: Context) -> None:
    """Copy the values of the context variables from `context`."""
    for variable, value in context.items():
        if variable not in (here := copy_context()) or here[variable] is not value:
            variable.set(value)


def _lacks_yield(lifespan: Callable[..., Any]) -> bool:
    """Return True for a `def` or `async def` without `yield`, also under a decorator; a lambda may return a manager."""
    inner = inspect.unwrap(introspection.inside(lifespan))
    yields = inspect.isgeneratorfunction(inner) or inspect.isasyncgenfunction(inner)
    return inspect.isfunction(inner) and not yields and inner.__name__ != "<lambda>"


def _name(lifespan: Callable[..., Any]) -> str:
    return str(getattr(introspection.inside(lifespan), "__qualname__", None) or repr(lifespan))
