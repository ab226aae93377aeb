"""Who uses a queue: producers, worker machines of a supervisor and its children, and callers that wait."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from lockwork.errors import LockworkError
from lockwork.protocol import job_control as control
from lockwork.protocol import jobs
from lockwork.protocol.effects import Clock, Park
from lockwork.protocol.jobs import Leased, NewJob, Outcome, SessionOver
from lockwork.protocol.keys import QueueKeys
from simulation.process import Actor, Cancelled, Process, Sleep, Task
from simulation.world import World

LEASE = 2.0
DELIVERIES = 3
WINDOW_MS = 3_600_000
_PLACES = 3


@dataclass
class Child:
    """A worker process and its session."""

    process: Process
    session: str
    over: bool = False
    held: dict[str, Leased] = field(default_factory=dict)
    stopping: set[str] = field(default_factory=set)
    """Jobs that its worker was told to cancel."""


@dataclass
class Plant:
    """The queue's users."""

    world: World
    queue: QueueKeys
    sessions: list[str] = field(default_factory=list)
    gone: set[str] = field(default_factory=set)
    """Sessions whose process has ended."""
    acknowledged: list[str] = field(default_factory=list)
    told: dict[str, str] = field(default_factory=dict)
    """What callers were told of a job's end."""
    numbers: itertools.count[int] = field(default_factory=itertools.count)

    # -- producers --------------------------------------------------------------------------------------------------

    def producer(self, rounds: int) -> Actor:
        """Enqueue a few jobs at a time, now or later."""
        random = self.world.random
        for _ in range(rounds):
            with suppress(LockworkError, Cancelled):
                yield Sleep(random.uniform(0, 3))
                new = [self._job() for _ in range(random.randint(1, 4))]
                if random.random() < 0.25:
                    limit = random.randint(1, 5000)
                    moment = -(self.world.server_now // 1000 + limit)
                    yield from jobs.push_until(self.queue, new, random.choice([limit, moment]))
                else:
                    yield from jobs.push(self.queue, new)
                self.acknowledged += [job.id for job in new]

    def caller(self, task: Task) -> Actor:
        """Wait for the outcome of some jobs."""
        random = self.world.random
        with suppress(LockworkError, Cancelled):
            for _ in range(3):
                yield Sleep(random.uniform(0, 5))
                if self.acknowledged:
                    id, timeout = random.choice(self.acknowledged), random.uniform(0, 10)
                    found = yield from jobs.outcome(self.queue, id, task.process.channel, timeout)
                    if found.state in ("ended", "dead"):
                        self.told[id] = found.state

    def handler(self) -> Actor:
        """Cancel, move and revive jobs."""
        random = self.world.random
        for _ in range(random.choice([0, 3, 8])):
            with suppress(LockworkError, Cancelled):
                yield Sleep(random.uniform(0, 2))
                if self.acknowledged:
                    id = random.choice(self.acknowledged)
                    wait = random.choice([0, 1, 500, 3000])
                    what = random.choice("ccmr")
                    if what == "c":
                        yield from control.cancel(self.queue, id, "sim", WINDOW_MS)
                    elif what == "m":
                        yield from control.reschedule(self.queue, id, wait)
                    else:
                        yield from control.revive(self.queue, id, wait)

    def _job(self) -> NewJob:
        random = self.world.random
        delay = random.choice([0, 0, 0, random.randint(1, 4000)])
        record = jobs.head(random.randint(0, 2), DELIVERIES) + b"body"
        return NewJob(f"j{next(self.numbers)}", record, delay)

    # -- a machine: a supervisor, and children that it watches --------------------------------------------------------

    def machine(self, name: str, children: int) -> list[Process]:
        """Start a supervisor with children; returns its process, and those of the first children."""
        supervisor = self.world.process(name)
        crew: list[Child] = []
        self.world.start(supervisor, "beat", lambda _: self._beat(crew), background=True)
        for _ in range(children):
            self.world.start(supervisor, "watch", lambda _: self._watch(supervisor, crew), background=True)
        return [supervisor]

    def end(self, victim: Process) -> None:
        """Kill a child, or a supervisor and its children with it."""
        for process in self.world.processes:
            if process is victim or process.name.startswith(f"{victim.name}/"):
                self.world.kill(process)
                self.gone.add(process.name)

    def _beat(self, crew: list[Child]) -> Actor:
        """Beat as the heartbeat thread does: keep the children's sessions, and find dead ones elsewhere."""
        last = steady = yield Clock()
        while True:
            pause = LEASE / 3
            try:
                mine = {child.session: False for child in crew}
                answer = yield from jobs.beat(self.queue, mine, int(LEASE * 1000), patience=0.5)
                now = yield Clock()
                if now - last > LEASE:
                    steady = now
                last = now
                for child in crew:
                    if not answer.alive.get(child.session, True):
                        child.over = True
                if answer.next_deadline is not None:
                    patience = steady + LEASE - now
                    if answer.overdue is not None and patience <= 0:
                        yield from jobs.recover(self.queue, answer.overdue, WINDOW_MS, gone=False)
                        pause = 0.0
                    else:
                        pause = min(pause, max(answer.next_deadline, patience, 0.01))
            except LockworkError:
                pause = 0.5
            yield Sleep(pause)

    def _watch(self, supervisor: Process, crew: list[Child]) -> Actor:
        """Run one child after the other; a dead one's jobs are given back at once."""
        while True:
            session = jobs.session_name(supervisor.name, 1, f"s{next(self.numbers)}")
            self.sessions.append(session)
            try:
                yield from jobs.beat(self.queue, {session: True}, int(LEASE * 1000), patience=5.0)
            except LockworkError:
                # it may have joined all the same; nobody works there, and its lease runs out
                self.gone.add(session)
                yield Sleep(0.5)
                continue
            child = Child(self.world.process(session), session)
            crew.append(child)
            self._staff(child)
            while child.process.alive and supervisor.alive and not child.over:
                yield Sleep(0.1)
            if child.process.alive:
                self.world.kill(child.process)
            self.gone.add(session)
            crew.remove(child)
            while True:
                try:
                    yield from jobs.recover(self.queue, session, WINDOW_MS, gone=True)
                    break
                except LockworkError:
                    yield Sleep(0.2)

    # -- a child: a fetcher, and a task for each job ------------------------------------------------------------------

    def _staff(self, child: Child) -> None:
        free = [_PLACES]
        self.world.start(child.process, "fetch", lambda task: self._fetch(child, free), background=True)
        self.world.start(child.process, "cancel", lambda task: self._listen(child), background=True)

    def _listen(self, child: Child) -> Actor:
        """Hear which jobs are to be cancelled, as a worker does."""
        pause = jobs.RECHECK
        while True:
            heard = yield from control.hear(self.queue, pause)
            asked: set[str] = set()
            with suppress(LockworkError):
                if child.held:
                    asked = yield from control.asked(self.queue, child.session, list(child.held.values()))
            child.stopping |= asked & child.held.keys()
            pause = control.SOON if heard and heard not in asked else min(jobs.RECHECK, pause * 2)

    def _fetch(self, child: Child, free: list[int]) -> Actor:
        for request in itertools.count():
            while not free[0]:
                yield Park("places", (yield Clock()) + 3600)
            again = False
            while True:
                try:
                    batch = yield from jobs.reserve(
                        self.queue, child.session, free[0], f"{request:x}", child.process.channel, again=again
                    )
                    break
                except SessionOver:
                    child.over = True
                    return
                except LockworkError:
                    again = True
                    yield Sleep(0.2)
            for job in batch.jobs:
                free[0] -= 1
                child.held[job.id] = job
                self.world.start(child.process, job.id, self._runner(child, job, free), background=True)
            if not batch.jobs:
                yield from jobs.idle(self.queue, batch)

    def _runner(self, child: Child, job: Leased, free: list[int]) -> Callable[[Task], Actor]:
        return lambda _: self._run(child, job, free)

    def _run(self, child: Child, job: Leased, free: list[int]) -> Actor:
        random = self.world.random
        yield Sleep(random.choice([0.0, random.uniform(0, 0.1), random.uniform(0, 2)]))
        if random.random() < 0.3:
            with suppress(LockworkError):
                step = random.choice(["", "one", "two"])
                yield from control.note(self.queue, child.session, job, step, b"1", 1000)
                yield Sleep(random.uniform(0, 0.5))
        ended = Outcome(job.id, job.token, "c") if job.id in child.stopping else self._outcome(job)
        while True:
            try:
                yield from jobs.settle(self.queue, child.session, [ended], WINDOW_MS)
                break
            except LockworkError:
                yield Sleep(0.2)
        free[0] += 1
        child.held.pop(job.id, None)
        child.stopping.discard(job.id)
        child.process.mail.deliver("places", "one")

    def _outcome(self, job: Leased) -> Outcome:
        random = self.world.random
        draw = random.random()
        if draw < 0.6:
            return Outcome(job.id, job.token, "s", b"done")
        if draw < 0.65:
            return Outcome(job.id, job.token, "g")
        if draw < 0.7:
            return Outcome(job.id, job.token, "z", b"", random.choice([0, 1, 500, 2000]))
        if draw < 0.95 and job.attempt < DELIVERIES:
            return Outcome(job.id, job.token, "r", b"failed", random.choice([0, 1, 500, 2000]))
        return Outcome(job.id, job.token, "d", b"failed")
