"""What must hold for elections: one leader at a time, told by turns, and never none for long."""

from __future__ import annotations

from simulation.faults import MS, SECOND
from simulation.locks.election_actors import KEY, Candidate, Leadership, Voters
from simulation.locks.lock_checks import LockChecker
from simulation.process import Task
from simulation.world import Broken, Step, World

_BOUND = SECOND
_LOOK = 5 * SECOND
"""After a lost wake-up a candidate looks by itself."""
_SLACK = 250 * MS
"""Latencies of the calls that a candidate's timer starts."""
_QUIET = 10 * SECOND
"""Who had trouble of its own so long ago has got over it."""
_LEFT = 20 * SECOND
"""A place in line that nobody could withdraw is skipped after so long at most, its claim included."""
_STOPPING = 1500 * MS
"""A stop takes an on_loss and two calls."""


class ElectionChecker(LockChecker):
    """Checks every step as for locks, and every callback."""

    def __init__(self, world: World, voters: Voters) -> None:
        super().__init__(world, voters)
        self._voters = voters
        self._turns: dict[Candidate, list[tuple[str, int]]] = {}
        self._vacant: int | None = None
        """True time since which nobody leads although somebody could."""
        self._newest = 0
        self.gains: int = 0
        self.filled: int = 0
        """How many times somebody could be seen to follow, without trouble of its own, within the bound."""

    def applied(self, step: Step) -> None:
        """Judge what a script did, and whether somebody leads."""
        super().applied(step)
        self.look()

    def gained(self, candidate: Candidate, leadership: Leadership) -> None:
        """Judge an on_gain."""
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
            return  # then its clock does not say when its lease ends; or it is told of it next
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
        """Judge an on_loss."""
        self._world.note(candidate.task.name, f"ON LOSS {leadership.fence}")
        turns = self._turns.setdefault(candidate, [])
        if turns[-1:] != [("gain", leadership.fence)]:
            raise Broken(f"{candidate.task.name} loses {leadership.fence} after {turns[-1:]}")
        turns.append(("loss", leadership.fence))

    def look(self) -> None:
        """Somebody leads, or will within the bound; who was stopped has ended."""
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
        """Whether somebody leads, or a leadership lies with somebody in trouble until its lease ends."""
        if any(not leadership.lost for leadership in self._voters.leaderships):
            return True
        held = self._locks[KEY].held if KEY in self._locks else None
        if held is None or not held.live(self._world.server_now):
            return False
        task, now = self._voters.candidates[held.owner].task, self._world.now
        process = task.process
        return not process.alive or not _calm(task, now - _LEFT) or process.unheard > now - _QUIET

    def at_end(self) -> None:
        """Every on_gain has its on_loss."""
        super().at_end()
        for candidate, turns in self._turns.items():
            if candidate.task.process.alive and turns[-1][0] != "loss":
                raise Broken(f"{candidate.task.name} was never told that it leads no longer: {turns}")


def _calm(task: Task, since: int) -> bool:
    """Whether it had no trouble of its own since then, be it at its end or not."""
    return task.disturbed < since and task.process.paused_until < since


def _untroubled(task: Task, since: int) -> bool:
    return task.undisturbed_since(since - _QUIET)
