"""Time limits of a queue: recovery and idle workers (Q4), due jobs (Q6), answers to callers (Q9).

The limits hold for workers and callers without recent faults. In a run without faults, all must be prompt; otherwise a
wake-up may be lost, and the waiter checks again after RECHECK seconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain

from lockwork.protocol.queue.leases import RECHECK, JobState
from queues.simulation.queue_actors import LEASE, Plant
from queues.simulation.queue_checks import QueueChecker
from queues.simulation.queue_view import LIMITS
from simulator.faults import SECOND
from simulator.process import Task
from simulator.world import Broken, World

_PROMPT = SECOND
_PATIENT = int((RECHECK + 1) * SECOND)
_LEASE = int(LEASE * SECOND)


@dataclass(frozen=True)
class Answer:
    """The answer to a caller: the state of a job, with the start of the call and its deadline (true time, us)."""

    task: Task
    id: str
    began: int
    deadline: int
    found: JobState


class QueueWatch:
    """Checks the time limits of a queue."""

    def __init__(self, world: World, plant: Plant, checker: QueueChecker, *, faultless: bool) -> None:
        self._world = world
        self._plant = plant
        self._checker = checker
        self._faultless = faultless
        self._clock_moves = bool(world.mix.back or world.mix.forth)

    def look(self) -> None:
        """Check the time limits; raises Broken."""
        self._recovered()
        self._begun()
        self._idle()

    def _recovered(self) -> None:
        """Q4: check the return of dead sessions' jobs: a child's within a second, a machine's a lease later at most."""
        now = self._world.now
        for id, (kind, session, _) in self._checker.view.places.items():
            died = self._plant.died.get(session) if kind == "run" else None
            if died is None:
                continue
            watcher = self._plant.watchers.get(session)
            if watcher is not None and now - died > _PROMPT and watcher.undisturbed_since(died):
                raise Broken(f"Q4: {session} died {(now - died) / SECOND:.2f} s ago, and {id} is not given back")
            # each step of the clock (back, forward, set right) may cost a lease
            if now - died > (4 * _LEASE if self._clock_moves else 0) + _LEASE + _PROMPT:
                begin = died - _LEASE - 2 * SECOND
                others = [beat for at, beat in self._plant.beats if at < begin and beat.undisturbed_since(begin)]
                if others:
                    raise Broken(f"Q4: {session} is dead, its lease has ended, and nobody gives {id} back")

    def _begun(self) -> None:
        """Q4: check that a worker without faults has received the jobs that are leased to it."""
        now, places = self._world.now, self._checker.view.places
        for child in chain.from_iterable(self._plant.crews):
            if child.over or not child.fetcher.undisturbed_since(now - self.bound):
                continue
            for id, (kind, session, token) in places.items():
                if kind == "run" and session == child.session and now - self._checker.since[id] > self.bound:
                    leased = child.held.get(id)
                    if leased is None or leased.token != token.encode():
                        raise Broken(f"Q4: {session} has {id} by {token}, and does not know of it")

    @property
    def bound(self) -> int:
        """Maximum time that a worker may sleep while there is work for it, us."""
        return _PROMPT if self._faultless else _PATIENT

    def somebody_idles(self) -> bool:
        """Return True if a worker has had a free place, and no faults, for longer than `bound`."""
        now, bound = self._world.now, self.bound
        return any(
            child.free_since is not None
            and now - max(child.free_since, child.began, child.blocked[1]) > bound
            and child.fetcher.undisturbed_since(now - bound)
            and not child.over
            for child in chain.from_iterable(self._plant.crews)
        )

    def _idle(self) -> None:
        """Q4, Q6: check that no job waits while a worker has a free place for it."""
        now, bound = self._world.now, self.bound
        places = self._checker.view.places
        if not self.somebody_idles():
            return
        for asleep, until in self._checker.view.asleep.items():
            if (self._world.server_now // 1000 - until) * 1000 > bound < now - self._world.stepped:
                raise Broken(f"Q4: the group {asleep} may go on for long, and a worker idles")
        for id, (kind, line, at) in places.items():
            if kind == "due":
                late = self._world.server_now // 1000 - int(at)
                if late * 1000 > bound and now - max(self._checker.since[id], self._world.stepped) > bound:
                    raise Broken(f"Q6: {id} is {late} ms late, and a worker has nothing to do")
            elif kind == "ready" or (kind == "line" and line.startswith("g ")):
                group = self._plant.made[id].group
                limits = LIMITS[group]
                free = not limits.jobs and self._checker.view.running[group] < (limits.at_once or 10**6)
                since = max(self._checker.since[id], self._checker.full.get(group, 0) if kind == "line" else 0)
                if free and now - since > bound:
                    raise Broken(f"Q4: {id} is {kind} for {(now - since) / SECOND:.2f} s, and a worker idles")

    def told(self, answer: Answer) -> None:
        """Q9: check that a caller gets the outcome, or learns in time that there is none yet."""
        now, id, state = self._world.now, answer.id, answer.found.state
        place = self._checker.view.places.get(id)
        quiet = answer.task.undisturbed_since(answer.began)
        if quiet and now > answer.deadline + SECOND // 2:
            raise Broken(f"Q9: a caller heard of {id} {(now - answer.deadline) / SECOND:.2f} s after its deadline")
        if state == "unknown":
            if place is not None and id not in self._checker.cleared:
                raise Broken(f"Q9: a caller was told that {id} is unknown, and it is {place}")
        elif state in ("ended", "dead"):
            self._check_outcome(answer, now)
        elif place is not None and place[0] in ("ended", "dead"):
            latest = answer.deadline - SECOND // 5 if quiet else answer.began
            if self._checker.since[id] < latest:
                raise Broken(f"Q9: {id} had ended as {place} in time, and a caller was told {state}")

    def _check_outcome(self, answer: Answer, now: int) -> None:
        id, found = answer.id, answer.found
        place, since = self._checker.view.places.get(id), self._checker.since[id]
        if place is None or since > now - SECOND // 10 or id in self._checker.again:
            return  # the job has changed since the answer
        if place[0] not in ("ended", "dead"):
            raise Broken(f"Q9: a caller was told that {id} is {found}, and it is {place}")
        if found.state == "ended" and place[1] and not found.blob.startswith(place[1].encode()):
            raise Broken(f"Q9: {id} ended as {place}, a caller was told {found.blob!r}")
        late = now - max(since, answer.began)
        if self._faultless and late > _PROMPT:
            raise Broken(f"Q9: a caller heard {late / SECOND:.2f} s later that {id} had ended")
