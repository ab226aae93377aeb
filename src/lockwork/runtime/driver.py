"""The loop that runs a protocol, on a thread or in an asyncio task; the caller performs the effects.

A control flow above protocols, which calls the user's functions too, is a generator of actions.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine, Generator
from dataclasses import dataclass
from inspect import GEN_CLOSED, getgeneratorstate
from typing import Any, TypeVar

from lockwork.protocol.effects import Clock
from lockwork.runtime.clock import now

E = TypeVar("E")
T = TypeVar("T")


def drive(protocol: Generator[E, Any, T], perform: Callable[[E], Any]) -> T:
    """Run `protocol` to its end on this thread; whatever interrupts it, its clean-up is done first."""
    step: Callable[[Any], E] = protocol.send
    value: Any = None
    while True:
        try:
            # The inner loop's jump back is inside of the `try`: a signal may raise there, too.
            while True:
                value = perform(step(value))
                step = protocol.send
        except StopIteration as done:
            result: T = done.value
            return result
        except BaseException as error:
            if getgeneratorstate(protocol) == GEN_CLOSED:
                raise
            step, value = protocol.throw, error


async def adrive(protocol: Generator[E, Any, T], perform: Callable[[E], Awaitable[Any]]) -> T:
    """Run `protocol` to its end in this task; when the task is cancelled, the protocol's clean-up is done first."""
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
    """Let the protocol undo what it began, whatever else is cancelled meanwhile."""
    task = asyncio.get_running_loop().create_task(_drive_out(protocol, perform, cancelled))
    while not task.done():
        with contextlib.suppress(asyncio.CancelledError):  # ours comes again; the task's own ends the loop
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


@dataclass(frozen=True, slots=True)
class Action:
    """One step of a control flow that threads and asyncio tasks share: how each of them does it.

    It must not raise StopIteration, which a generator cannot receive.
    """

    blocking: Callable[[], Any]
    awaiting: Callable[[], Awaitable[Any]]


Actions = Generator[Action, Any, T]


def perform(actions: Actions[T]) -> T:
    """Do the actions on this thread."""
    return drive(actions, lambda action: action.blocking())


def aperform(actions: Actions[T]) -> Coroutine[Any, Any, T]:
    """Async version of `perform`; when the task is cancelled, the clean-up is done first."""
    return adrive(actions, lambda action: action.awaiting())
