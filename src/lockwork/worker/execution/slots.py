"""Lanes: asyncio tasks that run one job after the other, so that a job costs no task of its own.

A lane that finds more work waiting starts the next lane before it runs its job. So a job that never waits for anything
runs at once, and one that does holds up nobody.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextvars import copy_context
from typing import Any, Protocol

from lockwork import owners
from lockwork.jobs.current import SlotContext, slot
from lockwork.protocol.queues.leases import Leased


class Runner(Protocol):
    """Who runs the jobs that a lane takes up."""

    async def run(self, job: Leased, slot: SlotContext) -> None:
        """Run a job to its outcome."""

    def give_back(self, job: Leased) -> None:
        """Return a job that has not begun."""

    def cancelled(self, job: Leased) -> None:
        """End a job that was cancelled before it began."""


class WorkerSlots:
    """At most `size` jobs at once; free places are taken before jobs are leased for them.

    `free` is less than none when a queue brought more than there were places for.
    """

    def __init__(self, size: int) -> None:
        self.free: int = size
        self.on_start: Callable[[], None] = _nothing
        """Called when jobs are about to run."""
        self._size = size
        self._inbox: deque[tuple[Leased, Runner]] = deque()
        self._idle: list[asyncio.Future[None]] = []
        self._starting = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._slots: set[SlotContext] = set()
        self._busy: set[asyncio.Task[None]] = set()
        self._closed = False
        self._room = asyncio.Event()
        self._room.set()

    async def take(self) -> int:
        """Wait for free places and take them all."""
        while self.free <= 0:
            self._room.clear()
            await self._room.wait()
        return self.take_now()

    def take_now(self) -> int:
        """Take the places that are free now."""
        if self.free <= 0:
            return 0
        taken, self.free = self.free, 0
        return taken

    def take_one(self) -> bool:
        """Take one place, if one is free now."""
        if self.free <= 0:
            return False
        self.free -= 1
        return True

    async def freed(self) -> None:
        """Wait until a place has been put back."""
        self._room.clear()
        await self._room.wait()

    def put_back(self, places: int) -> None:
        """Return places that are not needed (any more)."""
        if places:
            self.free += places
            self._room.set()

    def start(self, jobs: list[Leased], runner: Runner) -> None:
        """Run jobs in places that were taken for them."""
        self._inbox.extend((job, runner) for job in jobs)
        self.on_start()
        if self._inbox and not self._starting:
            self._start_one()

    @property
    def running(self) -> int:
        """Jobs that are running or wait for their lane."""
        return len(self._busy) + len(self._inbox)

    @property
    def full(self) -> bool:
        """Whether there is no place for another job until one ends."""
        return self.running >= self._size

    @property
    def all_begun(self) -> bool:
        """Whether every job that was fetched has its lane."""
        return not self._inbox

    def cancel(self) -> None:
        """Cancel what runs, and give back the jobs that have not begun; there will be no more."""
        self._closed = True
        self.put_back(len(self._inbox))
        while self._inbox:
            # the newest first: each goes to the front of its queue
            job, runner = self._inbox.pop()
            runner.give_back(job)
        for task in self._busy:
            task.cancel()

    def held(self, runner: Runner, queue: str) -> list[Leased]:
        """The jobs of one queue, and its runner, that run or wait for their lane."""
        waiting = [job for job, given in self._inbox if given is runner]
        return waiting + [one.job.leased for one in self._slots if one.job is not None and one.job.queue == queue]

    def stop(self, ids: set[str], runner: Runner, queue: str) -> None:
        """Cancel those jobs, of one queue and its runner."""
        for entry in [entry for entry in self._inbox if entry[1] is runner and entry[0].id in ids]:
            self._inbox.remove(entry)
            self.put_back(1)
            runner.cancelled(entry[0])
        for one in self._slots:
            if one.job is not None and one.job.queue == queue and one.job.id in ids:
                one.stop()

    def slot_of(self, task: asyncio.Task[Any]) -> SlotContext | None:
        """The slot of the lane that this task is; for any thread."""
        return next((one for one in list(self._slots) if one.task is task), None)

    async def close(self) -> None:
        """End all lanes."""
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
        task = asyncio.get_running_loop().create_task(self._lane(), name="lockwork-lane")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _lane(self) -> None:
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
                job, runner = inbox.popleft()
                if inbox and not self._starting:
                    self._start_one()
                self._busy.add(task)
                try:
                    await runner.run(job, mine)
                finally:
                    self._busy.discard(task)
                    owners.renew_task(task)
                    self.put_back(1)
                if copy_context() != pristine:
                    # the job left context variables behind: the next one gets a lane that never saw them
                    if inbox and not self._starting:
                        self._start_one()
                    return
            if self._closed:
                return  # its job has ended anyway, and nothing will cancel this slot again
            idle: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._idle.append(idle)
            await idle


def _nothing() -> None:
    pass
