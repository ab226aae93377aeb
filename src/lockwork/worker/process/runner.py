"""The runner process: runs one job at a time for a worker child, so that a crash in there harms no other job.

It is an executor like the child's own. Only what becomes of a job goes to the child, which settles it.
"""

from __future__ import annotations

import asyncio
import contextlib
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

from lockwork.app.lockwork import Lockwork
from lockwork.errors import LockworkError
from lockwork.failures import one_line
from lockwork.injection.calling import Caller
from lockwork.jobs.current import QueueContext, SlotContext, slot
from lockwork.lifespans import SetUpFailed
from lockwork.logs import Log
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queues.leases import Outcome
from lockwork.worker import environment
from lockwork.worker.environment import configured
from lockwork.worker.execution.executor import Executor
from lockwork.worker.execution.job_log import JobLog
from lockwork.worker.execution.slots import WorkerSlots
from lockwork.worker.execution.threads import ThreadPool
from lockwork.worker.ipc import runner_messages as messages
from lockwork.worker.ipc.messages import Urgency
from lockwork.worker.ipc.runner_messages import Begun, Free, RunnerEnded, RunnerJob, Stop
from lockwork.worker.loading import NotImported, load
from lockwork.worker.process.exit import leave_to_supervisor
from lockwork.worker.process.lifecycle import ready

log: Log = Log("lockwork.worker")

_PR_SET_PDEATHSIG = 1
_TAKE_DOWN = 5.0
"""Seconds to take down what was set up around the jobs."""


class _Runner:
    """Runs the jobs that its worker process sends, one after the other."""

    def __init__(
        self, app: Lockwork, session: str, connection: socket.socket, threads: ThreadPool, caller: Caller
    ) -> None:
        self._app = app
        self._session = session
        self._connection = connection
        self._pid = os.getpid()
        self._loop = asyncio.get_running_loop()
        self._inbox: asyncio.Queue[RunnerJob | None] = asyncio.Queue()
        self._threads = threads
        self._caller = caller
        self._job_log = JobLog()
        self._slots = WorkerSlots(1)  # for batches, which meet in the worker process only
        self._busy = False
        self._slot = SlotContext()
        self._executors: dict[str, Executor] = {}

    async def run(self) -> None:
        """Run jobs until the worker process closes the connection."""
        threading.Thread(target=self._listen, name="lockwork-listen", daemon=True).start()
        while True:
            self._tell(Free())
            received = await self._inbox.get()
            if received is None:
                self._job_log.close()
                return
            self._busy = True
            # a task of its own: what a job leaves behind in context variables is not there for the next
            await self._loop.create_task(self._job(received), name="lockwork-job")

    def add(self, outcome: Outcome) -> None:
        """What becomes of the job: for the executor, this is where outcomes go."""
        self._busy = False  # hooks may still be told of it, but nothing is lost by going
        self._tell(RunnerEnded(outcome))

    async def _job(self, received: RunnerJob) -> None:
        self._tell(Begun())
        slot.set(self._slot)
        self._slot.task = asyncio.current_task()
        await self._executor(received.queue).run(received.job, self._slot)

    def _executor(self, queue: str) -> Executor:
        found = self._executors.get(queue)
        if found is None:
            app = self._app
            keys = QueueKeys(app.config.prefix, queue)
            queue_context = QueueContext(queue, keys, app.runtime, self._session, app.config.max_result)
            found = self._executors[queue] = Executor(
                queue_context, app.registry, app.config, self, self._threads, self._caller, self._slots, self._job_log
            )
        return found

    def _listen(self) -> None:
        # on a thread of its own: a job that blocks the loop must not keep this process when the child is gone
        while (message := messages.read_message(self._connection)) is not None:
            if isinstance(message, RunnerJob):
                self._loop.call_soon_threadsafe(self._inbox.put_nowait, message)
            else:
                self._loop.call_soon_threadsafe(self._stop, message)
        if not self._busy:
            self._loop.call_soon_threadsafe(self._inbox.put_nowait, None)
            threading.Event().wait(_TAKE_DOWN)
        _leave(0)

    def _stop(self, message: Stop) -> None:
        if self._slot.job is not None and self._slot.job.id == message.id:
            self._slot.stop()

    def _tell(self, message: Free | Begun | RunnerEnded) -> None:
        if os.getpid() != self._pid:
            log.error("a job of runner process %d forked a copy of it that did not exit: the copy exits now", self._pid)
            _leave(1)
        with contextlib.suppress(OSError):  # the child is gone: the listener learns it, too
            self._connection.sendall(messages.packed(message))


def _leave(status: int) -> NoReturn:
    """Exit at once, even if threads still run."""
    logging.shutdown()
    os._exit(status)


def _die_with(parent: int) -> None:
    """Where the system can, let it kill this process when the child dies, even if a job never lets Python run."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(0)


class _Never:
    """Nobody tells a runner to end before it has begun: then it is killed."""

    async def reached(self, _urgency: Urgency) -> None:
        await asyncio.Event().wait()


async def _main(connection: socket.socket) -> None:
    connection.set_inheritable(False)
    settings = messages.read_settings(connection)
    if settings is None:
        return  # the child is gone already
    options = settings.options
    with configured(options.log_level, options.log_format):
        app = load(options.app)
    threads = ThreadPool(1)
    async with ready(app, options, threads, _Never()) as caller:
        assert caller is not None
        await _Runner(app, settings.session, connection, threads, caller).run()
    await app.aclose()


def main() -> None:
    """Entry of `python -m lockwork.worker.process.runner LOOP DESCRIPTOR PARENT`; the descriptor brings the orders."""
    loop, descriptor, parent = sys.argv[1:]
    _die_with(int(parent))
    faulthandler.enable()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)  # this process never ends in a way that would write the rest
    leave_to_supervisor()
    try:
        with asyncio.Runner(loop_factory=environment.factory(loop)) as runner:
            runner.run(_main(socket.socket(fileno=int(descriptor))))
        _leave(0)
    except SetUpFailed as error:
        log.error("%s", one_line(str(error)), exc_info=error.__cause__)
    except LockworkError as error:
        log.error("%s", one_line(str(error)), exc_info=error.__cause__ if isinstance(error, NotImported) else None)
    except BaseException:
        log.exception("this runner process stops because of an internal error")
    _leave(1)


if __name__ == "__main__":
    main()
