"""A lock on a majority of servers, as users hold it: see quorum.py."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import ClassVar, Unpack

from lockwork.config import Config
from lockwork.durations import Duration, lease_milliseconds
from lockwork.errors import LockLost
from lockwork.jobs.current import job_in_requests
from lockwork.locks.grant import Grant
from lockwork.locks.handle import Handle
from lockwork.locks.hold import Ended, Hold, nothing
from lockwork.locks.options import LockOptions, LockSettings, Steps
from lockwork.locks.quorum_calls import QuorumCalls
from lockwork.owners import Owner
from lockwork.protocol import keys
from lockwork.protocol.locks import quorum as quorum_protocol
from lockwork.protocol.locks.grants import Granted, Renewal, Request
from lockwork.protocol.locks.leases import Lease
from lockwork.protocol.locks.overview import described
from lockwork.protocol.locks.quorum import Node, QuorumGranted, Rounds, majority, validity
from lockwork.runtime.clock import now

_requests = itertools.count()
_PAUSE = 0.2
"""Seconds between two tries at most."""


class QuorumGrant(Grant):
    """A majority of the servers held by one task or thread; it is lost with the majority."""

    __slots__ = ("_majority",)

    def __init__(self, hold: QuorumHold) -> None:
        super().__init__(hold)
        self._majority = hold

    @property
    def votes(self) -> dict[Node, Lease]:
        """The lease on each server that granted it."""
        return self._majority.votes

    @property
    def deadline(self) -> float:
        """Until when it lasts unless it is renewed, on the client's clock."""
        return self._majority.deadline


class QuorumHold(Hold[QuorumGrant]):
    """A lock on a majority of servers held by one thread or task: one lease on each server."""

    __slots__ = ("abandoned", "calls", "notified", "patience", "requests", "votes")
    grant_class = QuorumGrant

    def __init__(
        self,
        options: LockOptions,
        owner: Owner,
        calls: QuorumCalls,
        patience: float,
        requests: Sequence[Request],
        granted: QuorumGranted,
    ) -> None:
        since = now()
        self.calls: QuorumCalls = calls
        self.patience: float = patience
        self.requests: dict[Node, Request] = {node: requests[node] for node in granted.votes}
        self.notified: bool = False
        self.abandoned: bool = False
        """True if the servers' engines stopped renewing it because the owner is gone."""
        # no engine knows this lease: it only records that the hold was not released yet
        renewal = Renewal(options.key, "", granted.fence, options.lease_ms)
        lease = Lease(renewal, Granted(granted.fence, float("inf")), since, renewed=False, on_lost=nothing)
        self.votes: dict[Node, Lease] = {
            node: Lease(
                Renewal(one.key, one.owner, granted.fence, one.lease_ms),
                granted.votes[node],
                since,
                renewed=one.renewed,
                on_lost=self._vote_lost,
            )
            for node, one in self.requests.items()
        }
        super().__init__(options, owner, lease, since)

    @property
    def deadline(self) -> float:
        """Until when it lasts unless it is renewed, on the client's clock."""
        running = [vote.deadline for vote in self.votes.values() if not vote.lost]
        return validity(running, self._servers, self.options.lease_ms)

    @property
    def lost(self) -> bool:
        """True if the lock was released, or if fewer than a majority of the leases last."""
        return self.lease is None or now() >= self.deadline

    @property
    def remaining(self) -> float:
        """Seconds that a majority lasts unless it is renewed."""
        return 0.0 if self.lease is None else max(0.0, self.deadline - now())

    def keep(self) -> None:
        """Note the hold in this process, and let each server's engine renew its lease."""
        self.calls.holds[self.options.key, self.owner] = self
        for node, vote in self.votes.items():
            vote.holder = self
            self.calls.runtimes[node].engine.keep(vote)

    def notify_abandoned(self) -> None:
        """Warn once that renewal has stopped."""
        if not self.abandoned:
            self.abandoned = True
            super().notify_abandoned()

    def drop(self) -> Ended | None:
        """Forget the hold in this process; None if it had already ended."""
        lease = self.lease
        if lease is None:
            return None
        in_time = not self.lost
        self.lease: Lease | None = None
        self.grant: QuorumGrant | None = None
        if self.on_end is not None:
            self.ended()
        if not self.bodies:  # else the end of the body will look for it
            self.calls.holds.pop((self.options.key, self.owner), None)
        for node, vote in self.votes.items():
            self.calls.runtimes[node].engine.drop(vote)
        return lease, in_time

    def forget(self) -> Ended | None:
        """Forget the hold in this process; the engines end its remaining leases on the servers."""
        ended = self.drop()
        if ended is not None:
            for node, vote in self.votes.items():
                self.calls.runtimes[node].engine.give_back(vote)
        return ended

    def give_up(self) -> None:
        """End the hold without waiting."""
        self.forget()

    def release_later(self) -> None:
        """End the hold without waiting."""
        self.forget()

    def end(self) -> Steps[None]:
        """Forget the hold, and return the round that ends it everywhere. Raises NotHeld."""
        ended = self.drop()
        if ended is None:
            raise self._not_held()
        return self._end_everywhere(ended[1])

    def extend(self, lease: Duration | None) -> Rounds[None]:
        """Extend the leases on all servers. Raises LockLost if fewer than a majority are extended."""
        self.check()
        lease_ms = self.options.lease_ms if lease is None else lease_milliseconds(lease)
        try:
            extended = yield from self._extend(lease_ms)
        except GeneratorExit:
            raise
        except BaseException:
            yield from self._extend(lease_ms)  # this process must know the leases' new ends
            raise
        if extended < majority(self._servers) or self.lost:
            raise LockLost(f"{self.shown} was not extended by a majority of its servers")

    @property
    def _servers(self) -> int:
        return len(self.calls.runtimes)

    def _end_everywhere(self, in_time: bool) -> Rounds[None]:
        released = yield from quorum_protocol.release(self.requests, self.fence, self._servers, self.patience)
        self._check_released(released and in_time)

    def _extend(self, lease_ms: int) -> Rounds[int]:
        extended = 0
        answers = yield from quorum_protocol.extend(self.requests, self.fence, lease_ms, self.patience)
        for node, deadline in answers.items():
            engine = self.calls.runtimes[node].engine
            if deadline is None:
                engine.lost(self.votes[node])
            else:
                engine.prolong(self.votes[node], deadline)
                extended += 1
        return extended

    def _vote_lost(self) -> None:
        votes_left = sum(not vote.lost for vote in self.votes.values())
        if votes_left < majority(self._servers) and self.lease is not None and not self.notified:
            self.notified = True
            self.notify_lost()


