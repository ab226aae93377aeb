"""The child process: runs jobs under a session that its supervisor keeps alive."""

from __future__ import annotations

import asyncio
import contextlib
import io
import logging
import os
import signal
import sys
from collections.abc import Coroutine
from random import random
from typing import Any, BinaryIO

import msgspec

from lockwork.app import Lockwork
from lockwork.errors import LockworkError
from lockwork.failures import one_line
from lockwork.injection.calling import Caller
from lockwork.lifespans import SetUpFailed
from lockwork.protocol import hands, jobs
from lockwork.protocol.jobs import SessionOver
from lockwork.protocol.keys import QueueKeys, channel
from lockwork.runtime.aio import AsyncDriver
from lockwork.worker import loops, order
from lockwork.worker.canceller import cancel
from lockwork.worker.context import Desk
from lockwork.worker.control import Control, Urgency
from lockwork.worker.executor import Executor
from lockwork.worker.fetcher import Fetcher
from lockwork.worker.lanes import Lanes
from lockwork.worker.leaving import leave_after, leave_within
from lockwork.worker.load import load
from lockwork.worker.logs import configure
from lockwork.worker.options import READY, WORN, ChildOrders, WorkerOptions
from lockwork.worker.overruns import Limits
from lockwork.worker.process import DONE
from lockwork.worker.processes import Processes
from lockwork.worker.readiness import ready
from lockwork.worker.relay import Listener
from lockwork.worker.reports import Reporter
from lockwork.worker.runners import RunnerReports
from lockwork.worker.settler import Settler
from lockwork.worker.source import Source
from lockwork.worker.telling import LIMIT
from lockwork.worker.threads import Threads

log: logging.Logger = logging.getLogger("lockwork.worker")

FAILED, SESSION_OVER = 1, 3
NOT_SET_UP = 4
"""Exit status of a process that never came to run jobs, because what it needs first failed."""
_LONGEST = 1 << 24
"""Bytes of a line from the supervisor: a worker may have thousands of queues."""
_MOMENT = 0.2
"""Seconds in which the other processes of a supervisor that was killed learn of it, too: none shall take our jobs."""
_LAST_WORDS = 1.5
"""Seconds to settle what was given back: the supervisor kills us soon, and what was set up has to be taken down."""
_LAST = 10.0
"""Seconds that it has when its supervisor is gone, or when all is done and only what jobs have left behind goes on."""


