"""Candidates in virtual time. Each acts like an Election on its thread or in its asyncio task."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from locks.simulation.lock_actors import Belief, Players
from lockwork.errors import LockworkError
from lockwork.locks.candidacy import Candidacy, CandidacyStopped, Changes, stoppable
from lockwork.protocol import keys
from lockwork.protocol.effects import Clock, Effect, Park, Protocol
from lockwork.protocol.locks import grants
from lockwork.protocol.locks.grants import Granted, Renewal, Request
from lockwork.protocol.locks.leases import Lease
from simulator.process import Actor, Cancelled, Process, Sleep, Task
from simulator.world import World

if TYPE_CHECKING:
    from locks.simulation.election_checks import ElectionChecker
    from lockwork.locks.grant import Grant

KEY = keys.lock("sim", "election:x")
_LONG = 3600.0
_PAUSE = 1.0


class CandidateWakeup(Changes):
    """Wakes a candidate through its process's mailbox, as the real one wakes a thread."""

    def __init__(self, process: Process, ticket: str) -> None:
        super().__init__()
        self.ticket = ticket
        self._process = process

    def notify(self) -> None:
        """Let the candidate check its state."""
        self._process.mail.deliver(self.ticket, "look")


@dataclass(eq=False)
class Leadership(Belief):
    """A leader's view of its grant."""

    world: World

    @property
    def lost(self) -> bool:
        """True if the leader must no longer act as one."""
        return not self.held(self.world.now)

    @property
    def grant(self) -> Grant:
        """Substitute for a grant: the candidacy reads only `lost`."""
        return cast("Grant", self)


@dataclass
class Voters(Players):
    """All candidates of a run."""

    candidates: dict[str, Candidate] = field(default_factory=dict)
    """Candidates by the owner of their requests."""
    checker: ElectionChecker = field(init=False)

    @property
    def leaderships(self) -> list[Leadership]:
        """The leaderships between the start of on_gain and the end of on_loss."""
        return cast("list[Leadership]", self.beliefs.get(KEY, []))


class Candidate:
    """Waits for the lock, leads, steps down, and starts over, until it is stopped."""

    def __init__(self, voters: Voters, task: Task) -> None:
        self.task = task
        self.candidacy: Candidacy = Candidacy()
        self.candidacy.changes = self._wakeup = CandidateWakeup(task.process, f"wakeup {task.name}")
        self.leadership: Leadership | None = None
        self.idle_since: int = voters.world.now
        """True time of the end of its last leadership, or of its start."""
        self.stopped_at: int | None = None
        self._voters = voters
        self._world = voters.world
        voters.candidates[task.name] = self

    def run(self) -> Actor:
        """Run for election until stopped."""
        candidacy = self.candidacy
        while not candidacy.stopped:
            try:
                leadership = yield from self.stand()
            except CandidacyStopped:
                return
            except LockworkError as error:
                self._world.note(self.task.name, f"stands again soon: {type(error).__name__}")
                yield from self._wait_for(lambda: candidacy.stopped, _PAUSE)
            else:
                yield from self.lead(leadership)

    def stand(self) -> Generator[Effect | Sleep, Any, Leadership]:
        """Acquire the lock; return the leadership."""
        process, number = self.task.process, next(self._voters.numbers)
        lease_ms = self._world.random.choice([1000, 2000, 4000])
        asked = Request(KEY, "election:x", self.task.name, f"r{number}", process.channel, lease_ms, renewed=True)
        self.candidacy.wake = lambda: process.mail.deliver(asked.request, "look")
        waiting = self._voters.waiting.setdefault(KEY, {})
        waiting[self.task] = asked
        try:
            granted = yield from self.interruptible(grants.acquire(asked, None))
        finally:
            del waiting[self.task]
        renewal = Renewal(KEY, asked.owner, granted.fence, lease_ms)
        lease = Lease(renewal, granted, (yield Clock()), renewed=True, on_lost=lambda: None)
        leadership = self.leads(lease)
        lease.on_lost = lambda: self.told(leadership)
        process.book.add(lease)
        process.mail.deliver("engine", "ring")
        return leadership

    def lead(self, leadership: Leadership) -> Actor:
        """Lead until the candidacy ends the leadership, then step down."""
        random, candidacy = self._world.random, self.candidacy
        cancelled = None
        candidacy.lead(leadership.grant)
        self.gain(leadership)
        try:
            yield Sleep(random.choice([0.0, random.uniform(0, 0.3)]))  # on_gain
            yield from self._wait_for(lambda: candidacy.must_end(leadership.grant), _LONG)
        except Cancelled as error:
            cancelled = error
        yield from self.step_down(leadership)
        candidacy.lead(None)
        if cancelled is not None:
            raise cancelled

    def step_down(self, leadership: Leadership) -> Actor:
        """Call on_loss, then release the lock."""
        yield from self.lose(leadership)
        yield from self.give_back(leadership)

    def lose(self, leadership: Leadership) -> Actor:
        """Call on_loss."""
        random = self._world.random
        with suppress(Cancelled):
            yield Sleep(random.choice([0.0, random.uniform(0, 0.3)]))
        self._voters.beliefs[KEY].remove(leadership)
        self._voters.checker.lost(self, leadership)
        self.leadership, self.idle_since = None, self._world.now

    def give_back(self, leadership: Leadership) -> Actor:
        """Release the lock."""
        self.task.process.book.remove(leadership.lease)
        with suppress(LockworkError):
            yield from grants.release(KEY, self.task.name, leadership.fence)

    # -- steps that mutants override ----------------------------------------------------------------------------------

    def interruptible(self, acquiring: Protocol[Granted]) -> Protocol[Granted]:
        """Let `stop` interrupt the wait for the lock."""
        return stoppable(acquiring, self.candidacy)

    def leads(self, lease: Lease) -> Leadership:
        """Return the leadership of a lease."""
        return Leadership(self.task, lease, lease.renewal.fence, self._world)

    def told(self, leadership: Leadership) -> None:
        """End the leadership, because the engine reports that the lease is lost."""
        self.candidacy.resign(leadership.grant)

    def gain(self, leadership: Leadership) -> None:
        """Call on_gain."""
        self.leadership = leadership
        self._voters.beliefs.setdefault(KEY, []).append(leadership)
        self._voters.checker.gained(self, leadership)

    def stop(self) -> None:
        """End the candidacy."""
        self.stopped_at = self._world.now
        self.candidacy.stop()

    def _wait_for(self, condition: Callable[[], bool], seconds: float) -> Actor:
        until = (yield Clock()) + seconds
        while not condition() and (yield Clock()) < until:
            yield Park(self._wakeup.ticket, until)
