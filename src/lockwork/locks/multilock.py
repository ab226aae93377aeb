"""Several locks as one: `with lw.multilock("a", "b") as grant`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, cast

from redis.crc import key_slot

from lockwork.config import Config
from lockwork.durations import Duration, milliseconds
from lockwork.errors import ConfigError, LockLost
from lockwork.locks.grant import Grant, Issuer, OnLost
from lockwork.locks.handle import Handle
from lockwork.locks.lock import Lock
from lockwork.locks.ownership import extend
from lockwork.owners import Owner
from lockwork.protocol import keys
from lockwork.protocol.effects import Protocol
from lockwork.protocol.locks import multilock as protocol
from lockwork.protocol.locks.grants import Granted, Renewal, Request
from lockwork.protocol.locks.leases import Lease
from lockwork.runtime.clock import now
from lockwork.runtime.runtime import Runtime
from lockwork.runtime.sync_driver import no_running_loop


class MultiGrant(Grant):
    """Several locks in the hands of one task or thread. `fences` has each lock's fence, `fence` is the highest of them.

    Each part is an ordinary grant: its lock is re-entrant for the owner, and the engine keeps it alive.
    """

    __slots__ = ("_told", "parts")

    def __init__(self, handle: Issuer, owner: Owner, parts: Iterable[Grant], since: float) -> None:
        self.parts: tuple[Grant, ...] = tuple(parts)
        self._told = False
        fence = max(part.fence for part in self.parts)
        # the engine does not know this lease: it only says that the whole was not given up yet
        whole = Renewal(handle._key, "", fence, handle._lease_ms)
        lease = Lease(whole, Granted(fence, float("inf")), since, renewed=False, on_lost=_nothing)
        super().__init__(handle, owner, fence, lease, since)
        for part in self.parts:
            watch(part, self._part_lost)

    @property
    def fences(self) -> dict[str, int]:
        """The fence of each lock, by name: send along that of the lock that guards what you write."""
        return {part.name: part.fence for part in self.parts}

    @property
    def lost(self) -> bool:
        """Whether the lease of any of the locks has ended."""
        return self._lease is None or any(part.lost for part in self.parts)

    @property
    def remaining(self) -> float:
        """Seconds that all leases last unless they are renewed; 0 when one is lost."""
        return 0.0 if self._lease is None else min(part.remaining for part in self.parts)

    def _part_lost(self) -> None:
        if self._lease is not None and not self._told:
            self._told = True
            self._told_lost()

    def _unwatch(self) -> None:
        for part in self.parts:
            unwatch(part, self._part_lost)


class _WatchedLease:
    """What a lease calls when it is lost while others than its own grant want to know."""

    __slots__ = ("first", "others")

    def __init__(self, first: Callable[[], None]) -> None:
        self.first = first
        self.others: dict[Callable[[], None], None] = {}

    def __call__(self) -> None:
        self.first()
        for told in list(self.others):
            told()


def watch(part: Grant, told: Callable[[], None]) -> None:
    """Let `told` be called, from the engine's thread, when the lease of `part` is lost; at once if it is already."""
    lease = part._lease
    if lease is not None:
        watched = lease.on_lost
        if not isinstance(watched, _WatchedLease):
            watched = lease.on_lost = _WatchedLease(watched)
        watched.others[told] = None
    if lease is None or lease.lost:
        told()


def unwatch(part: Grant, told: Callable[[], None]) -> None:
    """Do not call `told` any more."""
    lease = part._lease
    if lease is not None and isinstance(lease.on_lost, _WatchedLease):
        lease.on_lost.others.pop(told, None)


def _nothing() -> None:
    return None


MOST = 100
"""Locks that one call may take: a script's work is bounded."""


@dataclass(slots=True)
class _Ended:
    """A grant that was given up: the parts that nobody here is in any more, each with its handle and its ending."""

    whole: Lease
    in_time: bool
    parts: list[tuple[Issuer, Lease, tuple[Any, ...]]] = field(default_factory=list)


