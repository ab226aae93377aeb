"""Whose grant is whose in this process: entering, keeping, forgetting and ending the grants of one handle."""

from __future__ import annotations

import contextlib
import copy
import itertools
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self

from lockwork import owners
from lockwork.config import Config
from lockwork.durations import Duration, milliseconds, seconds
from lockwork.errors import ConfigError, LockLost, LockworkError, NotHeld
from lockwork.locks.decorator import Decorating
from lockwork.locks.grant import Grant, OnLost
from lockwork.naming import template
from lockwork.owners import Owner
from lockwork.protocol import keys
from lockwork.protocol.effects import Protocol
from lockwork.protocol.locks import grants
from lockwork.protocol.locks.grants import Granted, Renewal, Request
from lockwork.protocol.locks.leases import Lease
from lockwork.protocol.locks.overview import with_tags
from lockwork.runtime.clock import now
from lockwork.runtime.engine import Engine
from lockwork.runtime.runtime import Runtime
from lockwork.runtime.sync_driver import no_running_loop


def extend(engine: Engine, leases: Sequence[Lease], lease_ms: int) -> Protocol[bool]:
    """Let these leases last for so long from now on; False when one was over.

    Interrupted, it is sent once more: the next caller must know for how long the server keeps it.
    """
    renewals = [replace(lease.renewal, lease_ms=lease_ms) for lease in leases]
    try:
        deadlines = yield from grants.renew(renewals, None)
    except (GeneratorExit, LockworkError):
        raise
    except BaseException:
        with contextlib.suppress(LockworkError):
            _note(engine, leases, (yield from grants.renew(renewals, 1)))
        raise
    return _note(engine, leases, deadlines)


def _note(engine: Engine, leases: Sequence[Lease], deadlines: Sequence[float | None]) -> bool:
    kept = True
    for lease, deadline in zip(leases, deadlines, strict=True):
        if deadline is None:
            engine.lost(lease)
        kept = deadline is not None and engine.prolong(lease, deadline) and kept
    return kept


_requests = itertools.count()


