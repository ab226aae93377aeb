"""Cancel an asyncio task, also before its k-th turn of the event loop for each k."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from lockwork import Lockwork, LockworkError
from processes import PATIENCE


@dataclass
class Sweep:
    """Number of tasks that ended as cancelled, and of tasks that finished before the cancellation."""

    ended: int = 0
    finished: int = 0


async def turns(count: int) -> None:
    """Let the loop run `count` turns."""
    for _ in range(count):
        await asyncio.sleep(0)


async def cancelled(task: asyncio.Task[Any]) -> bool:
    """Cancel a task; return False if it finished before."""
    task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        return True
    return False


async def auntil(found: Callable[[], Awaitable[object]], what: str, patience: float = PATIENCE) -> None:
    """Poll until the result is true; fail the test after `patience` seconds."""
    loop = asyncio.get_running_loop()
    end = loop.time() + patience
    while not await found():
        assert loop.time() < end, f"not within {patience:g} s: {what}"
        await asyncio.sleep(0.002)


async def swept(
    what: Callable[[], Coroutine[Any, Any, object]],
    clean: Callable[[str], Awaitable[None]],
    *,
    ready: Callable[[], Awaitable[None]] | None = None,
    most: int = 400,
) -> Sweep:
    """Cancel `what` at turn 0, 1, 2 and so on, until it finishes before its cancellation.

    `clean` asserts after each cancellation that nothing is left. `ready` is awaited after the task was created, and the
    turns count from its return.
    """
    sweep = Sweep()
    for count in range(most):
        task = asyncio.create_task(what(), name="swept")
        if ready is not None:
            await ready()
        await turns(count)
        early = task.done()
        task.cancel()
        try:
            await task
        except asyncio.CancelledError:
            sweep.ended += 1
        except LockworkError:
            sweep.finished += 1
        else:
            sweep.finished += 1
        await clean(f"cancelled at turn {count}")
        # other code in `ready` may have ended the task before the first turn
        if early and (ready is None or sweep.ended):
            break
    return sweep


def nothing_here(app: Lockwork, where: str) -> None:
    """Assert that the process has no grant, no lease and no waiter."""
    runtime = app.runtime
    assert not runtime.holds, f"{where}: {runtime.holds}"
    assert not runtime.live, f"{where}: {runtime.live}"
    assert not runtime.engine._book._leases, f"{where}: it would be renewed"
    assert not runtime.engine._mail._boxes, f"{where}: it waits still"
    ours = [task for task in asyncio.all_tasks() if not task.get_name().startswith("lockwork-")]
    assert ours == [asyncio.current_task()], f"{where}: {ours}"
