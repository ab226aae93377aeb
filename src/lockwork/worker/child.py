"""The child process: runs jobs under a session that its supervisor keeps alive."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sys
from collections.abc import Coroutine
from random import random
from typing import Any

import msgspec

from lockwork.app import Lockwork
from lockwork.errors import LockworkError
from lockwork.injection.calling import Caller
from lockwork.lifespans import SetUpFailed
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
from lockwork.worker.load import load
from lockwork.worker.logs import configure
from lockwork.worker.options import READY, WORN, ChildOrders, WorkerOptions
from lockwork.worker.overruns import Limits
from lockwork.worker.processes import Processes
from lockwork.worker.readiness import ready
from lockwork.worker.reports import Reporter
from lockwork.worker.settler import Settler
from lockwork.worker.source import Source
from lockwork.worker.threads import Threads

log: logging.Logger = logging.getLogger("lockwork.worker")

OK, FAILED, SESSION_OVER = 0, 1, 3
NOT_SET_UP = 4
"""Exit status of a process that never came to run jobs, because what it needs first failed."""


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
    ) -> None:
        options = orders.options
        window_ms = int(app.config.result_ttl * 1000)
        self.lanes = Lanes(options.concurrency)
        self.processes = Processes(orders)
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
            sources.append(Source(name, keys, executor, weight, family, random()))  # noqa: S311 - no secret
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

    async def settled(self) -> None:
        """Wait until all outcomes are on the server."""
        for settler in self.settlers:
            await settler.drained()

    async def idle(self) -> None:
        """Wait until nothing runs."""
        while self.lanes.running:
            await self.lanes.freed()

    async def give_up(self) -> None:
        """End what still runs, and give it back."""
        for listening in self.cancelling:
            listening.cancel()
        await asyncio.gather(*self.cancelling, return_exceptions=True)
        for executor in self.executors:
            executor.giving_back = True
        self.lanes.cancel()
        await self.lanes.close()
        await self.processes.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(5):
                await self.settled()


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
                status = OK  # told to end before there was anything to end
            else:
                parts = _Work(app, await app.runtime.driver(), orders, reporter, threads, caller)
                status = await _run(parts, orders, control, reporter)
    except SetUpFailed as error:
        log.error("%s", error, exc_info=error.__cause__)
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
    fetching = asyncio.create_task(parts.fetcher.run(), name="lockwork-fetch")
    reporter.tell(READY)
    await _first(fetching, control.reached(Urgency.QUIET))
    status = _status(fetching)
    parts.fetcher.stop()
    await asyncio.gather(fetching, return_exceptions=True)
    if status == OK:
        if orders.options.ends:
            control.raise_to(Urgency.RETIRE)
        await control.reached(Urgency.RETIRE)
        await _finish(parts, control, orders.options.grace)
    if control.gone:
        log.warning("the supervisor is gone: this worker process gives its jobs back and stops")
    await parts.give_up()
    return status


def _status(fetching: asyncio.Task[None]) -> int:
    problem = fetching.exception() if fetching.done() else None
    if problem is None:
        return OK
    log.error("this worker process stops: %r", problem)
    return SESSION_OVER if isinstance(problem, SessionOver) else FAILED


async def _finish(parts: _Work, control: Control, grace: float) -> None:
    """Let running jobs end, as far as they may."""
    idle = asyncio.create_task(parts.idle())
    try:
        await _first(idle, control.reached(Urgency.STOP))
        if not idle.done():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(grace):
                    await _first(idle, control.reached(Urgency.NOW))
    finally:
        idle.cancel()


async def _first(task: asyncio.Task[None], other: Coroutine[Any, Any, None]) -> None:
    """Wait for either; only the other is ended."""
    rival = asyncio.create_task(other)
    try:
        await asyncio.wait({task, rival}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        rival.cancel()


async def _main(descriptor: int) -> int:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    orders = msgspec.json.decode(await reader.readline(), type=ChildOrders)
    control, reporter = Control(reader), Reporter(descriptor, orders.session)
    try:
        return await work(orders, control, reporter)
    finally:
        await control.close()
        reporter.close()


def main() -> None:
    """Entry of `python -m lockwork.worker.child LOOP DESCRIPTOR`; orders come as a line of JSON on standard input."""
    configure()
    # the terminal's Ctrl-C and a service manager's signals are for the supervisor, which then tells us
    # (handled, not ignored: programs that jobs start would inherit that)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1):
        signal.signal(number, lambda _number, _frame: None)
    try:
        with asyncio.Runner(loop_factory=loops.factory(sys.argv[1])) as runner:
            status = runner.run(_main(int(sys.argv[2])))
    except LockworkError as error:
        log.error("%s", error)
        status = FAILED
    except Exception:
        log.exception("this worker process stops by an error of its own")
        status = FAILED
    logging.shutdown()
    # threads that still run a job would keep the process; their jobs are given back by the supervisor
    os._exit(status)


if __name__ == "__main__":
    main()
