"""The slots of a worker process: asyncio tasks that run one job after the other, so a job needs no new asyncio task.

If a slot's task finds more jobs in the inbox, it starts the task of the next slot before it runs its job. So a job that
awaits nothing runs at once, and a waiting job does not delay others.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from typing import Any, Protocol

from lockwork.jobs.current import JobContext, SlotContext, slot
from lockwork.protocol.queue.leases import Leased
from lockwork.worker.execution.job_grants import end_job


class Runner(Protocol):
    """Runs the jobs that a slot takes."""

    async def run(self, job: Leased, slot: SlotContext) -> None:
        """Run a job to its outcome."""

    def give_back(self, job: Leased) -> None:
        """Return a job that has not begun."""

    def cancelled(self, job: Leased) -> None:
        """End a job that was cancelled before it began."""


class WorkerSlots:
    """At most `size` concurrent jobs; the fetcher takes slots before it leases jobs for them.

    `free` is negative if a queue delivered more jobs than the fetcher had slots.
    """

    def __init__(self, size: int) -> None:
        self.free: int = size
        self.on_start: Callable[[], None] = _nothing
        """Called when jobs are about to run."""
        self._size = size
        self._share = (size + 1) // 2
        self._inbox: deque[tuple[Leased, Runner]] = deque()
        self._idle: list[asyncio.Future[None]] = []
        self._starting = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._slots: set[SlotContext] = set()
        self._busy: dict[asyncio.Task[None], tuple[Leased, Runner]] = {}
        self._closed = False
        self._room = asyncio.Event()
        self._room.set()

    async def take(self) -> int:
        """Wait for free slots and take them, at most half of all slots."""
        while self.free <= 0:
            self._room.clear()
            await self._room.wait()
        return self.take_now()

    def take_now(self) -> int:
        """Take the slots that are free now, at most half of all: they get new jobs while the others run."""
        count = max(0, min(self.free, self._share))
        self.free -= count
        return count

    def take_one(self) -> bool:
        """Take one slot if one is free; return True on success."""
        if self.free <= 0:
            return False
        self.free -= 1
        return True

    async def idle(self) -> None:
        """Wait until no job runs or waits for a slot's task."""
        while self.running:
            await self.freed()

    async def freed(self) -> None:
        """Wait until a slot is put back."""
        self._room.clear()
        await self._room.wait()

    def put_back(self, count: int) -> None:
        """Put back slots that are no longer needed."""
        if count:
            self.free += count
            self._room.set()

    def start(self, jobs: list[Leased], runner: Runner) -> None:
        """Run jobs in slots that the fetcher took for them."""
        self._inbox.extend((job, runner) for job in jobs)
        self.on_start()
        if self._inbox and not self._starting:
            self._start_one()

    @property
    def running(self) -> int:
        """Number of jobs that run or wait for a slot's task."""
        return len(self._busy) + len(self._inbox)

    @property
    def full(self) -> bool:
        """True if no other job can start until one ends."""
        return self.running >= self._size

    @property
    def all_begun(self) -> bool:
        """True if every fetched job has started."""
        return not self._inbox

    def cancel(self) -> None:
        """Cancel running jobs, and return unstarted ones; no more jobs follow."""
        self._closed = True
        unbegun = self.take_unbegun()
        self.put_back(len(unbegun))
        for job, runner in unbegun:  # the newest first: each returns to the front of its queue
            runner.give_back(job)
        for task in self._busy:
            task.cancel()

    def take_unbegun(self) -> list[tuple[Leased, Runner]]:
        """Take the unstarted jobs, the newest first; safe from any thread.

        One atomic step takes each job, here or in a slot, so no job is both taken and run. Their slots stay taken.
        """
        jobs: list[tuple[Leased, Runner]] = []
        with suppress(IndexError):
            while True:
                jobs.append(self._inbox.pop())
        return jobs

    def held(self, runner: Runner, queue: str) -> list[Leased]:
        """Return the jobs of one queue and its runner that run or wait for a slot."""
        waiting = [job for job, owner in tuple(self._inbox) if owner is runner]
        return waiting + [one.job.leased for one in self._slots if one.job is not None and one.job.queue == queue]

    def leased(self, runner: Runner) -> list[Leased]:
        """Return the jobs of one runner that were fetched and have not ended."""
        return [job for job, owner in (*self._inbox, *self._busy.values()) if owner is runner]

    def jobs(self) -> list[JobContext]:
        """Return the running jobs."""
        held = [job for one in self._slots for job in one.batch]
        held += [one.job for one in self._slots if one.job is not None and not one.batch]
        return [job for job in held if not job.over]

    def stop(self, ids: set[str], runner: Runner, queue: str) -> None:
        """Cancel the jobs `ids` of one queue and its runner."""
        for entry in [entry for entry in tuple(self._inbox) if entry[1] is runner and entry[0].id in ids]:
            try:
                self._inbox.remove(entry)
            except (ValueError, IndexError):
                continue  # the thread that watches the loop took it
            self.put_back(1)
            runner.cancelled(entry[0])
        for one in self._slots:
            if one.job is not None and one.job.queue == queue and one.job.id in ids:
                one.stop()

    def slot_of(self, task: asyncio.Task[Any]) -> SlotContext | None:
        """Return the slot that an asyncio task runs; safe from any thread."""
        return next((one for one in list(self._slots) if one.task is task), None)

    async def close(self) -> None:
        """End the asyncio tasks of all slots."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _start_one(self) -> None:
        self._starting += 1
        while self._idle:
            idle = self._idle.pop()
            if not idle.done():
                idle.set_result(None)
                return
        task = asyncio.get_running_loop().create_task(self._run_jobs(), name="lockwork-slot")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run_jobs(self) -> None:
        mine = SlotContext()
        slot.set(mine)
        pristine = copy_context()
        task = asyncio.current_task()
        assert task is not None
        mine.task = task
        self._slots.add(mine)
        task.add_done_callback(lambda _: self._slots.discard(mine))
        inbox = self._inbox
        while True:
            self._starting -= 1
            while inbox:
                try:
                    job, runner = inbox.popleft()
                except IndexError:
                    break  # the thread that watches the loop took the last one
                if inbox and not self._starting:
                    self._start_one()
                self._busy[task] = job, runner
                try:
                    await runner.run(job, mine)
                finally:
                    del self._busy[task]
                    end_job(task, mine, job)
                    self.put_back(1)
                if copy_context() != pristine:
                    # the job left context variables behind: the next job gets a new asyncio task
                    if inbox and not self._starting:
                        self._start_one()
                    return
            if self._closed:
                return  # its job has already ended, and nothing will cancel this slot again
            idle: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._idle.append(idle)
            await idle


def _nothing() -> None:
    pass
