"""The runner process: runs one job at a time for a worker child, so that a crash in there harms no other job.

It is an executor like the child's own. Only what becomes of a job goes to the child, which settles it.
"""

from __future__ import annotations

import asyncio
import ctypes
import faulthandler
import io
import logging
import os
import signal
import socket
import sys
import threading
from typing import NoReturn

from lockwork.app import Lockwork
from lockwork.errors import LockworkError
from lockwork.injection.calling import Caller
from lockwork.injection.scopes import WorkerScope
from lockwork.protocol.jobs import Outcome
from lockwork.protocol.keys import QueueKeys
from lockwork.worker import frames, loops
from lockwork.worker.calls import limited
from lockwork.worker.context import Desk, Slot, slot
from lockwork.worker.executor import Executor
from lockwork.worker.frames import Ended, Free, Order, Stop
from lockwork.worker.lanes import Lanes
from lockwork.worker.load import load
from lockwork.worker.logs import configure
from lockwork.worker.threads import Threads

log: logging.Logger = logging.getLogger("lockwork.worker")

_PR_SET_PDEATHSIG = 1


class _Runner:
    """Runs what it is told to, one after the other."""

    def __init__(self, app: Lockwork, session: str, connection: socket.socket) -> None:
        self._app = app
        self._session = session
        self._connection = connection
        self._loop = asyncio.get_running_loop()
        self._orders: asyncio.Queue[Order] = asyncio.Queue()
        self._threads = Threads(1)
        self._slot = Slot()
        self._lanes = Lanes(1)
        self._executors: dict[str, Executor] = {}

    async def run(self) -> None:
        """Run jobs for ever; the end comes with the end of the child, and takes nothing down."""
        threading.Thread(target=self._listen, name="lockwork-listen", daemon=True).start()
        scope = WorkerScope(self._threads)
        self._caller = Caller(self._threads, scope, limited)
        async with self._app.lifespans.around():
            for task in self._app.registry.of(self._app.registry.queues()):
                if task.options_in_force.in_process:
                    await scope.provide(task.injection.plan().worker)
            await self._serve()

    async def _serve(self) -> None:
        while True:
            self._tell(Free())
            order = await self._orders.get()
            # a task of its own: what a job leaves behind in context variables is not there for the next
            await self._loop.create_task(self._job(order), name="lockwork-job")

    def add(self, outcome: Outcome) -> None:
        """What becomes of the job: for the executor, this is where outcomes go."""
        self._tell(Ended(outcome))

    async def _job(self, order: Order) -> None:
        slot.set(self._slot)
        self._slot.task = asyncio.current_task()
        await self._executor(order.queue).run(order.job, self._slot)

    def _executor(self, queue: str) -> Executor:
        found = self._executors.get(queue)
        if found is None:
            app = self._app
            keys = QueueKeys(app.config.prefix, queue)
            desk = Desk(queue, keys, app.runtime, self._session, app.config.max_result)
            found = self._executors[queue] = Executor(
                desk, app.registry, app.config, self, self._threads, self._caller, self._lanes
            )
        return found

    def _listen(self) -> None:
        # on a thread of its own: a job that blocks the loop must not keep this process when the child is gone
        while (message := frames.order(self._connection)) is not None:
            if isinstance(message, Order):
                self._loop.call_soon_threadsafe(self._orders.put_nowait, message)
            else:
                self._loop.call_soon_threadsafe(self._stop, message)
        _leave(0)

    def _stop(self, message: Stop) -> None:
        if self._slot.job is not None and self._slot.job.id == message.id:
            self._slot.stop()

    def _tell(self, message: Free | Ended) -> None:
        try:
            self._connection.sendall(frames.packed(message))
        except OSError:
            _leave(0)


def _leave(status: int) -> NoReturn:
    """Go, whatever threads still run."""
    logging.shutdown()
    os._exit(status)


def _die_with(parent: int) -> None:
    """Where the system can, let it kill this process when the child dies, even if a job never lets Python run."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(0)


async def _main(app: str, session: str, descriptor: int) -> None:
    os.set_inheritable(descriptor, False)
    await _Runner(load(app), session, socket.socket(fileno=descriptor)).run()


def main() -> None:
    """Entry of `python -m lockwork.worker.runner LOOP DESCRIPTOR PARENT SESSION APP`."""
    loop, descriptor, parent, session, app = sys.argv[1:]
    _die_with(int(parent))
    configure()
    faulthandler.enable()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)  # this process never ends in a way that would write the rest
    # as in the child: signals are for the supervisor
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1):
        signal.signal(number, lambda _number, _frame: None)
    try:
        with asyncio.Runner(loop_factory=loops.factory(loop)) as runner:
            runner.run(_main(app, session, int(descriptor)))
    except LockworkError as error:
        log.error("%s", error)
    except Exception:
        log.exception("this runner process stops by an error of its own")
    _leave(1)


if __name__ == "__main__":
    main()