class _Work:
    """The parts of a child that run jobs, put together for its orders."""

    def __init__(
        self,
        app: Lockwork,
        driver: AsyncDriver,
        orders: ChildOrders,
        reporter: Reporter,
        threads: Threads,
        caller: Caller,
        ended: asyncio.Queue[bytes],
    ) -> None:
        options = orders.options
        self._driver = driver
        self._window_ms = window_ms = int(app.config.result_ttl * 1000)
        self.lanes = Lanes(options.concurrency)
        self.processes = Processes(orders, RunnerReports(reporter))
        _warn_of_large_batches(app, options)
        self.executors: list[Executor] = []
        self.settlers: list[Settler] = []
        self.cancelling: list[asyncio.Task[None]] = []
        sources: list[Source] = []
        app.runtime.engine.also_hear(channel(app.config.prefix, orders.session))
        weights = options.weights or [1] * len(options.queues)
        served = [
            (name, queue, weight)
            for queue, weight in zip(options.queues, weights, strict=True)
            for name in app.config.partitions.names(queue)
        ]
        for name, family, weight in served:
            keys = QueueKeys(app.config.prefix, name)
            settler = Settler(driver, keys, orders.session, window_ms)
            desk = Desk(name, keys, app.runtime, orders.session, app.config.max_result)
            limits = Limits(reporter, name)
            executor = Executor(
                desk, app.registry, app.config, settler, threads, caller, self.lanes, self.processes, limits
            )
            listening = cancel(driver, desk, self.lanes, executor)
            self.cancelling.append(asyncio.create_task(listening, name="lockwork-cancel"))
            self.settlers.append(settler)
            self.executors.append(executor)
            # each process begins with another partition
            turn = random()  # noqa: S311 - no secret
            sources.append(Source(name, keys, executor, weight, family, turn, settler=settler))
        self.fetcher = Fetcher(
            driver,
            sources,
            orders.session,
            app.runtime.channel,
            self.lanes,
            window_ms,
            order.chosen(weighted=options.weights is not None, in_turn=len(served) > len(options.queues)),
            at_most=1 if options.once else None,
            settled=self.settled if options.burst else None,
            worn_after=options.max_jobs,
            on_worn=lambda: reporter.tell(WORN),
        )
        desks = {executor.desk.queue: executor.desk for executor in self.executors}
        self.listener = Listener(ended, desks, app.registry.around.hooks)

    async def settled(self) -> bool:
        """Wait until all outcomes are on the server; then it is true."""
        for settler in self.settlers:
            await settler.drained()
        return True

    async def idle(self) -> None:
        """Wait until nothing runs."""
        while self.lanes.running:
            await self.lanes.freed()
        await self.listener.idle()

    def hurry(self) -> None:
        """No more jobs are fetched, so batches need not wait for any."""
        for executor in self.executors:
            executor.hurry()

    async def done(self, fetching: asyncio.Task[None]) -> None:
        """Wait until nothing is fetched, nothing runs, and what became of the jobs is on the server."""
        await asyncio.wait([fetching])
        await self.idle()
        await self.settled()

    async def give_up(self, *, counted: bool) -> None:
        """End what still runs, and give it back; `counted`: only what has not begun; the rest counts as an attempt."""
        for listening in self.cancelling:
            listening.cancel()
        await asyncio.gather(*self.cancelling, return_exceptions=True)
        for executor in self.executors:
            executor.giving_back, executor.counting = True, counted
        self.lanes.cancel()
        await self.lanes.close()
        await self.processes.close()
        await self.listener.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LAST_WORDS):
                await self.settled()

    async def end_session(self) -> None:
        """End it as a supervisor does for a process that has died, if it is certain that no job runs here any more."""
        if any(executor.abandoned for executor in self.executors) or any(settler.busy for settler in self.settlers):
            return  # its lease runs out
        await asyncio.sleep(_MOMENT)
        try:
            for executor in self.executors:
                ending = jobs.recover(executor.desk.keys, executor.desk.session, self._window_ms, gone=True)
                await self._driver.run(hands.within(1.0, ending))
        except LockworkError as error:
            log.error("the jobs of this worker process could not be given back: %s", error)


def _warn_of_large_batches(app: Lockwork, options: WorkerOptions) -> None:
    for task in app.registry.of(options.queues):
        if task.batching is not None and task.batching.size > options.concurrency and not options.once:
            log.warning(
                "task %r takes up to %d jobs in one call, but this process runs only %d at once: see --concurrency",
                task.name,
                task.batching.size,
                options.concurrency,
            )


async def work(orders: ChildOrders, control: Control, reporter: Reporter) -> int:
    """Set up, run jobs, and take down; returns the exit status."""
    app = load(orders.options.app)
    threads = Threads(orders.options.concurrency)
    status: int | None = None
    try:
        async with ready(app, orders.options, threads, control) as caller:
            if caller is None:
                status = DONE  # told to end before there was anything to end
            else:
                parts = _Work(app, await app.runtime.driver(), orders, reporter, threads, caller, control.ended)
                status = await _run(parts, orders, control, reporter)
    except SetUpFailed as error:
        log.error("%s", one_line(str(error)), exc_info=error.__cause__)
        status = NOT_SET_UP
    except Exception:
        if status is None:
            raise
        log.exception("the jobs of this worker process are over, but taking down what was set up for them failed")
    await app.aclose()
    threads.close()
    return status


