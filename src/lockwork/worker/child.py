"""The child process: runs jobs under a session that its supervisor keeps alive."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sys

import msgspec

from lockwork.errors import LockworkError
from lockwork.protocol.jobs import SessionOver
from lockwork.protocol.keys import QueueKeys, channel
from lockwork.worker.canceller import cancel
from lockwork.worker.context import Desk
from lockwork.worker.executor import Executor
from lockwork.worker.fetcher import Fetcher
from lockwork.worker.lanes import Lanes
from lockwork.worker.load import load
from lockwork.worker.logs import configure
from lockwork.worker.options import STOP, ChildOrders
from lockwork.worker.settler import Settler
from lockwork.worker.threads import Threads

log: logging.Logger = logging.getLogger("lockwork.worker")

OK, FAILED, SESSION_OVER = 0, 1, 3


async def work(orders: ChildOrders, control: asyncio.StreamReader) -> int:
    """Run jobs until told to stop, until the supervisor is gone, or until the session is over."""
    options = orders.options
    app = load(options.app)
    driver = await app.runtime.driver()
    window_ms = int(app.config.result_ttl * 1000)
    lanes, threads = Lanes(options.concurrency), Threads(options.concurrency)
    fetchers: list[Fetcher] = []
    executors: list[tuple[Executor, Settler]] = []
    cancelling: list[asyncio.Task[None]] = []
    app.runtime.engine.also_hear(channel(app.config.prefix, orders.session))
    for name in options.queues:
        keys = QueueKeys(app.config.prefix, name)
        settler = Settler(driver, keys, orders.session, window_ms)
        desk = Desk(name, keys, app.runtime, orders.session, app.config.max_result)
        executor = Executor(desk, app.registry, app.config, settler, threads)
        executors.append((executor, settler))
        fetchers.append(Fetcher(driver, keys, orders.session, app.runtime.channel, lanes, executor, window_ms))
        cancelling.append(asyncio.create_task(cancel(driver, desk, lanes, executor), name="lockwork-cancel"))
    fetching = [asyncio.create_task(fetcher.run(), name="lockwork-fetch") for fetcher in fetchers]
    told = asyncio.create_task(control.readline())
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
    for listening in cancelling:
        listening.cancel()
    await asyncio.gather(*cancelling, return_exceptions=True)
    for executor, _settler in executors:
        executor.giving_back = True
    lanes.cancel()
    await lanes.close()
    told.cancel()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(5):
            for _executor, settler in executors:
                await settler.drained()
    await app.aclose()
    threads.close()
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
