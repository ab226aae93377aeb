"""The child process: runs jobs under a session that its supervisor keeps alive."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sys

import msgspec

from lockwork.app import Lockwork
from lockwork.errors import LockworkError
from lockwork.injection.calling import Caller
from lockwork.lifespans import SetUpFailed
from lockwork.protocol.jobs import SessionOver
from lockwork.protocol.keys import QueueKeys
from lockwork.worker.executor import Executor
from lockwork.worker.fetcher import Fetcher
from lockwork.worker.lanes import Lanes
from lockwork.worker.load import load
from lockwork.worker.logs import configure
from lockwork.worker.options import STOP, ChildOrders
from lockwork.worker.readiness import ready
from lockwork.worker.settler import Settler
from lockwork.worker.threads import Threads

log: logging.Logger = logging.getLogger("lockwork.worker")

OK, FAILED, SESSION_OVER = 0, 1, 3
NOT_SET_UP = 4
"""Exit status of a process that never came to run jobs, because what it needs first failed."""


async def work(orders: ChildOrders, control: asyncio.StreamReader) -> int:
    """Set up, run jobs until told to stop, or the supervisor is gone, or the session is over, and take down."""
    options = orders.options
    app = load(options.app)
    told = asyncio.create_task(control.readline())
    threads = Threads(options.concurrency)
    status: int | None = None
    try:
        async with ready(app, options, threads, told) as caller:
            if caller is None:
                status = OK  # told to stop before there was anything to stop
            else:
                status = await _run(app, orders, control, told, threads, caller)
    except SetUpFailed as error:
        log.error("%s", error, exc_info=error.__cause__)
        status = NOT_SET_UP
    except Exception:
        if status is None:
            raise
        log.exception("the jobs of this worker process are over, but taking down what was set up for them failed")
    told.cancel()
    await app.aclose()
    threads.close()
    return status


async def _run(
    app: Lockwork,
    orders: ChildOrders,
    control: asyncio.StreamReader,
    told: asyncio.Task[bytes],
    threads: Threads,
    caller: Caller,
) -> int:
    options = orders.options
    driver = await app.runtime.driver()
    window_ms = int(app.config.result_ttl * 1000)
    lanes = Lanes(options.concurrency)
    fetchers: list[Fetcher] = []
    executors: list[tuple[Executor, Settler]] = []
    for name in options.queues:
        keys = QueueKeys(app.config.prefix, name)
        settler = Settler(driver, keys, orders.session, window_ms)
        executor = Executor(name, app.registry, app.config, settler, threads, caller)
        executors.append((executor, settler))
        fetchers.append(Fetcher(driver, keys, orders.session, app.runtime.channel, lanes, executor))
    fetching = [asyncio.create_task(fetcher.run(), name="lockwork-fetch") for fetcher in fetchers]
    done, _ = await asyncio.wait({told, *fetching}, return_when=asyncio.FIRST_COMPLETED)
    status = OK
    if told not in done:
        problems = [task.exception() for task in fetching if task.done()]
        status = SESSION_OVER if any(isinstance(problem, SessionOver) for problem in problems) else FAILED
        log.error("this worker process stops: %s", problems)
    elif told.result() != STOP:
        log.warning("the supervisor is gone: this worker process gives its jobs back and stops")
    for fetcher in fetchers:
        fetcher.stop()
    await asyncio.gather(*fetching, return_exceptions=True)
    if told in done and told.result() == STOP:
        # a second line, or the end of the input, means: at once
        hurry = asyncio.create_task(control.readline())
        idle = asyncio.create_task(_until_idle(lanes))
        await asyncio.wait({hurry, idle}, timeout=options.grace, return_when=asyncio.FIRST_COMPLETED)
        hurry.cancel()
        idle.cancel()
    for executor, _settler in executors:
        executor.giving_back = True
    lanes.cancel()
    await lanes.close()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(5):
            for _executor, settler in executors:
                await settler.drained()
    return status


async def _until_idle(lanes: Lanes) -> None:
    while lanes.running:
        await lanes.freed()


async def _main() -> int:
    loop = asyncio.get_running_loop()
    control = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(control), sys.stdin)
    orders = msgspec.json.decode(await control.readline(), type=ChildOrders)
    return await work(orders, control)


def main() -> None:
    """Entry of `python -m lockwork.worker.child`; orders come as one line of JSON on standard input."""
    configure()
    # the terminal's Ctrl-C and a service manager's signals are for the supervisor, which then tells us
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        import uvloop  # noqa: PLC0415 - an extra
    except ImportError:
        factory = None
    else:
        factory = uvloop.new_event_loop
    try:
        with asyncio.Runner(loop_factory=factory) as runner:
            status = runner.run(_main())
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