class QuorumLock(Handle[QuorumGrant]):
    """A handle to one named lock on all servers of a Quorum; a holder may enter it again through the same Quorum."""

    noun: ClassVar[str] = "quorum lock"

    def __init__(
        self,
        calls: QuorumCalls,
        prefixes: Sequence[str],
        patience: float,
        config: Config,
        name: str,
        **settings: Unpack[LockSettings[QuorumGrant]],
    ) -> None:
        self._calls = calls
        self._prefixes = prefixes
        self._limit = patience
        super().__init__(calls.runtimes[0], config, name, runner=calls, **settings)

    def acquire(self, wait: Duration | None = None) -> QuorumGrant:
        """Try until a majority of the servers grants it, at most `wait` (None: as given to the handle).

        Raises LockTimeout, or ServerUnavailable when fewer than a majority answer.
        """
        return super().acquire(wait)

    def try_acquire(self) -> QuorumGrant | None:
        """Ask every server once; None when a majority does not grant it."""
        return super().try_acquire()

    def _key_of(self, name: str) -> str:
        return keys.quorum(self._prefix, name)

    def _acquire_hold(self, wait: Duration | None) -> Rounds[Hold[QuorumGrant]]:
        return self._rounds(self._owner(), self._options.patience(wait))

    def _rounds(self, owner: Owner, wait: float | None) -> Rounds[Hold[QuorumGrant]]:
        """Acquire and register the hold; if interrupted anywhere, release the grant."""
        requests = self._requests(owner)
        granted = yield from quorum_protocol.acquire(requests, wait, self._limit, _PAUSE)
        try:
            hold = QuorumHold(self._options, owner, self._calls, self._limit, requests, granted)
            hold.keep()
        except BaseException:
            noted: QuorumHold | None = self._calls.holds.get((self._key, owner))
            if noted is not None and noted.fence == granted.fence:
                noted.drop()
            yield from quorum_protocol.release(dict(enumerate(requests)), granted.fence, len(requests), self._limit)
            raise
        return hold

    def _requests(self, owner: Owner) -> list[Request]:
        # an owner per request, so that a grant of an earlier try does not count for this one
        number, options, job = f"{next(_requests):x}", self._options, job_in_requests()
        return [
            Request(
                keys.quorum(prefix, self.name),
                options.name,
                f"{runtime.process}:{owner.text}~{number}",
                described(f"{runtime.process}.q{number}", options.tags, job),
                runtime.channel,
                options.lease_ms,
                options.renewed,
                noun=self.noun,
            )
            for runtime, prefix in zip(self._calls.runtimes, self._prefixes, strict=True)
        ]
