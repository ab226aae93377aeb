"""Lifespans: what an app sets up when a worker process begins, and takes down when it ends."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import AsyncIterator, Callable
from typing import Any, TypeVar

from lockwork.errors import ConfigError, LockworkError

L = TypeVar("L", bound=Callable[[], Any])


class SetUpFailed(LockworkError):
    """What a worker process needs before it may run jobs could not be set up."""


class Lifespans:
    """The app's lifespans; they begin in the order of registration and end in reverse."""

    def __init__(self) -> None:
        self._all: list[Callable[[], Any]] = []

    def add(self, lifespan: L) -> L:
        """Register a generator function of either kind with one `yield`, or what returns a context manager."""
        if not callable(lifespan):
            raise ConfigError(f"a lifespan is a function with one yield, not {lifespan!r}")
        try:
            inspect.signature(lifespan).bind()
        except TypeError:
            raise ConfigError(f"a lifespan takes no arguments: {_name(lifespan)}") from None
        except ValueError:
            pass  # a builtin that does not show what it takes
        if inspect.iscoroutinefunction(lifespan):
            raise ConfigError(f"a lifespan yields once, between its beginning and its end: {_name(lifespan)}")
        self._all.append(lifespan)
        return lifespan

    @contextlib.asynccontextmanager
    async def around(self) -> AsyncIterator[None]:
        """Hold all of them open; raises SetUpFailed when one does not begin.

        Whatever happens meanwhile, those that began go on after their `yield`: nothing is thrown into them.
        """
        stack = contextlib.AsyncExitStack()
        try:
            for lifespan in self._all:
                try:
                    await _begin(lifespan, stack)
                except (Exception, SystemExit) as error:
                    raise SetUpFailed(
                        f"the lifespan {_name(lifespan)} failed to begin: {type(error).__name__}: {error}"
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
        raise ConfigError(f"it returned {manager!r}, and no context manager")


def _name(lifespan: object) -> str:
    return str(getattr(lifespan, "__qualname__", None) or repr(lifespan))
