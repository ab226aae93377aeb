"""Broken candidates and broken scripts, each with one thing wrong that the election's checker must catch."""

from __future__ import annotations

from dataclasses import dataclass

from lockwork.protocol.effects import Protocol
from lockwork.protocol.locks.grants import Granted
from lockwork.protocol.locks.leases import Lease
from simulation.locks.election_actors import Candidate, Leadership
from simulation.locks.lock_mutants import LOCKS
from simulation.process import Actor


class GoesOn(Candidate):
    """Leads on when its lease has ended, until somebody tells it otherwise."""

    def leads(self, lease: Lease) -> Leadership:
        """Believe in it for ever."""
        return _Endless(self.task, lease, lease.renewal.fence, self._world)

    def told(self, leadership: Leadership) -> None:
        """Do not listen."""


@dataclass(eq=False)
class _Endless(Leadership):
    def held(self, true: int) -> bool:
        return self.task.process.alive


class ReleasesFirst(Candidate):
    """Lets the next one lead before it has stepped down itself."""

    def step_down(self, leadership: Leadership) -> Actor:
        """Release, and call on_loss then."""
        yield from self.give_back(leadership)
        yield from self.lose(leadership)


class SaysNothing(Candidate):
    """Does not call on_loss when there is nothing left to lose."""

    def lose(self, leadership: Leadership) -> Actor:
        """Call it only while the lease lasts."""
        if not leadership.lost:
            yield from super().lose(leadership)
        else:
            self._voters.beliefs[leadership.lease.renewal.key].remove(leadership)


class StandsOnce(Candidate):
    """Does not stand again when it has led."""

    def lead(self, leadership: Leadership) -> Actor:
        """Lead, and never again."""
        yield from super().lead(leadership)
        yield from self._wait_for(lambda: self.candidacy.stopped, 3600)


class LeavesItsPlace(Candidate):
    """Stopped, it goes away without leaving the line."""

    def interruptible(self, acquiring: Protocol[Granted]) -> Protocol[Granted]:
        """End it where it is."""
        stopping = super().interruptible(_Careless(acquiring))  # type: ignore[arg-type]
        return (yield from stopping)


class Deaf(Candidate):
    """Does not notice in line that it is stopped."""

    def stop(self) -> None:
        """Wake nobody."""
        self.candidacy.wake = None
        super().stop()


class _Careless:
    """A protocol that does nothing more when it is interrupted."""

    def __init__(self, protocol: Protocol[Granted]) -> None:
        self.send = protocol.send
        self.close = protocol.close

    def throw(self, error: BaseException) -> None:
        raise error


CANDIDATES = (GoesOn, ReleasesFirst, SaysNothing, StandsOnce, LeavesItsPlace, Deaf)
_SCRIPTS = ("grants during a live lease", "waiters look too late")
BUILDS = tuple(build for builds in LOCKS.values() for build in builds if build.name in _SCRIPTS)
assert len(BUILDS) == len(_SCRIPTS)
