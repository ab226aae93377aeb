"""Control flows above protocols, which call the user's functions: generators of actions, for threads and asyncio."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Generator
from typing import Any, TypeVar

from msgspec import Struct

from lockwork.runtime.drive import adrive, drive

T = TypeVar("T")


class Action(Struct, frozen=True):
    """One step of a control flow that threads and asyncio tasks share, in a version for each.

    It must not raise StopIteration, which a generator cannot receive.
    """

    blocking: Callable[[], Any]
    awaiting: Callable[[], Awaitable[Any]]


Actions = Generator[Action, Any, T]


def perform(actions: Actions[T]) -> T:
    """Run the actions on this thread."""
    return drive(actions, lambda action: action.blocking())


def aperform(actions: Actions[T]) -> Coroutine[Any, Any, T]:
    """Async version of `perform`; if the asyncio task is cancelled, the cleanup runs first."""
    return adrive(actions, lambda action: action.awaiting())
