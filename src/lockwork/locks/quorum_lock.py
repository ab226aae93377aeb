"""A lock on a majority of servers, as users hold it: see quorum.py."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import ClassVar, cast

from lockwork.config import Config
from lockwork.durations import Duration, milliseconds
from lockwork.errors import LockLost
from lockwork.locks.grant import Grant, OnLost
from lockwork.locks.handle import Handle
from lockwork.locks.quorum_calls import Fleet
from lockwork.owners import Owner
from lockwork.protocol import keys
from lockwork.protocol.locks import quorum as protocol
from lockwork.protocol.locks.grants import Granted, Renewal, Request
from lockwork.protocol.locks.leases import Lease
from lockwork.protocol.locks.overview import with_tags
from lockwork.protocol.locks.quorum import Node, QuorumGranted, Rounds, majority, validity
from lockwork.runtime.clock import now
from lockwork.runtime.runtime import Runtime
from lockwork.runtime.sync_driver import no_running_loop

_requests = itertools.count()
_PAUSE = 0.2
"""Seconds between two tries at most."""


class QuorumGrant(Grant):
    """A majority of the servers in the hands of one task or thread; it is lost with the majority."""

    __slots__ = ("_asked", "_told", "votes")

    def __init__(
        self, handle: QuorumLock, owner: Owner, asked: Sequence[Request], granted: QuorumGranted, since: float
    ) -> None:
        whole = Renewal(handle._key, "", granted.fence, handle._lease_ms)
        # no engine knows this lease: it only says that the grant was not given up yet
        lease = Lease(whole, Granted(granted.fence, float("inf")), since, renewed=False, on_lost=_nothing)
        super().__init__(handle, owner, granted.fence, lease, since)
        self._asked = {node: asked[node] for node in granted.votes}
        self._told = False
        self.votes: dict[Node, Lease] = {
            node: Lease(
                Renewal(asked[node].key, asked[node].owner, granted.fence, asked[node].lease_ms),
                vote,
                since,
                renewed=asked[node].renewed,
                on_lost=self._vote_lost,
            )
            for node, vote in granted.votes.items()
        }

    @property
    def deadline(self) -> float:
        """Until when it lasts unless it is renewed, on the client's clock."""
        running = [vote.deadline for vote in self.votes.values() if not vote.lost]
        return validity(running, cast("QuorumLock", self._handle)._servers, self._handle._lease_ms)

    @property
    def lost(self) -> bool:
        """Whether it was given up, or fewer than a majority of the leases run."""
        return self._lease is None or now() >= self.deadline

    @property
    def remaining(self) -> float:
        """Seconds that a majority lasts unless it is renewed."""
        return 0.0 if self._lease is None else max(0.0, self.deadline - now())

    def _vote_lost(self) -> None:
        left = sum(not vote.lost for vote in self.votes.values())
        if left < majority(cast("QuorumLock", self._handle)._servers) and self._lease is not None and not self._told:
            self._told = True
            self._told_lost()


