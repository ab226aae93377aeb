"""Rules of elections: one leader at a time, on_gain and on_loss alternate, and no vacancy lasts long."""

from __future__ import annotations

from locks.simulation.election_actors import KEY, Candidate, Leadership, Voters
from locks.simulation.lock_checks import LockChecker
from simulator.faults import MS, SECOND
from simulator.process import Task
from simulator.world import Broken, Step, World

_BOUND = SECOND
_LOOK = 5 * SECOND
"""Time until a candidate checks again after a lost wake-up."""
_SLACK = 250 * MS
"""Latencies of the calls that a candidate's timer starts."""
_QUIET = 10 * SECOND
"""Time until a fault no longer delays a candidate."""
_LEFT = 20 * SECOND
"""Maximum time until the server skips a request that could not be withdrawn, its claim included."""
_STOPPING = 1500 * MS
"""Maximum time of a stop: an on_loss and two calls."""


class ElectionChecker(LockChecker):
    """Checks every step as for locks, and every callback."""

    def __init__(self, world: World, voters: Voters) -> None:
        super().__init__(world, voters)
        self._voters = voters
        self._turns: dict[Candidate, list[tuple[str, int]]] = {}
        self._vacant: int | None = None
        """True time when the present vacancy began: no candidate leads, although one could."""
        self._newest = 0
        self.gains: int = 0
        self.filled: int = 0
        """Number of vacancies that a candidate without faults of its own filled within the bound."""

    def applied(self, step: Step) -> None:
        """Check a step, and that a candidate leads."""
        super().applied(step)
        self.look()

    def gained(self, candidate: Candidate, leadership: Leadership) -> None:
        """Check an on_gain."""
        world, fence = self._world, leadership.fence
        world.note(candidate.task.name, f"ON GAIN {fence}")
        turns = self._turns.setdefault(candidate, [])
        if turns and turns[-1][0] != "loss":
            raise Broken(f"{candidate.task.name} gains {fence} after {turns[-1]}")
        if turns and turns[-1][1] >= fence:
            raise Broken(f"{candidate.task.name} gains {fence}, no higher than before: {turns[-1]}")
        turns.append(("gain", fence))
        self.gains += 1
        if world.moved_forward or leadership.lost:
            return  # its clock no longer shows the end of its lease, or its on_loss follows
        for other in self._voters.leaderships:
            if other is not leadership and not other.lost:
                raise Broken(f"{candidate.task.name} gains {fence} while {other.task.name} leads with {other.fence}")
        if fence <= self._newest:
            raise Broken(f"{candidate.task.name} gains {fence} after {self._newest}")
        self._newest = fence
        if self._vacant is not None and _untroubled(candidate.task, self._vacant):
            self.filled += 1
        self._vacant = None

    def lost(self, candidate: Candidate, leadership: Leadership) -> None:
        """Check an on_loss."""
        self._world.note(candidate.task.name, f"ON LOSS {leadership.fence}")
        turns = self._turns.setdefault(candidate, [])
        if turns[-1:] != [("gain", leadership.fence)]:
            raise Broken(f"{candidate.task.name} loses {leadership.fence} after {turns[-1:]}")
        turns.append(("loss", leadership.fence))

    def look(self) -> None:
        """Check that a candidate leads or will within the bound, and that stopped candidates have ended."""
        now = self._world.now
        for candidate in self._voters.candidates.values():
            since = candidate.stopped_at
            if since is not None and now - since > _STOPPING and _untroubled(candidate.task, since):
                raise Broken(f"{candidate.task.name} was stopped {(now - since) / SECOND:.2f} s ago, and goes on")
        if self._world.ahead or self._taken():
            self._vacant = None
            return
        if self._vacant is None:
            self._vacant = now
        for candidate in self._voters.candidates.values():
            since = max(self._vacant, candidate.idle_since)
            bound = _BOUND if candidate.task.process.unheard < since - _QUIET else _BOUND + _LOOK
            stands = not candidate.candidacy.stopped and _untroubled(candidate.task, since)
            if stands and now - since > bound + _SLACK:
                raise Broken(f"nobody leads for {(now - since) / SECOND:.2f} s while {candidate.task.name} stands")

    def _taken(self) -> bool:
        """Return True if a candidate leads, or if the lease of a candidate with faults keeps the others out."""
        if any(not leadership.lost for leadership in self._voters.leaderships):
            return True
        held = self._locks[KEY].held if KEY in self._locks else None
        if held is None or not held.live(self._world.server_now):
            return False
        task, now = self._voters.candidates[held.owner].task, self._world.now
        process = task.process
        return not process.alive or not _calm(task, now - _LEFT) or process.unheard > now - _QUIET

    def at_end(self) -> None:
        """Check that every on_gain has its on_loss."""
        super().at_end()
        for candidate, turns in self._turns.items():
            if candidate.task.process.alive and turns[-1][0] != "loss":
                raise Broken(f"{candidate.task.name} was never told that it leads no longer: {turns}")


def _calm(task: Task, since: int) -> bool:
    """Return True if the task, ended or not, had no fault of its own since this true time."""
    return task.disturbed < since and task.process.paused_until < since


def _untroubled(task: Task, since: int) -> bool:
    return task.undisturbed_since(since - _QUIET)