async def _run(parts: _Work, orders: ChildOrders, control: Control, reporter: Reporter) -> int:
    """Run jobs until told to end, until the work is done, the supervisor gone, or the session over."""
    reporter.tell(READY)
    await _hooks_of_others(parts, control)
    fetching = asyncio.create_task(parts.fetcher.run(), name="lockwork-fetch")
    await _first(fetching, control.reached(Urgency.QUIET))
    status = _status(fetching)
    parts.fetcher.stop()
    if status == DONE:
        if orders.options.ends:
            control.raise_to(Urgency.RETIRE)
        await control.reached(Urgency.RETIRE)
        if control.urgency < Urgency.NOW:
            parts.hurry()
        await _finish(parts.done(fetching), control, orders.options.grace)
    fetching.cancel()  # if the server does not answer; should it have leased jobs, they go back with the session
    await asyncio.gather(fetching, return_exceptions=True)
    if control.gone:
        log.warning("the supervisor is gone: this worker process gives its jobs back and stops")
    # of what nobody told us to end, the supervisor says the same, should it live: we have died
    await parts.give_up(counted=status != DONE or control.deserted)
    if control.deserted:
        await parts.end_session()
    return status


async def _hooks_of_others(parts: _Work, control: Control) -> None:
    """Tell first what became of a job whose process was killed: it may be the next here, and block everything."""
    telling = asyncio.create_task(parts.listener.idle())
    try:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LIMIT):
                await _first(telling, control.reached(Urgency.QUIET))
    finally:
        telling.cancel()


def _status(fetching: asyncio.Task[None]) -> int:
    problem = fetching.exception() if fetching.done() else None
    if problem is None:
        return DONE
    if isinstance(problem, SessionOver):
        log.error("the server has not heard of this worker process for a lease: its jobs run elsewhere, and it stops")
        return SESSION_OVER
    log.error("this worker process stops by an error of its own", exc_info=problem)
    return FAILED


async def _finish(ending: Coroutine[Any, Any, None], control: Control, grace: float) -> None:
    """Let running jobs end, as far as they may; one whose outcome does not come to the server would run again."""
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
    """Wait for either; only the other is ended."""
    rival = asyncio.create_task(other)
    try:
        await asyncio.wait({task, rival}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        rival.cancel()


async def _main(line: BinaryIO, descriptor: int) -> int:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=_LONGEST)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), line)
    orders = msgspec.json.decode(await reader.readline(), type=ChildOrders)
    control, reporter = Control(reader), Reporter(descriptor, orders.session)
    try:
        return await work(orders, control, reporter)
    finally:
        await control.close()
        reporter.close()


def _own_input() -> BinaryIO:
    """Take our standard input, and leave an empty one in its place.

    Programs that jobs start would read the supervisor's words there, and would find that it does not block.
    """
    line = os.fdopen(os.dup(0), "rb")
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.close(empty)
    return line


def main() -> None:
    """Entry of `python -m lockwork.worker.child LOOP DESCRIPTOR`; orders come as a line of JSON on standard input."""
    line = _own_input()
    configure()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)  # this process never ends in a way that would write the rest
    # the terminal's Ctrl-C and a service manager's signals are for the supervisor, which then tells us
    # (handled, not ignored: programs that jobs start would inherit that)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1):
        signal.signal(number, lambda _number, _frame: None)
    leave_after(line.fileno(), _LAST, FAILED)
    runner = asyncio.Runner(loop_factory=loops.factory(sys.argv[1]))
    try:
        status = runner.run(_main(line, int(sys.argv[2])))
        leave_within(_LAST, status)
        runner.close()
    except LockworkError as error:
        log.error("%s", one_line(str(error)))
        status = FAILED
    except BaseException:
        # also the SystemExit of what a job has left behind: other jobs shall not fail by that, so none is cancelled
        log.exception("this worker process stops by an error of its own")
        status = FAILED
    logging.shutdown()
    # threads that still run a job would keep the process; their jobs are given back by the supervisor
    os._exit(status)


if __name__ == "__main__":
    main()
