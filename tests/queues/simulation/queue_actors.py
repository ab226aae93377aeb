"""Workers of a queue: machines with a supervisor and its children. queue_users has the producers and callers."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from lockwork.errors import LockworkError
from lockwork.protocol.effects import Clock, Effect, Park
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.messages import Hints
from lockwork.protocol.queue import job_control as control
from lockwork.protocol.queue import leases, record_header
from lockwork.protocol.queue import status as queue_status
from lockwork.protocol.queue.leases import Batch, Leased, Outcome, SessionOver
from lockwork.protocol.server_clock import Peers
from lockwork.worker.execution.deliveries import Deliveries
from queues.simulation.queue_view import Made
from simulator.process import Actor, Process, Sleep, Task
from simulator.world import Broken, World

LEASE = 2.0
WINDOW_MS = 3_600_000


@dataclass
class Child:
    """A worker process and its session."""

    process: Process
    session: str
    began: int
    """True time of its start, us."""
    free: int
    """Number of free places for jobs."""
    supervisor: str
    isolates: bool = False
    """True for an isolation process, which runs only suspects, one at a time."""
    over: bool = False
    lost: bool = False
    """True if the last heartbeat found no session of it on the server."""
    retired: bool = False
    """True if it ends on purpose. Its deliveries then do not count, except for jobs with a cap of deliveries."""
    free_since: int | None = 0
    """True time since it has a free place, us; None without one."""
    blocked: tuple[int, int] = (0, 0)
    """Start and end of a block by a job (true time, us). The child reads no messages meanwhile."""
    fetcher: Task = field(init=False)
    asking: int = 0
    """Number of calls in flight that may each bring a job for every free place."""
    deliveries: defaultdict[str, Deliveries] = field(default_factory=lambda: defaultdict(Deliveries))
    """Deliveries by queue name."""
    held: dict[str, Leased] = field(default_factory=dict)
    parked: bool = True
    """True if the queue may have parked jobs, which workers returned because they did not know the task."""
    stopping: set[str] = field(default_factory=set)
    """Ids of jobs with a cancellation request that the worker has received."""


@dataclass
class Plant:
    """The workers of a queue, and the state that all of its users share."""

    world: World
    queue: QueueKeys
    sessions: list[str] = field(default_factory=list)
    gone: set[str] = field(default_factory=set)
    """Sessions whose process has ended."""
    died: dict[str, int] = field(default_factory=dict)
    """True time of the end of each session's process, us."""
    watchers: dict[str, Task] = field(default_factory=dict)
    """The supervisor's task that watches each session."""
    suspected: set[str] = field(default_factory=set)
    """Supervisors that have learned of suspects, and not started an isolation process since."""
    beats: list[tuple[int, Task]] = field(default_factory=list)
    """The supervisors' heartbeat tasks, each with the true time of its start."""
    crews: list[list[Child]] = field(default_factory=list)
    leased: set[tuple[str, str, str]] = field(default_factory=set)
    """Every lease that the server has made: job, session and token."""
    made: dict[str, Made] = field(default_factory=dict)
    acknowledged: list[str] = field(default_factory=list)
    numbers: itertools.count[int] = field(default_factory=itertools.count)

    @property
    def desks(self) -> Sequence[Plant]:
        """The queues that a worker serves: this queue, or its partitions."""
        return [self]

    def dead(self) -> list[str]:
        """Return the ids of the dead jobs."""
        return [id.decode() for id in self.world.server.command("ZRANGE", self.queue.dead, 0, -1)]

    # -- a machine: a supervisor, and children that it watches --------------------------------------------------------

    def machine(self, name: str, children: int) -> list[Process]:
        """Start a supervisor with this number of children; return a list of its process."""
        supervisor = self.world.process(name)
        worker_processes: list[Child] = []
        self.crews.append(worker_processes)
        for desk in self.desks:
            beat = self.world.start(supervisor, "beat", desk.beat(supervisor, worker_processes), background=True)
            desk.beats.append((self.world.now, beat))
        for _ in range(children):
            self.world.start(
                supervisor, "watch", lambda task: self._watch(supervisor, worker_processes, task), background=True
            )
        self.world.start(
            supervisor, "isolate", lambda task: self._isolate(supervisor, worker_processes, task), background=True
        )
        return [supervisor]

    def end(self, victim: Process) -> None:
        """Kill a child, or a supervisor and its children with it."""
        for process in self.world.processes:
            if process is victim or process.name.startswith(f"{victim.name}/"):
                self._kill(process)

    def retire(self) -> None:
        """End a random child, whose supervisor replaces it, as after excessive memory use."""
        if children := [child for worker_processes in self.crews for child in worker_processes if child.process.alive]:
            child = self.world.random.choice(children)
            child.over = child.retired = True

    def _kill(self, process: Process) -> None:
        if process.alive:
            self.world.kill(process)
            self.died[process.name] = self.world.now
        self.gone.add(process.name)

    def beat(self, supervisor: Process, worker_processes: list[Child]) -> Callable[[Task], Actor]:
        """Return the actor that renews the children's sessions."""
        return lambda _: self._beat(supervisor, worker_processes)

    def _beat(self, supervisor: Process, worker_processes: list[Child]) -> Actor:
        """Act as the heartbeat thread: renew the children's sessions, and recover dead sessions of other machines."""
        peers = Peers(LEASE)
        while True:
            pause = LEASE / 3
            try:
                mine = {child.session: False for child in worker_processes}
                sent = yield Clock()
                answer = yield from leases.beat(self.queue, mine, int(LEASE * 1000), patience=0.5)
                now = yield Clock()
                peers.heard(sent, now, answer.at)
                self.beaten(supervisor, answer)
                if answer.suspects:
                    self.suspected.add(supervisor.name)
                for child in worker_processes:
                    if answer.alive.get(child.session, True):
                        child.lost = False
                    elif child.held or child.lost:
                        child.over = True
                    else:
                        # without jobs, it has until the next beat to begin its session anew
                        child.lost = True
                        child.process.mail.deliver(self.queue.jobs, "look")
                        pause = 1.0
                if answer.next_deadline is not None:
                    patience = peers.patience(now)
                    if answer.overdue is not None and patience <= 0:
                        yield from leases.recover(self.queue, answer.overdue, WINDOW_MS, gone=False, ended=answer.ended)
                        pause = 0.0
                    else:
                        pause = min(pause, max(answer.next_deadline, patience, 0.01))
            except LockworkError:
                pause = 0.5
            yield Sleep(pause)

    def _isolate(self, supervisor: Process, worker_processes: list[Child], task: Task) -> Actor:
        """Run an isolation process if there are suspects."""
        while True:
            known = [desk for desk in self.desks if supervisor.name in desk.suspected]
            for desk in known:
                desk.suspected.discard(supervisor.name)
            if known:
                yield from self._run_child(supervisor, worker_processes, task, isolates=True)
            else:
                yield Sleep(0.3)

    def _watch(self, supervisor: Process, worker_processes: list[Child], task: Task) -> Actor:
        """Run one child after the other, and return a dead child's jobs at once."""
        while True:
            yield from self._run_child(supervisor, worker_processes, task)

    def _run_child(
        self, supervisor: Process, worker_processes: list[Child], task: Task, *, isolates: bool = False
    ) -> Actor:
        session = queue_status.session_name(supervisor.name, 1, f"s{next(self.numbers)}")
        self.sessions.append(session)
        try:
            for desk in self.desks:
                yield from leases.beat(desk.queue, {session: True}, int(LEASE * 1000), patience=5.0)
        except LockworkError:
            # the session may have begun; no process uses it, and its lease runs out
            self.gone.add(session)
            yield Sleep(0.5)
            return
        places = 1 if isolates else self.world.random.choice([1, 3])
        child = Child(self.world.process(session), session, self.world.now, places, supervisor.name, isolates)
        if isolates:
            child.free_since = None  # it may idle while other jobs wait
        self.watchers[session] = task
        worker_processes.append(child)
        self._staff(child)
        while child.process.alive and supervisor.alive and not child.over:
            yield Sleep(0.1)
        self._kill(child.process)
        worker_processes.remove(child)
        yield from self.bury(child)

    def bury(self, child: Child) -> Actor:
        """Return a dead child's jobs to all of its queues."""
        for desk in self.desks:
            yield from desk.give_back(child)

    def give_back(self, child: Child) -> Actor:
        """Return a dead child's jobs to this queue."""
        while True:
            try:
                yield from leases.recover(
                    self.queue, child.session, WINDOW_MS,
                    gone=True, counted=not child.retired, on_suspects=lambda _: self.suspected.add(child.supervisor),
                )  # fmt: skip
                break
            except LockworkError:
                yield Sleep(0.2)

    # -- a child: a fetcher, and a task for each job ------------------------------------------------------------------

    def _staff(self, child: Child) -> None:
        fetch = self._fetch_suspects if child.isolates else self._fetch
        child.fetcher = self.world.start(child.process, "fetch", lambda _: fetch(child), background=True)
        for desk in self.desks:
            self.world.start(child.process, "cancel", desk.listener(child), background=True)

    def listener(self, child: Child) -> Callable[[Task], Actor]:
        """Return the actor that receives cancellation requests for a child's jobs."""
        return lambda _: self._listen(child)

    def _listen(self, child: Child) -> Actor:
        """Receive cancellation requests, as a worker does."""
        pause, hints = leases.RECHECK, Hints()
        while True:
            heard = yield from control.hear(self.queue, pause, hints)
            asked: set[str] = set()
            with suppress(LockworkError):
                if child.held:
                    asked = yield from control.asked(self.queue, child.session, list(child.held.values()))
            child.stopping |= asked & child.held.keys()
            pause = control.SOON if heard and heard not in asked else min(leases.RECHECK, pause * 2)

    def _fetch(self, child: Child) -> Actor:
        hints = Hints()
        for request in itertools.count():
            while not child.free:
                yield Park("places", (yield Clock()) + 3600)
            batch = yield from self.reserve(child, f"{request:x}")
            if batch is None:
                return
            if not batch.jobs and not self.claims_next(child, batch):
                offered = yield from leases.idle(self.queue, batch, hints)
                yield from self.reading(child)
                if offered is not None and self.takes(child):
                    self.begin(child, [offered])

    def claims(self, child: Child) -> str:
        """Return the tasks whose parked jobs the child's next request claims."""
        return ""

    def claims_next(self, child: Child, batch: Batch) -> bool:
        """Note an empty batch; return True to fetch again at once, because the next request claims parked jobs."""
        return False

    def _fetch_suspects(self, child: Child) -> Actor:
        """Run suspects of all queues, one at a time, until there have been none for a while."""
        idle, requests = 0, itertools.count()
        while idle < 5:
            for desk in self.desks:
                while not child.free:
                    yield Park("places", (yield Clock()) + 3600)
                batch = yield from desk.reserve_suspect(child, f"{next(requests):x}")
                if batch is None:
                    return
                idle = 0 if batch.jobs or batch.next_due is not None else idle + 1
                if not batch.jobs:
                    yield Sleep(0.2 if batch.next_due is None else batch.next_due)
        child.over = child.retired = True

    def reserve_suspect(self, child: Child, request: str) -> Generator[Effect | Sleep, Any, Batch | None]:
        """Lease a suspect and begin it; return None if the session is over."""
        again = False
        while True:
            try:
                batch = yield from leases.reserve_suspect(self.queue, child.session, request, again=again)
                break
            except SessionOver:
                child.over = True
                return None
            except LockworkError:
                again = True
                yield Sleep(0.2)
        self.begin(child, batch.jobs)
        return batch

    def reading(self, child: Child) -> Actor:
        """Take the time that a child needs to read a reply or an offer."""
        yield from ()

    def takes(self, child: Child) -> bool:
        """Return True if a child begins the job of a wake-up. Otherwise its next fetch returns the job."""
        return bool(child.free) and not child.asking and self.world.random.random() < 0.9

    def reserve(self, child: Child, request: str) -> Generator[Effect | Sleep, Any, Batch | None]:
        """Lease jobs for a child's free places and begin them; return None if its session is over."""
        again, deliveries = False, child.deliveries[self.queue.name]
        child.asking += 1
        while True:
            try:
                batch = yield from leases.reserve(
                    self.queue, child.session, child.free, request, child.process.channel,
                    again=again, last=deliveries.last, tasks=self.claims(child), window_ms=WINDOW_MS,
                )  # fmt: skip
                break
            except SessionOver:
                if child.held or child.over or not (yield from self._rejoin(child)):
                    child.over = True
                    return None
                request, again = f"{request}r", False
                deliveries.forget()
            except LockworkError:
                again = True
                yield Sleep(0.2)
        yield from self.reading(child)
        self.fetched(child, batch)
        child.asking -= 1
        self.begin(child, batch.jobs)
        return batch

    def fetched(self, child: Child, batch: Batch) -> None:
        """Note the reply to a fetch."""

    def beaten(self, supervisor: Process, answer: leases.Beat) -> None:
        """Note the reply to a heartbeat."""

    def _rejoin(self, child: Child) -> Generator[Effect | Sleep, Any, bool]:
        """Begin the session of a child without jobs anew."""
        try:
            yield from leases.beat(self.queue, {child.session: True}, int(LEASE * 1000), patience=1.0)
        except LockworkError:
            return False
        return not child.held

    def begin(self, child: Child, leased: Sequence[Leased]) -> None:
        """Begin jobs in free places."""
        for job in child.deliveries[self.queue.name].read(list(leased)):
            if job.id in child.held and child.held[job.id].token == job.token:
                raise Broken(f"Q2: {child.session} begins {job.id} for the second time by {job.token!r}")
            if (job.id, child.session, job.token.decode()) not in self.leased:
                raise Broken(f"Q2: {child.session} begins {job.id} by {job.token!r}, which nobody leased to it")
            child.free -= 1
            child.held[job.id] = job
            self.world.start(child.process, job.id, self._runner(child, job), background=True)
        if not child.free:
            child.free_since = None

    def _runner(self, child: Child, job: Leased) -> Callable[[Task], Actor]:
        return lambda _: self._run(child, job)

    def _run(self, child: Child, job: Leased) -> Actor:
        random = self.world.random
        yield Sleep(random.choice([0.0, random.uniform(0, 0.1), random.uniform(0, 2)]))
        if random.random() < 0.3:
            with suppress(LockworkError):
                step = random.choice(["", "one", "two"])
                yield from control.note(self.queue, child.session, job, step, b"1", 1000)
                yield Sleep(random.uniform(0, 0.5))
        ended = yield from self.ending(child, job)
        while True:
            try:
                yield from leases.settle(self.queue, child.session, [ended], WINDOW_MS)
                break
            except LockworkError:
                yield Sleep(0.2)
        child.free += 1
        if child.free_since is None and not child.isolates:
            child.free_since = self.world.now
        if child.held.get(job.id) is job:  # else it was leased again meanwhile
            del child.held[job.id]
        child.stopping.discard(job.id)
        child.process.mail.deliver("places", "one")

    def ending(self, child: Child, job: Leased) -> Generator[Effect | Sleep, Any, Outcome]:
        """Finish a job; return its outcome."""
        yield from ()
        return Outcome(job.id, job.token, "c") if job.id in child.stopping else self.outcome(job)

    def outcome(self, job: Leased) -> Outcome:
        """Draw the outcome of a job that was not cancelled."""
        random = self.world.random
        draw = random.random()
        if draw < 0.6:
            return Outcome(job.id, job.token, "s", job.token, random.choice([0, 0, 1500]))
        if draw < 0.65:
            return Outcome(job.id, job.token, "g")
        if draw < 0.7:
            return Outcome(job.id, job.token, "z", b"", random.choice([0, 1, 500, 2000]))
        budget, pause = record_header.budget(job.record), random.choice([0, 1, 500, 2000])
        if draw < 0.8:
            again = budget.left_after_crash(job.attempt, job.crashes)
            return Outcome(job.id, job.token, "k" if again else "K", b"its process died", pause if again else 0)
        if draw < 0.95 and budget.left_after_failure(job.attempt, job.crashes):
            return Outcome(job.id, job.token, "r", b"failed", pause)
        return Outcome(job.id, job.token, "d", b"failed")
