"""The runner process: runs one job at a time for a worker child, so that a crash harms no other job.

It contains an executor like the child's. The runner sends only the outcome to the child, which settles it.
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
from lockwork.protocol.queue.leases import Outcome
from lockwork.worker import environment
from lockwork.worker.environment import configured
from lockwork.worker.execution.contexts import ExecutionContext
from lockwork.worker.execution.executor import Executor
from lockwork.worker.execution.forked_copies import watch_for_copies
from lockwork.worker.execution.job_grants import end_job
from lockwork.worker.execution.job_log import JobLog
from lockwork.worker.execution.load import awaited
from lockwork.worker.execution.slots import WorkerSlots
from lockwork.worker.execution.threads import ThreadPool
from lockwork.worker.ipc import runner_messages as messages
from lockwork.worker.ipc.messages import Urgency
from lockwork.worker.ipc.runner_messages import Answer, Begun, Free, Overran, RunnerEnded, RunnerJob, RunnerWaits, Stop
from lockwork.worker.loading import NotImported, load
from lockwork.worker.process.exit import leave_to_supervisor
from lockwork.worker.process.lifecycle import ready
from lockwork.worker.settings import ProcessSettings

log: Log = Log("lockwork.worker")

_PR_SET_PDEATHSIG = 1
_TAKE_DOWN = 5.0
"""Time limit in seconds for tearing down the context of the jobs."""
_WAITS = 1.0
"""Seconds until the runner reports a wait for a result."""


class _Runner:
    """Runs the jobs that its worker process sends, one after the other."""

    def __init__(
        self, app: Lockwork, session: str, connection: socket.socket, threads: ThreadPool, caller: Caller
    ) -> None:
        self._app = app
        self._session = session
        slots = WorkerSlots(1)  # only for batches, which form in the worker process
        self._context = ExecutionContext(app.registry, app.config, threads, caller, slots, JobLog())
        self._connection = connection
        self._loop = asyncio.get_running_loop()
        self._inbox: asyncio.Queue[RunnerJob | None] = asyncio.Queue()
        self._busy = False
        self._slot = SlotContext()
        self._executors: dict[str, Executor] = {}
        self._waits_timer: asyncio.TimerHandle | None = None

    async def run(self) -> None:
        """Run jobs until the worker process closes the connection."""
        threading.Thread(target=self._listen, name="lockwork-listen", daemon=True).start()
        while True:
            self._tell(Free())
            received = await self._inbox.get()
            if received is None:
                self._context.job_log.close()
                return
            self._busy = True
            # a separate asyncio task: the next job must not see this job's context variables
            await self._loop.create_task(self._job(received), name="lockwork-job")

    def add(self, outcome: Outcome) -> None:
        """Send the outcome of the job; the executor calls this."""
        self._busy = False  # hooks may still have to run, but an exit now loses no job
        self._tell(RunnerEnded(outcome))

    async def confirmed(self, id: str) -> bool:  # noqa: ARG002 - the executor calls it
        """Return False: the worker process settles the outcome."""
        return False

    async def _job(self, received: RunnerJob) -> None:
        self._tell(Begun())
        slot.set(self._slot)
        self._slot.task = task = asyncio.current_task()
        assert task is not None
        try:
            await self._executor(received.queue).run(received.job, self._slot)
        finally:
            end_job(task, self._slot, received.job)

    def _executor(self, queue: str) -> Executor:
        if queue not in self._executors:
            queue_context = QueueContext(
                queue,
                QueueKeys(self._app.config.prefix, queue),
                self._app.runtime,
                self._session,
                self._app.config.max_result,
                lambda _task: self._tell(Overran()),
                lambda: self._loop.call_soon_threadsafe(self._report_waits_soon),
            )
            self._executors[queue] = Executor(queue_context, self._context, self)
        return self._executors[queue]

    def _report_waits_soon(self) -> None:
        """Report the results that the job waits for, except short waits."""
        if self._waits_timer is None:
            self._waits_timer = self._loop.call_later(_WAITS, self._report_waits)

    def _report_waits(self) -> None:
        self._waits_timer = None
        if self._busy and self._slot.job is not None:
            self._tell(RunnerWaits(awaited(self._slot.job)))

    def _listen(self) -> None:
        # on a thread: a job that blocks the loop must not keep this process alive after the child is gone
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

    def _tell(self, message: Answer) -> None:
        with contextlib.suppress(OSError):  # the child is gone: the listener notices it, too
            self._connection.sendall(messages.packed(message))


def _leave(status: int) -> NoReturn:
    """Exit at once, even if threads still run."""
    logging.shutdown()
    os._exit(status)


def _die_with(parent: int) -> None:
    """On Linux, have the kernel kill this process when the child dies, even if a job blocks the interpreter."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(0)


class _Never:
    """Never interrupts: a runner that should end before it has begun is killed."""

    async def reached(self, _urgency: Urgency) -> None:
        await asyncio.Event().wait()


async def _main(app: Lockwork, settings: ProcessSettings, connection: socket.socket) -> None:
    watch_for_copies()
    app.registry.complete(settings.options.queues)
    threads = ThreadPool(1, app.registry.context.call_contexts)
    async with ready(app, settings.options, threads, _Never()) as caller:
        assert caller is not None
        await _Runner(app, settings.session, connection, threads, caller).run()
    await app.aclose()


def main() -> None:
    """Entry of `python -m lockwork.worker.process.runner LOOP DESCRIPTOR PARENT`; orders come from the descriptor."""
    loop, descriptor, parent = sys.argv[1:]
    _die_with(int(parent))
    faulthandler.enable()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)  # os._exit does not flush buffers
    leave_to_supervisor()
    connection = socket.socket(fileno=int(descriptor))
    connection.set_inheritable(False)
    try:
        settings = messages.read_settings(connection)
        if settings is None:
            _leave(0)  # the child is already gone
        with configured(settings.options.log_level, settings.options.log_format):
            app = load(settings.options.app, settings.options.discover)
        with asyncio.Runner(loop_factory=environment.factory(loop)) as runner:
            runner.run(_main(app, settings, connection))
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