class MultiLock(Handle):
    """A handle to several locks, the same ones that `lw.lock` takes one by one."""

    noun: ClassVar[str] = "multilock"
    grant_class: ClassVar[type[Grant]] = MultiGrant

    def __init__(
        self,
        runtime: Runtime,
        config: Config,
        names: Sequence[str],
        *,
        wait: Duration | None,
        lease: Duration | None,
        on_lost: OnLost | None,
        tags: Sequence[str] = (),
    ) -> None:
        for name in names:
            keys.checked(name, "a lock's name")
        if not 1 <= len(names) <= MOST:
            raise ConfigError(f"a multilock takes 1 to {MOST} locks, not {len(names)}")
        if len(set(names)) < len(names):
            twice = next(name for at, name in enumerate(names) if name in names[:at])
            raise ConfigError(f"a multilock takes each lock once: {twice!r} is given more than once")
        super().__init__(runtime, config, names[0], wait=wait, lease=lease, on_lost=on_lost, tags=tags)
        self.names: tuple[str, ...] = tuple(names)
        self.name: str = ", ".join(names)
        self._locks = [
            Lock(runtime, config, name, wait=wait, lease=lease, on_lost=None, tags=tags) for name in sorted(names)
        ]
        self._key = " ".join(lock._key for lock in self._locks)  # no key of the server's: where this process has it
        self._by_slot = False

    def acquire(self, wait: Duration | None = None) -> MultiGrant:
        """Wait for one after the other, at most `wait` (None: as given to the handle); returns the grant of all locks.

        Locks that the current thread or task holds already are entered once more. Raises LockTimeout.
        """
        owner, again = self._enter()
        if again is not None:
            return cast("MultiGrant", again)
        return self._runtime.run(self._collecting(owner, self._patience(wait)))

    async def aacquire(self, wait: Duration | None = None) -> MultiGrant:
        """Async version of `acquire`; cancelled, it leaves the line, and gives back what it got."""
        owner, again = self._enter()
        if again is not None:
            return cast("MultiGrant", again)
        return await self._runtime.arun(self._collecting(owner, self._patience(wait)))

    # -- acquiring ----------------------------------------------------------------------------------------------------

    def _collecting(self, owner: Owner, wait: float | None) -> Protocol[MultiGrant]:
        """Enter what this owner has already and acquire the rest, noting all as one step."""
        asked = self._request(owner)
        mine = self._parts_of(owner)
        groups = self._grouped(set(mine))
        entered: list[Grant] = []
        got: dict[str, Granted] = {}
        try:
            for grant in mine.values():
                grant.depth += 1
                entered.append(grant)
            if groups:
                got = yield from protocol.acquire(asked, groups, wait)
            return self._whole(owner, asked, mine, got)
        except GeneratorExit:
            raise
        except BaseException as error:
            for grant in entered:
                grant.depth -= 1
            self._disown_all(owner, asked, got)
            yield from protocol.abandon(asked, groups if got else [], error)
            raise

    def _parts_of(self, owner: Owner) -> dict[str, Grant]:
        """What the owner holds of these locks already, by key."""
        known = ((lock._key, self._runtime.grants.get((lock._key, owner))) for lock in self._locks)
        mine: dict[str, Grant] = {key: grant for key, grant in known if grant is not None and grant._lease is not None}
        for grant in mine.values():
            grant.check()
        return mine

    def _whole(self, owner: Owner, asked: Request, mine: dict[str, Grant], got: dict[str, Granted]) -> MultiGrant:
        parts = [
            mine[lock._key] if lock._key in mine else lock._keep(owner, replace(asked, key=lock._key), got[lock._key])
            for lock in self._locks
        ]
        grant = MultiGrant(self, owner, parts, now())
        self._runtime.grants[self._key, owner] = grant
        return grant

    def _disown_all(self, owner: Owner, asked: Request, got: dict[str, Granted]) -> None:
        """Forget what an interrupted `_whole` has noted."""
        whole = self._runtime.grants.get((self._key, owner))
        if whole is not None:
            whole._unwatch()
            whole._lease = None
            if not whole._bodies:
                del self._runtime.grants[self._key, owner]
        for key, granted in got.items():
            self._disown(replace(asked, key=key), granted)

    def _grouped(self, without: set[str]) -> list[list[str]]:
        """The keys to ask for, as many together as one script may touch, in an order that is everybody's."""
        wanted = [lock._key for lock in self._locks if lock._key not in without]
        if not self._by_slot:
            return [wanted] if wanted else []
        slots: dict[int, list[str]] = {}
        for key in wanted:
            slots.setdefault(key_slot(key.encode()), []).append(key)
        return [slots[slot] for slot in sorted(slots)]

    # -- keeping and ending -------------------------------------------------------------------------------------------

    def _end_parts(self, grant: Grant) -> _Ended | None:
        """Leave every part once; None when that was done before."""
        assert isinstance(grant, MultiGrant)
        whole = grant._lease
        if whole is None:
            return None
        ended = _Ended(whole, in_time=not grant.lost)
        grant._unwatch()
        grant._lease = None
        if not grant._bodies:  # else the end of the body will look for it
            self._runtime.grants.pop((self._key, grant._owner), None)
        for part in grant.parts:
            part.depth -= 1
            if part.depth <= 0:
                ending = part._handle._ending(part)
                over = part._handle._forget(part)
                if over is not None:
                    ended.parts.append((part._handle, over[0], ending))
        return ended

    def _forget(self, grant: Grant) -> tuple[Lease, bool] | None:
        ended = self._end_parts(grant)
        if ended is None:
            return None
        for _, lease, _ in ended.parts:
            self._runtime.engine.give_back(lease)  # without the one that was lost it is of no use
        return ended.whole, ended.in_time

    def _give_up(self, grant: Grant) -> None:
        self._forget(grant)

    def _release_whole(self, grant: Grant) -> None:
        no_running_loop()
        ended = self._end_parts(grant)
        kept = ended is not None and self._runtime.run(self._end_all(ended))
        self._check_released(grant, None if ended is None else (ended.whole, ended.in_time), kept=kept)

    async def _arelease_whole(self, grant: Grant) -> None:
        ended = self._end_parts(grant)
        kept = ended is not None and await self._runtime.arun(self._end_all(ended))
        self._check_released(grant, None if ended is None else (ended.whole, ended.in_time), kept=kept)

    def _end_all(self, ended: _Ended) -> Protocol[bool]:
        """Release what ended, the parts of one owner and group with one script."""
        kept = True
        together: dict[str, dict[str, int]] = {}
        for handle, lease, ending in ended.parts:
            renewal = lease.renewal
            if ending:  # it was first taken for a minimum
                kept = (yield from handle._end(lease, ending)) and kept
            else:
                together.setdefault(renewal.owner, {})[renewal.key] = renewal.fence
        for owner, fences in together.items():
            done = yield from protocol.release(owner, fences, self._grouped(set()))
            kept = kept and all(done.values())
        return kept

    def _lengthen(self, grant: Grant, lease: Duration | None) -> Protocol[None]:
        assert isinstance(grant, MultiGrant)
        # before the check: another thread may release it, or a part, at any time
        kept = {had.renewal.key: had for part in grant.parts if (had := part._lease) is not None}
        grant.check()
        wanted = self._lease_ms if lease is None else milliseconds(lease, "lease")
        for group in self._grouped(set()):
            if not (yield from extend(self._runtime.engine, [kept[key] for key in group], wanted)):
                raise LockLost(f"the lease of {self.noun} {grant.name!r} ended before it was extended")

    # -- the same as in Handle, with what is granted here -------------------------------------------------------------

    def try_acquire(self) -> MultiGrant | None:
        """Take all locks if all are free and nobody waits for them; None, and nothing is taken, otherwise."""
        return cast("MultiGrant | None", super().try_acquire())

    async def atry_acquire(self) -> MultiGrant | None:
        """Async version of `try_acquire`."""
        return cast("MultiGrant | None", await super().atry_acquire())

    def __enter__(self) -> MultiGrant:
        return cast("MultiGrant", super().__enter__())

    async def __aenter__(self) -> MultiGrant:
        return cast("MultiGrant", await super().__aenter__())