class QuorumLock(Handle):
    """A handle to one named lock on all servers of a Quorum; re-entrant for who uses the same Quorum object."""

    noun: ClassVar[str] = "quorum lock"
    grant_class: ClassVar[type[Grant]] = QuorumGrant

    def __init__(
        self,
        fleet: Fleet,
        prefixes: Sequence[str],
        patience: float,
        config: Config,
        name: str,
        *,
        wait: Duration | None,
        lease: Duration | None,
        on_lost: OnLost | None,
        tags: Sequence[str],
    ) -> None:
        self._fleet = fleet
        self._prefixes = prefixes
        # a fleet has what a handle needs of a runtime, except the engine, which nothing below asks for
        super().__init__(cast("Runtime", fleet), config, name, wait=wait, lease=lease, on_lost=on_lost, tags=tags)
        self._servers = len(prefixes)
        self._limit = patience

    def acquire(self, wait: Duration | None = None) -> QuorumGrant:
        """Try until a majority of the servers grants it, at most `wait` (None: as given to the handle).

        Raises LockTimeout, or ServerUnavailable when fewer than a majority answer.
        """
        owner, again = self._enter()
        if again is not None:
            return cast("QuorumGrant", again)
        return self._fleet.run(self._rounds(owner, self._patience(wait)))

    async def aacquire(self, wait: Duration | None = None) -> QuorumGrant:
        """Async version of `acquire`; cancelled, it gives back what it got."""
        owner, again = self._enter()
        if again is not None:
            return cast("QuorumGrant", again)
        return await self._fleet.arun(self._rounds(owner, self._patience(wait)))

    def try_acquire(self) -> QuorumGrant | None:
        """Ask every server once; None when a majority does not grant it."""
        return cast("QuorumGrant | None", super().try_acquire())

    async def atry_acquire(self) -> QuorumGrant | None:
        """Async version of `try_acquire`."""
        return cast("QuorumGrant | None", await super().atry_acquire())

    def __enter__(self) -> QuorumGrant:
        return cast("QuorumGrant", super().__enter__())

    async def __aenter__(self) -> QuorumGrant:
        return cast("QuorumGrant", await super().__aenter__())

    def _key_of(self, name: str) -> str:
        return keys.quorum(self._prefix, name)

    def _rounds(self, owner: Owner, wait: float | None) -> Rounds[QuorumGrant]:
        """Acquire and note the grant as one step: interrupted anywhere, it is given back or was never there."""
        asked = self._asks(owner)
        granted = yield from protocol.acquire(asked, wait, self._limit, _PAUSE)
        try:
            return self._granted(owner, asked, granted)
        except BaseException:
            grant = self._fleet.grants.get((self._key, owner))
            if grant is not None and grant.fence == granted.fence:
                self._put_down(grant)
            yield from protocol.release(dict(enumerate(asked)), granted.fence, self._servers, self._limit)
            raise

    def _asks(self, owner: Owner) -> list[Request]:
        # an owner per request: what an earlier try left on a server is never taken for this one's
        number = f"{next(_requests):x}"
        return [
            Request(
                keys.quorum(prefix, self.name), self.name, f"{runtime.process}:{owner.text}~{number}",
                with_tags(f"{runtime.process}.q{number}", self._tags), runtime.channel, self._lease_ms, self._renewed,
                noun=self.noun,
            )
            for runtime, prefix in zip(self._fleet.runtimes, self._prefixes, strict=True)
        ]  # fmt: skip

    def _granted(self, owner: Owner, asked: Sequence[Request], granted: QuorumGranted) -> QuorumGrant:
        grant = QuorumGrant(self, owner, asked, granted, now())
        self._fleet.grants[self._key, owner] = grant
        for node, vote in grant.votes.items():
            self._fleet.runtimes[node].engine.keep(vote)
        return grant

    def _forget(self, grant: Grant) -> tuple[Lease, bool] | None:
        """It is given up; the servers that still keep it are told by their engines."""
        ended = self._put_down(grant)
        if ended is not None:
            for node, vote in cast("QuorumGrant", grant).votes.items():
                self._fleet.runtimes[node].engine.give_back(vote)
        return ended

    def _give_up(self, grant: Grant) -> None:
        self._forget(grant)

    def _put_down(self, grant: Grant) -> tuple[Lease, bool] | None:
        lease = grant._lease
        if lease is None:
            return None
        in_time = not grant.lost
        grant._lease = None
        if not grant._bodies:  # else the end of the body will look for it
            self._fleet.grants.pop((self._key, grant._owner), None)
        for node, vote in cast("QuorumGrant", grant).votes.items():
            self._fleet.runtimes[node].engine.drop(vote)
        return lease, in_time

    def _release_whole(self, grant: Grant) -> None:
        no_running_loop()
        ended = self._put_down(grant)
        kept = ended is not None and self._fleet.run(self._ending_of(grant))
        self._check_released(grant, ended, kept=kept)

    async def _arelease_whole(self, grant: Grant) -> None:
        ended = self._put_down(grant)
        kept = ended is not None and await self._fleet.arun(self._ending_of(grant))
        self._check_released(grant, ended, kept=kept)

    def _ending_of(self, grant: Grant) -> Rounds[bool]:
        asked = cast("QuorumGrant", grant)._asked
        return protocol.release(asked, grant.fence, self._servers, self._limit)

    def _lengthen(self, grant: Grant, lease: Duration | None) -> Rounds[None]:  # type: ignore[override]
        grant.check()
        votes = cast("QuorumGrant", grant).votes
        wanted = self._lease_ms if lease is None else milliseconds(lease, "lease")
        asked = cast("QuorumGrant", grant)._asked

        def extending() -> Rounds[int]:
            extended = 0
            for node, deadline in (yield from protocol.extend(asked, grant.fence, wanted, self._limit)).items():
                engine = self._fleet.runtimes[node].engine
                if deadline is None:
                    engine.lost(votes[node])
                else:
                    engine.prolong(votes[node], deadline)
                    extended += 1
            return extended

        try:
            extended = yield from extending()
        except GeneratorExit:
            raise
        except BaseException:
            yield from extending()  # the next caller must know for how long the servers keep it
            raise
        if extended < majority(self._servers) or grant.lost:
            raise LockLost(f"{self.noun} {grant.name!r} was not extended by a majority of its servers")


def _nothing() -> None:
    return None