class Holding(Decorating):
    """A handle to one named thing; it holds nothing itself, so threads and tasks may share it.

    A subclass says how its scripts are called (`kind`), what messages call it (`noun`), and where its key is.
    """

    kind: ClassVar[str] = "lock"
    noun: ClassVar[str] = "lock"
    grant_class: ClassVar[type[Grant]] = Grant
    """What its grants are."""
    replicas: int = 0
    """How many replicas must have a grant before it counts."""

    def __init__(
        self,
        runtime: Runtime,
        config: Config,
        name: str,
        *,
        wait: Duration | None,
        lease: Duration | None,
        on_lost: OnLost | None,
        tags: Sequence[str] = (),
    ) -> None:
        self._runtime = runtime
        self._prefix = config.prefix
        self._template = template(name, self._what())
        self.name: str = name if self._template else keys.checked(name, self._what())
        self._key = "" if self._template else self._key_of(name)
        self._wait = None if wait is None else seconds(wait, "wait", zero=True)
        self._lease_ms = milliseconds(config.lock_lease if lease is None else lease, "lease")
        self._renewed = lease is None
        self._at_once = False  # whether the lease must be whole from the beginning
        if on_lost is not None and not callable(on_lost):
            raise ConfigError(f"on_lost is a function that takes the grant, not {on_lost!r}")
        self._on_lost = on_lost
        self._tags = _checked_tags(tags)

    # -- what a subclass may replace --------------------------------------------------------------------------------

    def _key_of(self, name: str) -> str:
        """The key of the thing with this name."""
        return keys.lock(self._prefix, name)

    def _extra(self) -> tuple[Any, ...]:
        """What the acquire script wants to know besides."""
        return ()

    def _ending(self, grant: Grant) -> tuple[Any, ...]:  # noqa: ARG002 - a subclass may need it
        """What the release script wants to know besides."""
        return ()

    def _acquiring(self, asked: Request, wait: float | None) -> Protocol[Granted]:
        """How to get a grant."""
        return grants.acquire(asked, wait)

    def _returning(self, asked: Request) -> Protocol[object]:
        """How to give back what a request has got, or may get."""
        return grants.abandon(asked)

    # -- the grants of this process ---------------------------------------------------------------------------------

    def _enter(self) -> tuple[Owner, Grant | None]:
        """The owner that asks, and its grant entered once more if it has one."""
        self._used_key()
        owner = owners.current()
        grant = self._runtime.grants.get((self._key, owner))
        if grant is None or grant._lease is None:  # given up, but its body has not ended
            return owner, None
        grant.check()
        grant.depth += 1
        return owner, grant

    def _used_key(self) -> str:
        """The key; raises ConfigError for a name that only a call of the decorated function fills."""
        if self._template is not None:
            raise self._template.unfilled()
        return self._key

    def _mine(self) -> Grant:
        grant: Grant | None = self._runtime.grants.get((self._key, owners.current()))
        if grant is None or grant._lease is None:
            raise NotHeld(f"{self.noun} {self.name!r} is not held by this thread or task")
        return grant

    def _booked(self, owner: Owner, asked: Request, acquiring: Protocol[Granted]) -> Protocol[Grant]:
        """Acquire and note the grant as one step: interrupted anywhere, it is given back or was never there."""
        granted = yield from acquiring
        try:
            return self._keep(owner, asked, granted)
        except BaseException:
            self._disown(asked, granted)
            yield from self._returning(asked)
            raise

    def _keep(self, owner: Owner, asked: Request, granted: Granted) -> Grant:
        renewal = Renewal(asked.key, asked.owner, granted.fence, asked.lease_ms, f"{asked.kind}_renew")
        since = now()
        lease = Lease(renewal, granted, since, renewed=asked.renewed, on_lost=_nothing)
        place, runtime = (asked.key, owner), self._runtime
        grant = self.grant_class(self, owner, granted.fence, lease, since)
        lease.on_lost = grant._told_lost
        before = runtime.grants.get(place)
        if before is not None:
            grant._bodies = before._bodies  # it was given up inside of a body, which has not ended
        runtime.live[grant] = None
        runtime.grants[place] = grant
        runtime.engine.keep(lease)
        return grant

    def _disown(self, asked: Request, granted: Granted) -> None:
        """Forget what an interrupted `_keep` has noted."""
        for grant in list(self._runtime.live):
            lease = grant._lease  # once: another thread may release it at any time
            renewal = lease and lease.renewal
            if renewal and (renewal.key, renewal.owner, renewal.fence) == (asked.key, asked.owner, granted.fence):
                grant._handle._forget(grant)

    def _forget(self, grant: Grant) -> tuple[Lease, bool] | None:
        """It is not held any more; returns its lease and whether that still ran, None when it was ended before."""
        in_time, lease = not grant.lost, grant._lease
        try:
            if self._runtime.live.pop(grant, self) is not None or lease is None:
                return None
            self._strike_out(grant, lease)
            self._runtime.engine.drop(lease)
        except BaseException:
            # interrupted: nobody would end it any more, and the engine would renew it for ever
            if lease is not None and grant not in self._runtime.live:
                self._strike_out(grant, lease)
                self._runtime.engine.give_back(lease)
            raise
        return lease, in_time

    def _give_up(self, grant: Grant) -> None:
        """It is over for its holder; the engine tells the server, which may count on a later end."""
        ended = self._forget(grant)
        if ended is not None:
            self._runtime.engine.give_back(ended[0])

    def _strike_out(self, grant: Grant, lease: Lease) -> None:
        grant._lease = None  # code that still looks at the grant must not take it for held
        if not grant._bodies:  # else the end of the body will look for it
            self._runtime.grants.pop((lease.renewal.key, grant._owner), None)

    def _release_whole(self, grant: Grant) -> None:
        no_running_loop()
        ending = self._ending(grant)
        ended = self._forget(grant)
        kept = ended is not None and self._runtime.run(self._end(ended[0], ending))
        self._check_released(grant, ended, kept=kept)

    async def _arelease_whole(self, grant: Grant) -> None:
        ending = self._ending(grant)
        ended = self._forget(grant)
        kept = ended is not None and await self._runtime.arun(self._end(ended[0], ending))
        self._check_released(grant, ended, kept=kept)

    def _end(self, lease: Lease, ending: tuple[Any, ...]) -> Protocol[bool]:
        renewal = lease.renewal
        return grants.release(renewal.key, renewal.owner, renewal.fence, *ending, kind=self.kind)

    def _check_released(self, grant: Grant, ended: tuple[Lease, bool] | None, *, kept: bool) -> None:
        if ended is None:
            raise NotHeld(f"{self.noun} {grant.name!r} was released before")
        if not (kept and ended[1]):
            raise LockLost(
                f"the lease of {self.noun} {grant.name!r} ended before it was released: somebody else may have held it"
            )

    def _lengthen(self, grant: Grant, lease: Duration | None) -> Protocol[None]:
        kept = grant._lease  # before the check: another thread may release it at any time
        grant.check()
        assert kept is not None
        wanted = self._lease_ms if lease is None else milliseconds(lease, "lease")
        if not (yield from extend(self._runtime.engine, [kept], wanted)):
            raise LockLost(f"the lease of {self.noun} {grant.name!r} ended before it was extended")

    def _request(self, owner: Owner) -> Request:
        process = self._runtime.process
        return Request(
            self._key,
            self.name,
            f"{process}:{owner.text}",
            with_tags(f"{process}.{next(_requests):x}", self._tags) if self._tags else f"{process}.{next(_requests):x}",
            self._runtime.channel,
            self._lease_ms,
            self._renewed,
            self.replicas,
            self.kind,
            self.noun,
            self._extra(),
            self._at_once,
        )

    def _patience(self, wait: Duration | None) -> float | None:
        return self._wait if wait is None else seconds(wait, "wait", zero=True)

    def _named(self, name: str) -> Self:
        """The same handle for another name."""
        named = copy.copy(self)
        named.name, named._key, named._template = name, self._key_of(name), None
        return named

    @classmethod
    def _what(cls) -> str:
        return f"a {cls.noun}'s name"

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}>"


def _checked_tags(tags: Sequence[str]) -> tuple[str, ...]:
    if isinstance(tags, str):
        raise ConfigError(f"tags are a list of texts, not one text: [{tags!r}]")
    if not isinstance(tags, Iterable):
        raise ConfigError(f"tags are a list of texts, not {tags!r}")
    for tag in tags:
        if "," in keys.checked(tag, "a tag"):
            raise ConfigError(f"a tag must not hold a comma: {tag!r}")
    return tuple(tags)


def _nothing() -> None:
    return None
