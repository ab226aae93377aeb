"""Middlewares: generator functions of the app that run around each call of a task function, and around each enqueue."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from types import TracebackType
from typing import Any, TypeVar

from msgspec import Struct, field

from lockwork.errors import ConfigError
from lockwork.introspection import shown
from lockwork.jobs.current import JobContext

JobMiddleware = Callable[[JobContext], Iterator[None] | AsyncIterator[None]]
M = TypeVar("M", bound=JobMiddleware)


class Outgoing(Struct):
    """Jobs of one call that are about to be enqueued: `count` of them, each with these `headers`.

    `ids` is empty before the `yield`. A flow has no `task`, and its own id.
    """

    task: str
    queue: str
    count: int
    headers: dict[str, str] = field(default_factory=dict)
    ids: tuple[str, ...] = ()


EnqueueMiddleware = Callable[[Outgoing], Iterator[None]]
E = TypeVar("E", bound=EnqueueMiddleware)


class Middlewares:
    """The middlewares of an app, in the order of their registration: the first is the outermost."""

    def __init__(self) -> None:
        self.around_enqueue: tuple[EnqueueMiddleware, ...] = ()
        self.around_jobs: tuple[JobMiddleware, ...] = ()
        self.on_loop: tuple[JobMiddleware, ...] = ()
        """Async middlewares: they run on the event loop, also around a `def` task."""
        self.in_thread: tuple[JobMiddleware, ...] = ()
        """Other middlewares: they run in the thread of a `def` task."""

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

    def add_enqueue(self, function: E) -> E:
        """Register an enqueue middleware; raises ConfigError unless it is a generator function of one argument."""
        check_generator(function, "an enqueue middleware", "the outgoing jobs")
        self.around_enqueue += (function,)
        return function

    @contextmanager
    def sending(self, task: str, queue: str, count: int) -> Iterator[Outgoing]:
        """Run the enqueue middlewares around the block; an error that a middleware suppresses is raised again."""
        outgoing = Outgoing(task, queue, count)
        with ExitStack() as stack:
            for middleware in self.around_enqueue:
                opened = contextmanager(middleware)(outgoing)
                opened.__enter__()
                stack.push(partial(_leave, opened))
            yield outgoing


def _leave(
    opened: AbstractContextManager[None],
    kind: type[BaseException] | None,
    error: BaseException | None,
    trace: TracebackType | None,
) -> None:
    opened.__exit__(kind, error, trace)  # ignore the result: a middleware cannot suppress an error


def check_generator(function: Callable[..., Any], what: str, argument: str, *, is_async: bool = False) -> None:
    """Raise ConfigError unless it is a generator function that can be called with one argument."""
    if not is_async and not inspect.isgeneratorfunction(function):
        name = shown(function) if callable(function) else f"{function!r:.60}"
        raise ConfigError(f"{what} must be a generator function with one yield, but {name} is not")
    try:
        inspect.signature(function).bind(None)
    except TypeError:
        raise ConfigError(f"{what} must take one argument, {argument}: {shown(function)}") from None
