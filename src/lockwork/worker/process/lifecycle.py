"""The life of a worker process: set up, run jobs until the end is requested or all are done, tear down."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import Any, Protocol

from lockwork.app.lockwork import Lockwork
from lockwork.failures import one_line
from lockwork.injection.calling import Caller
from lockwork.injection.scopes import WorkerScope
from lockwork.lifespans import SetUpFailed
from lockwork.logs import Log
from lockwork.protocol.queue.leases import SessionOver
from lockwork.worker.execution.hook_runner import LIMIT
from lockwork.worker.execution.threads import ThreadPool
from lockwork.worker.execution.timeouts import limited
from lockwork.worker.ipc.messages import DONE, FAILED, NOT_SET_UP, SESSION_OVER, Control, Ready, Reporter, Urgency
from lockwork.worker.process.wiring import Wiring
from lockwork.worker.settings import ProcessSettings, WorkerOptions


class Interruptions(Protocol):
    """A source of this process's urgency to end."""

    async def reached(self, urgency: Urgency, /) -> None:
        """Wait until the urgency is at least this."""


@contextlib.asynccontextmanager
async def ready(
    app: Lockwork, options: WorkerOptions, threads: ThreadPool, control: Interruptions
) -> AsyncIterator[Caller | None]:
    """Set up the app, and tear it down at the end. Yields None if the process must end first. Raises SetUpFailed."""
    # with SIG_IGN, the exit statuses of runners and of the jobs' programs would be lost
    if signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    async with contextlib.AsyncExitStack() as stack:
        scope, contexts = WorkerScope(threads), app.registry.context.call_contexts
        interruption = asyncio.create_task(control.reached(Urgency.RETIRE), name="lockwork-set-up")
        stack.callback(interruption.cancel)
        with _cancelled_when(interruption) as gave_up:
            await stack.enter_async_context(app.lifespans.around(contexts))
            stack.push_async_callback(contexts.acall, scope.close)
            await contexts.acall(lambda: _provide(app, options, scope))
        yield None if gave_up() else Caller(threads, scope, limited)


async def _provide(app: Lockwork, options: WorkerOptions, scope: WorkerScope) -> None:
    for task in app.registry.of(options.queues):
        try:
            await scope.provide(task.injection.plan().worker)
        except (Exception, SystemExit) as error:
            raise SetUpFailed(
                f"a dependency of task {task.name!r} could not be provided: {type(error).__name__}: {error}"
            ) from error


@contextlib.contextmanager
def _cancelled_when(asked: asyncio.Task[None]) -> Iterator[Callable[[], bool]]:
    """Cancel the block if `asked` finishes first; yield a function that returns True if it was cancelled."""
    task = asyncio.current_task()
    assert task is not None
    cancelled = over = False

    def give_up(_asked: asyncio.Task[None]) -> None:
        nonlocal cancelled
        if not over:
            cancelled = True
            task.cancel()

    asked.add_done_callback(give_up)
    try:
        yield lambda: cancelled
    except asyncio.CancelledError:
        if not cancelled:
            raise SetUpFailed("the setup of this worker process was cancelled") from None
        task.uncancel()
    finally:
        over = True  # the cancellation may still be pending
        asked.remove_done_callback(give_up)


log: Log = Log("lockwork.worker")

_ANSWER = 0.5
"""Seconds to wait at the end for the last fetch: its jobs are returned uncounted."""


async def work(app: Lockwork, settings: ProcessSettings, control: Control, reporter: Reporter) -> int:
    """Set up, run jobs, and take down; returns the exit status."""
    options = settings.options
    app.registry.complete(options.queues)
    threads = ThreadPool(options.concurrency, app.registry.context.call_contexts)
    status: int | None = None
    try:
        async with ready(app, options, threads, control) as caller:
            if caller is None:
                status = DONE  # the end was requested before any job ran
            else:
                parts = Wiring(app, await app.runtime.driver(), settings, reporter, threads, caller, control)
                status = await _run(parts, settings, control, reporter)
    except SetUpFailed as error:
        log.error("%s", one_line(str(error)), exc_info=error.__cause__)
        status = NOT_SET_UP
    except BaseException:
        if status is None:
            raise
        # includes the CancelledError of an asyncio task that the app cancelled: all jobs are done at this point
        log.exception("the jobs of this worker process have ended, but its teardown failed")
    finally:
        threads.close()
    if not settings.embedded:
        await app.aclose()
    return status


async def _run(parts: Wiring, settings: ProcessSettings, control: Control, reporter: Reporter) -> int:
    """Run jobs until the supervisor ends this process or dies, the work is done, or the session ends."""
    reporter.report(Ready())
    await _hooks_of_others(parts, control)
    fetching = asyncio.create_task(parts.fetcher.run(), name="lockwork-fetch")
    await _first(fetching, control.reached(Urgency.QUIET))
    if control.orphaned():
        await control.reached(Urgency.NOW)
    status = _status(fetching)
    parts.fetcher.stop()
    if status == DONE:
        if settings.options.ends or settings.isolates:
            control.raise_to(Urgency.RETIRE)
        await control.reached(Urgency.RETIRE)
        if control.urgency < Urgency.NOW:
            parts.hurry()
        await _finish(parts.done(fetching), control, settings.options.grace)
    # do not wait for an unreachable server; if it leased jobs, they return with the session
    await asyncio.wait([fetching], timeout=_ANSWER)
    fetching.cancel()
    await asyncio.gather(fetching, return_exceptions=True)
    if control.gone:
        log.warning("the supervisor has exited: this worker process returns its jobs and stops")
    # unless the supervisor requested the end, it counts this process as dead, so running jobs count as attempts
    await parts.give_up(counted=status != DONE or control.supervisor_killed)
    if control.supervisor_killed:
        await parts.end_session()
    await parts.close()
    return status


async def _hooks_of_others(parts: Wiring, control: Control) -> None:
    """Call pending hooks of killed jobs first: such a job may be the next here, and block the event loop."""
    hooks = asyncio.create_task(parts.listener.idle())
    try:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LIMIT):
                await _first(hooks, control.reached(Urgency.QUIET))
    finally:
        hooks.cancel()


def _status(fetching: asyncio.Task[None]) -> int:
    problem = fetching.exception() if fetching.done() else None
    if problem is None:
        return DONE
    if isinstance(problem, SessionOver):
        log.error("the session of this worker process has ended on the server: its jobs run elsewhere, and it stops")
        return SESSION_OVER
    log.error("this worker process stops because of an internal error", exc_info=problem)
    return FAILED


async def _finish(ending: Coroutine[Any, Any, None], control: Control, grace: float) -> None:
    """Wait for running jobs and for their outcomes to reach the server, within the grace."""
    done = asyncio.create_task(ending)
    try:
        await _first(done, control.reached(Urgency.STOP))
        if not done.done():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(grace):
                    await _first(done, control.reached(Urgency.NOW))
    finally:
        done.cancel()


async def _first(task: asyncio.Task[None], other: Coroutine[Any, Any, None]) -> None:
    """Wait for the first to finish, and cancel `other`."""
    rival = asyncio.create_task(other)
    try:
        await asyncio.wait({task, rival}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        rival.cancel()
