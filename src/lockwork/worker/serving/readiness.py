"""What is set up around the jobs of a worker process: the app's lifespans, and what lives as long as the worker."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Protocol

from lockwork.app.lockwork import Lockwork
from lockwork.injection.calling import Caller
from lockwork.injection.scopes import WorkerScope
from lockwork.lifespans import SetUpFailed
from lockwork.worker.children.control import Urgency
from lockwork.worker.execution.calls import limited
from lockwork.worker.execution.threads import Threads
from lockwork.worker.settings import WorkerOptions


class Urged(Protocol):
    """Who tells how urgently this process has to end."""

    async def reached(self, urgency: Urgency, /) -> None:
        """Wait until it is at least so urgent."""


@contextlib.asynccontextmanager
async def ready(
    app: Lockwork, options: WorkerOptions, threads: Threads, control: Urged
) -> AsyncIterator[Caller | None]:
    """Set up, and take down at the end; None when told to end before that was done. Raises SetUpFailed."""
    # where the app ignores it, nobody would know how runners and the programs of jobs ended
    if signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    async with contextlib.AsyncExitStack() as stack:
        scope = WorkerScope(threads)
        told = asyncio.create_task(control.reached(Urgency.RETIRE), name="lockwork-set-up")
        stack.callback(told.cancel)
        with _given_up_when(told) as given_up:
            await stack.enter_async_context(app.lifespans.around())
            stack.push_async_callback(scope.close)
            await _provide(app, options, scope)
        yield None if given_up() else Caller(threads, scope, limited)


async def _provide(app: Lockwork, options: WorkerOptions, scope: WorkerScope) -> None:
    for task in app.registry.of(options.queues):
        try:
            await scope.provide(task.injection.plan().worker)
        except (Exception, SystemExit) as error:
            raise SetUpFailed(
                f"what task {task.name!r} needs could not be provided: {type(error).__name__}: {error}"
            ) from error


@contextlib.contextmanager
def _given_up_when(told: asyncio.Task[None]) -> Iterator[Callable[[], bool]]:
    """Cancel the block when `told` is done before it; the answer says whether that happened."""
    task = asyncio.current_task()
    assert task is not None
    cancelled = over = False

    def give_up(_told: asyncio.Task[None]) -> None:
        nonlocal cancelled
        if not over:
            cancelled = True
            task.cancel()

    told.add_done_callback(give_up)
    try:
        yield lambda: cancelled
    except asyncio.CancelledError:
        if not cancelled:
            raise SetUpFailed("what this worker process sets up first was cancelled") from None
        task.uncancel()
    finally:
        over = True  # it may be on its way
        told.remove_done_callback(give_up)
