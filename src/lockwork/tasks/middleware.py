"""Middlewares: generator functions of the app that run around each call of a task function, or around an enqueue."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, TypeVar

from lockwork.errors import ConfigError
from lockwork.introspection import shown
from lockwork.jobs.current import JobContext

JobMiddleware = Callable[[JobContext], Iterator[None] | AsyncIterator[None]]
M = TypeVar("M", bound=JobMiddleware)


class Middlewares:
    """The middlewares of an app, in the order of their registration: the first is the outermost."""

    def __init__(self) -> None:
        self.around_jobs: tuple[JobMiddleware, ...] = ()
        self.on_loop: tuple[JobMiddleware, ...] = ()
        """Those that are async: they run on the event loop, also around a `def` task."""
        self.in_thread: tuple[JobMiddleware, ...] = ()
        """The others, which run in the thread of a `def` task."""

    def add(self, function: M) -> M:
        """Register a middleware; raises ConfigError unless it is a generator function that takes the job."""
        is_async = inspect.isasyncgenfunction(function)
        check_generator(function, "a middleware", "the job", is_async=is_async)
        self.around_jobs += (function,)
        if is_async:
            self.on_loop += (function,)
        else:
            self.in_thread += (function,)
        return function


def check_generator(function: Callable[..., Any], what: str, argument: str, *, is_async: bool = False) -> None:
    """Raise ConfigError unless it is a generator function that can be called with one argument."""
    if not is_async and not inspect.isgeneratorfunction(function):
        name = shown(function) if callable(function) else f"{function!r:.60}"
        raise ConfigError(f"{what} must be a generator function with one yield, and {name} is none")
    try:
        inspect.signature(function).bind(None)
    except TypeError:
        raise ConfigError(f"{what} must take one argument, {argument}: {shown(function)}") from None
