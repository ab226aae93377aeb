"""Runs a generator of effects to its end, on a thread or in an asyncio task, and its clean-up after an interrupt."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Generator
from inspect import GEN_CLOSED, getgeneratorstate
from typing import Any, TypeVar

from lockwork.errors import BlockingCallError, JobCancelled, JobTimeout
from lockwork.lazy import asyncio, running_loop
from lockwork.protocol.effects import Clock
from lockwork.runtime.clock import now

E = TypeVar("E")
T = TypeVar("T")


def drive(
    protocol: Generator[E, Any, T],
    perform: Callable[[E], Any],
    step: Callable[[Any], E] | None = None,
    value: Any = None,
) -> T:
    """Run `protocol` to its end on this thread; after any interrupt, run its cleanup first."""
    if step is None:
        step = protocol.send
    while True:
        try:
            # The inner loop's backward jump is inside the `try`: a signal handler may raise there, too.
            while True:
                value = perform(step(value))
                step = protocol.send
        except StopIteration as done:
            result: T = done.value
            return result
        except BaseException as error:
            if getgeneratorstate(protocol) == GEN_CLOSED:
                raise
            if isinstance(error, _INTERRUPTS) or not isinstance(error, Exception):
                return drive_out(protocol, perform, error)
            step, value = protocol.throw, error


def drive_out(protocol: Generator[E, Any, T], perform: Callable[[E], Any], error: BaseException) -> T:
    """Run the clean-up of an interrupted protocol.

    A worker does not interrupt a thread that has a frame of this function.
    """
    return drive(protocol, perform, protocol.throw, error)


_INTERRUPTS = (JobTimeout, JobCancelled)
"""Exceptions that a worker raises in the thread of a job."""


def no_running_loop() -> None:
    """Raise BlockingCallError on the thread of a running event loop."""
    if running_loop() is not None:
        raise BlockingCallError(
            "this call blocks, and an event loop is running on this thread: "
            "await the async version, whose name begins with 'a', instead"
        )


async def adrive(protocol: Generator[E, Any, T], perform: Callable[[E], Awaitable[Any]]) -> T:
    """Run `protocol` to its end; if the asyncio task is cancelled, run the protocol's cleanup first."""
    step: Callable[[Any], E] = protocol.send
    value: Any = None
    while True:
        try:
            effect = step(value)
        except StopIteration as done:
            result: T = done.value
            return result
        step = protocol.send
        if type(effect) is Clock:
            value = now()
            continue
        try:
            value = await perform(effect)
        except asyncio.CancelledError as cancelled:
            await _clean_up(protocol, perform, cancelled)
            raise
        except BaseException as error:  # noqa: BLE001 - the protocol decides, and raises it again
            step, value = protocol.throw, error


async def _clean_up(
    protocol: Generator[E, Any, Any], perform: Callable[[E], Awaitable[Any]], cancelled: asyncio.CancelledError
) -> None:
    """Let the protocol undo its effects, even if the asyncio task is cancelled again."""
    task = asyncio.get_running_loop().create_task(_drive_out(protocol, perform, cancelled))
    while not task.done():
        # adrive raises this cancellation later; a cancelled cleanup is done, which ends the loop
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.shield(task)
    if not task.cancelled():
        task.result()


async def _drive_out(
    protocol: Generator[E, Any, Any], perform: Callable[[E], Awaitable[Any]], cancelled: asyncio.CancelledError
) -> None:
    step: Callable[[Any], E] = protocol.throw
    value: Any = cancelled
    while True:
        try:
            effect = step(value)
        except (StopIteration, asyncio.CancelledError):
            return
        try:
            value = now() if type(effect) is Clock else await perform(effect)
            step = protocol.send
        except Exception as error:  # noqa: BLE001 - the protocol decides, and raises it again
            step, value = protocol.throw, error
