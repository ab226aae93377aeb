"""Watches the event loop while jobs run: logs a job that blocks it, and returns the jobs that cannot begin."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
import traceback
from collections.abc import Callable

from lockwork import words
from lockwork.failures import own_frame
from lockwork.jobs.current import SlotContext, slot
from lockwork.logs import Log
from lockwork.worker.execution.slots import WorkerSlots
from lockwork.worker.execution.timeouts import shown_jobs

log: Log = Log("lockwork.worker")

LIMIT = 1.0
"""Seconds that a job may block the event loop before it is logged."""
_PULSE = 0.25
"""Seconds between two beats of the loop, and between two checks by the thread."""


class LoopWatch:
    """Detects a blocked loop: a timer beats on the running loop while jobs run, and a thread checks the beats."""

    def __init__(self, slots: WorkerSlots) -> None:
        self.on_block: Callable[[Callable[[], bool]], None] = _nothing
        """Called on the thread when a job has blocked the loop for LIMIT seconds.

        Its argument pauses for a moment, and returns True if the loop is still blocked.
        """
        self._slots = slots
        self._loop = asyncio.get_running_loop()
        self._loop_thread = threading.get_ident()
        self._timer: asyncio.TimerHandle | None = None
        self._beaten = 0.0
        self._named = 0.0
        """The last beat before a logged block."""
        self._watching = threading.Event()
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def begin(self) -> None:
        """Start watching, because jobs are about to run."""
        if self._timer is None and not self._closed.is_set():
            self._beat()
            if self._thread is None:
                self._thread = threading.Thread(target=self._main, name="lockwork-loop-watch", daemon=True)
                self._thread.start()

    def close(self) -> None:
        """Stop watching."""
        self._closed.set()
        self._watching.set()
        if self._timer is not None:
            self._timer.cancel()
        if self._thread is not None:
            self._thread.join()

    def _beat(self) -> None:
        now = time.monotonic()
        if self._named and self._named == self._beaten:
            log.info("the event loop continues after a block of %s", words.age(now - self._beaten))
        self._beaten = now
        if self._slots.running:
            self._timer = self._loop.call_later(_PULSE, self._beat)
            self._watching.set()
        else:
            self._timer = None
            self._watching.clear()

    def _main(self) -> None:
        while not self._closed.is_set():
            self._watching.wait()
            began, worked = time.monotonic(), time.process_time()
            self._closed.wait(_PULSE)
            slept = time.monotonic() - began
            # the thread itself was delayed: native code kept the GIL, or the whole process was stopped
            stopped = slept > 2 * _PULSE and time.process_time() - worked < slept / 2
            beaten = self._beaten
            late = time.monotonic() - beaten > LIMIT + _PULSE
            if late and not stopped and beaten != self._named and self._watching.is_set() and not self._closed.is_set():
                self._named = beaten
                self._name()
                self.on_block(lambda: not self._closed.wait(_PULSE) and self._beaten == self._named)

    def _name(self) -> None:
        frame = sys._current_frames().get(self._loop_thread)  # noqa: SLF001 - documented, for debuggers
        place = own_frame(traceback.extract_stack(frame)) if frame is not None else ""
        log.warning(
            "%s has blocked the event loop for more than %g s%s: other jobs of this process cannot continue; await "
            "slow operations, or define the task with a plain def",
            self._culprit(), LIMIT, f" at {place}" if place else "",
        )  # fmt: skip

    def _culprit(self) -> str:
        task = asyncio.current_task(self._loop)
        context = None if task is None else self._slots.slot_of(task)
        if context is None and task is not None and sys.version_info >= (3, 12):
            context = task.get_context().get(slot)  # an asyncio task that a job started, or a batch
        return "a task that a job has started" if context is None else _jobs_label(context)


def _nothing(_: Callable[[], bool]) -> None:
    pass


def _jobs_label(context: SlotContext) -> str:
    jobs = context.batch or ([] if context.job is None else [context.job])
    return shown_jobs(jobs) if jobs else "what follows a job"
