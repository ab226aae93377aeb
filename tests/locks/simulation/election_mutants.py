"""Mutants of candidates and scripts, each with one fault that the election's checker must catch."""

from __future__ import annotations

from dataclasses import dataclass

from locks.simulation.election_actors import Candidate, Leadership
from locks.simulation.lock_mutants import LOCKS
from lockwork.protocol.effects import Protocol
from lockwork.protocol.locks.grants import Granted
from lockwork.protocol.locks.leases import Lease
from simulator.process import Actor


class GoesOn(Candidate):
    """Continues to lead after its lease has ended."""

    def leads(self, lease: Lease) -> Leadership:
        """Return a leadership that ends only with its process."""
        return _Endless(self.task, lease, lease.renewal.fence, self._world)

    def told(self, leadership: Leadership) -> None:
        """Ignore the loss."""


@dataclass(eq=False)
class _Endless(Leadership):
    def held(self, true: int) -> bool:
        return self.task.process.alive


class ReleasesFirst(Candidate):
    """Lets the next candidate lead before its own on_loss."""

    def step_down(self, leadership: Leadership) -> Actor:
        """Release the lock, then call on_loss."""
        yield from self.give_back(leadership)
        yield from self.lose(leadership)


class SaysNothing(Candidate):
    """Does not call on_loss if the lease is already lost."""

    def lose(self, leadership: Leadership) -> Actor:
        """Call on_loss only while the lease lasts."""
        if not leadership.lost:
            yield from super().lose(leadership)
        else:
            self._voters.beliefs[leadership.lease.renewal.key].remove(leadership)


class StandsOnce(Candidate):
    """Does not run again after its first leadership."""

    def lead(self, leadership: Leadership) -> Actor:
        """Lead, then only wait for the stop."""
        yield from super().lead(leadership)
        yield from self._wait_for(lambda: self.candidacy.stopped, 3600)


class LeavesItsPlace(Candidate):
    """Does not withdraw its request when it is stopped."""

    def interruptible(self, acquiring: Protocol[Granted]) -> Protocol[Granted]:
        """Interrupt the wait without its cleanup."""
        stopping = super().interruptible(_Careless(acquiring))  # type: ignore[arg-type]
        return (yield from stopping)


class Deaf(Candidate):
    """Does not notice a stop while it waits for the lock."""

    def stop(self) -> None:
        """Stop without waking the waiting candidate."""
        self.candidacy.wake = None
        super().stop()


class _Careless:
    """A protocol without cleanup after an interruption."""

    def __init__(self, protocol: Protocol[Granted]) -> None:
        self.send = protocol.send
        self.close = protocol.close

    def throw(self, error: BaseException) -> None:
        raise error


CANDIDATES = (GoesOn, ReleasesFirst, SaysNothing, StandsOnce, LeavesItsPlace, Deaf)
_SCRIPTS = ("grants during a live lease", "waiters look too late")
BUILDS = tuple(build for builds in LOCKS.values() for build in builds if build.name in _SCRIPTS)
assert len(BUILDS) == len(_SCRIPTS)
