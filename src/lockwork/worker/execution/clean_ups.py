"""Detects whether a job is inside Lockwork's own cleanup, which a second interrupt must not reach.

Such a cleanup releases a lock, or reverts the effects of an interrupted call on the server. Providers, middlewares and
lifespans are not checked: a time-out does not interrupt them.
"""

from __future__ import annotations

import asyncio
import gc
import sys
from types import AsyncGeneratorType, CoroutineType, FrameType, GeneratorType
from typing import Any

_CLEAN_UPS = frozenset(
    ("__exit__", "__aexit__", "release", "arelease", "release_all", "arelease_all", "drive_out", "_clean_up")
)
"""Names of Lockwork's cleanup functions."""
_DEEPEST = 1000
"""Maximum number of coroutines to inspect."""


def thread_cleans_up(thread: int) -> bool:
    """Return True if a thread is in a cleanup of Lockwork.

    The answer holds for an interrupt that follows at once: the caller has the GIL, and the thread checks for interrupts
    as soon as it gets the GIL.
    """
    frame = sys._current_frames().get(thread)  # noqa: SLF001 - documented, for debuggers
    while frame is not None:
        if _is_clean_up(frame):
            return True
        frame = frame.f_back
    return False


def task_cleans_up(task: asyncio.Task[Any]) -> bool:
    """Return True if an asyncio task, or a task that it awaits, is in a cleanup of Lockwork."""
    awaitables: list[Any] = [task]
    for _ in range(_DEEPEST):
        if not awaitables:
            break
        awaitable = awaitables.pop()
        frame, awaited = _behind(awaitable)
        if frame is not None and _is_clean_up(frame):
            return True
        awaitables += awaited
    return False


def _behind(awaitable: Any) -> tuple[FrameType | None, list[Any]]:
    """Return the frame of an awaitable, and the awaitable that it awaits."""
    if isinstance(awaitable, CoroutineType):
        return awaitable.cr_frame, [awaitable.cr_await]
    if isinstance(awaitable, AsyncGeneratorType):
        return awaitable.ag_frame, [awaitable.ag_await]
    if isinstance(awaitable, GeneratorType):
        return awaitable.gi_frame, [awaitable.gi_yieldfrom]
    if isinstance(awaitable, asyncio.Task):
        return None, [awaitable.get_coro()]
    # the iterator of a future, or the awaitable of an async generator: neither has an attribute for its target
    return None, [each for each in gc.get_referents(awaitable) if isinstance(each, _AWAITED)]


_AWAITED = (asyncio.Task, CoroutineType, AsyncGeneratorType, GeneratorType)


def _is_clean_up(frame: FrameType) -> bool:
    own = str(frame.f_globals.get("__name__")).startswith("lockwork.")
    return own and frame.f_code.co_name in _CLEAN_UPS
