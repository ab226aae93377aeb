"""Lifespans: resources that an app opens when a worker process starts, and closes when it stops."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import AsyncIterator, Callable
from typing import Any, TypeVar

from lockwork.errors import ConfigError, LockworkError

L = TypeVar("L", bound=Callable[[], Any])


class SetUpFailed(LockworkError):
    """A lifespan failed to start, so the worker process runs no jobs."""


class Lifespans:
    """The app's lifespans: started in the order of registration, ended in reverse."""

    def __init__(self) -> None:
        self._all: list[Callable[[], Any]] = []

    def add(self, lifespan: L) -> L:
        """Register a generator function, sync or async, with one `yield`, or one that returns a context manager."""
        if not callable(lifespan):
            raise ConfigError(f"a lifespan must be a function with one yield, not {lifespan!r}")
        try:
            inspect.signature(lifespan).bind()
        except TypeError:
            raise ConfigError(f"a lifespan must take no arguments: {_name(lifespan)}") from None
        except ValueError:
            pass  # a builtin without a signature
        if inspect.iscoroutinefunction(lifespan):
            raise ConfigError(f"a lifespan must yield exactly once: {_name(lifespan)}")
        self._all.append(lifespan)
        return lifespan

    @contextlib.asynccontextmanager
    async def around(self) -> AsyncIterator[None]:
        """Hold all of them open; raises SetUpFailed if one fails to start.

        Those that started always continue after their `yield`: no exception is thrown into them.
        """
        stack = contextlib.AsyncExitStack()
        try:
            for lifespan in self._all:
                try:
                    await _begin(lifespan, stack)
                except (Exception, SystemExit) as error:
                    raise SetUpFailed(
                        f"the lifespan {_name(lifespan)} failed to start: {type(error).__name__}: {error}"
                    ) from error
            yield
        finally:
            await stack.aclose()


async def _begin(lifespan: Callable[[], Any], stack: contextlib.AsyncExitStack) -> None:
    manager: Any
    if inspect.isasyncgenfunction(lifespan):
        manager = contextlib.asynccontextmanager(lifespan)()
    elif inspect.isgeneratorfunction(lifespan):
        manager = contextlib.contextmanager(lifespan)()
    else:
        manager = lifespan()
    if hasattr(manager, "__aenter__"):
        await manager.__aenter__()
        stack.push_async_callback(manager.__aexit__, None, None, None)
    elif hasattr(manager, "__enter__"):
        manager.__enter__()
        stack.callback(manager.__exit__, None, None, None)
    else:
        raise ConfigError(f"it returned {manager!r} instead of a context manager")


def _name(lifespan: object) -> str:
    return str(getattr(lifespan, "__qualname__", None) or repr(lifespan))
