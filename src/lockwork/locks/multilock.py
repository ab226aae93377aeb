"""Several locks as one: `with lw.multilock("a", "b") as grant`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Unpack

from msgspec.structs import replace

from lockwork.config import Config
from lockwork.durations import Duration, lease_milliseconds
from lockwork.errors import ConfigError, LockLost
from lockwork.locks.grant import Grant, LockHold
from lockwork.locks.handle import Handle
from lockwork.locks.hold import Ended, Hold, disown, extend, new_lease, nothing, release
from lockwork.locks.options import LockOptions, LockSettings, Steps
from lockwork.naming import literal, template
from lockwork.owners import Owner
from lockwork.protocol import keys
from lockwork.protocol.effects import Protocol
from lockwork.protocol.locks import multilock as multilock_protocol
from lockwork.protocol.locks.grants import Granted, Renewal, Request
from lockwork.protocol.locks.leases import Lease
from lockwork.protocol.names import stored
from lockwork.protocol.slots import of_key as slot_of
from lockwork.protocol.slots import tag_of
from lockwork.runtime.clock import now
from lockwork.runtime.runtime import Runtime

MOST = 100
"""Locks that one call may take: a script's work is bounded."""
Part = tuple[LockOptions, Lease, tuple[int, ...]]
"""A lock that has ended, its lease, and the extra arguments of its release script."""


class MultiGrant(Grant):
    """The grant of several locks to one task or thread. `fences` has each lock's fence, `fence` is the highest of them.

    Each part is an ordinary grant: its lock is re-entrant for the owner, and its lease is renewed as any other.
    """

    __slots__ = ("parts",)

    def __init__(self, hold: MultiHold) -> None:
        super().__init__(hold)
        self.parts: tuple[Grant, ...] = tuple(part.grant or part.new_grant() for part in hold.parts)

    @property
    def fences(self) -> dict[str, int]:
        """The fence of each lock, by name: with each write, send the fence of the lock that protects it."""
        return {part.name: part.fence for part in self.parts}


class MultiHold(Hold[MultiGrant]):
    """Several locks held by one thread or task; each part has a separate hold."""

    __slots__ = ("grouped", "notified", "parts")
    grant_class = MultiGrant

    def __init__(
        self,
        options: LockOptions,
        owner: Owner,
        parts: Sequence[Hold[Grant]],
        since: float,
        grouped: Callable[[Sequence[str]], list[list[str]]],
    ) -> None:
        self.parts: tuple[Hold[Grant], ...] = tuple(parts)
        self.notified: bool = False
        self.grouped: Callable[[Sequence[str]], list[list[str]]] = grouped
        fence = max(part.fence for part in parts)
        # the engine does not know this lease: it only records that the multilock was not released yet
        renewal = Renewal(options.key, "", fence, options.lease_ms)
        lease = Lease(renewal, Granted(fence, float("inf")), since, renewed=False, on_lost=nothing)
        super().__init__(options, owner, lease, since)
        for part in parts:
            watch(part, self._part_lost)

    @property
    def lost(self) -> bool:
        """True if the lease of any of the locks has ended."""
        return self.lease is None or any(part.lost for part in self.parts)

    @property
    def remaining(self) -> float:
        """Seconds that all leases last unless they are renewed; 0 when one is lost."""
        return 0.0 if self.lease is None else min(part.remaining for part in self.parts)

    def extend(self, lease: Duration | None) -> Protocol[None]:
        """Extend all leases. Raises LockLost."""
        # before the check: another thread may release it, or a part, at any time
        leases = {had.renewal.key: had for part in self.parts if (had := part.lease) is not None}
        self.check()
        lease_ms = self.options.lease_ms if lease is None else lease_milliseconds(lease)
        for group in self.grouped(self._keys()):
            if not (yield from extend(self.options.runtime.engine, [leases[key] for key in group], lease_ms)):
                raise LockLost(f"the lease of {self.shown} ended before it was extended")

    def end(self) -> Steps[None]:
        """Release every part once, and return the calls to the server. Raises NotHeld."""
        parts = self._leave_parts()
        if parts is None:
            raise self._not_held()
        return self._end_parts(parts[1], parts[0][1])

    def forget(self) -> Ended | None:
        """Release every part once; the engine ends the parts on the server: without the lost part they are useless."""
        parts_left = self._leave_parts()
        if parts_left is None:
            return None
        ended, parts = parts_left
        for _, lease, extra in parts:
            self.options.runtime.engine.give_back(lease, extra)
        return ended

    def give_up(self) -> None:
        """End the hold without waiting."""
        self.forget()

    def release_later(self) -> None:
        """End the hold without waiting; parts that were also acquired otherwise stay."""
        self.forget()

    def keep(self) -> None:
        """Note the hold in this process; its parts have separate holds and renewals."""
        self.options.runtime.holds[self.options.key, self.owner] = self

    def drop(self) -> None:
        """Forget the multilock's hold in this process; the holds of its parts stay."""
        self._unwatch()
        self.lease: Lease | None = None
        self.grant: MultiGrant | None = None
        if self.on_end is not None:
            self.ended()
        if not self.bodies:  # else the end of the body will look for it
            self.options.runtime.holds.pop((self.options.key, self.owner), None)

    def _leave_parts(self) -> tuple[Ended, list[Part]] | None:
        """Release every part once, and return the lease and the parts that ended; None if that was already done."""
        whole = self.lease
        if whole is None:
            return None
        ended, parts = (whole, not self.lost), list[Part]()
        self.drop()
        for part in self.parts:
            part.depth -= 1
            if part.depth <= 0:
                extra = part.release_arguments()
                over = part.forget()
                if over is not None:
                    parts.append((part.options, over[0], extra))
        return ended, parts

    def _end_parts(self, parts: list[Part], in_time: bool) -> Protocol[None]:
        """Release the ended parts on the server; one script releases the parts of one owner and group."""
        released = True
        together: dict[str, dict[str, int]] = {}
        for options, lease, extra in parts:
            renewal = lease.renewal
            if extra:  # a lock with `at_least` stays taken for some time
                released = (yield from release(lease, extra, options.scripts)) and released
            else:
                together.setdefault(renewal.owner, {})[renewal.key] = renewal.fence
        for owner, fences in together.items():
            done = yield from multilock_protocol.release(owner, fences, self.grouped(self._keys()))
            released = released and all(done.values())
        self._check_released(released and in_time)

    def _keys(self) -> list[str]:
        return [part.options.key for part in self.parts]

    def _part_lost(self) -> None:
        if self.lease is not None and not self.notified:
            self.notified = True
            self.notify_lost()

    def _unwatch(self) -> None:
        for part in self.parts:
            unwatch(part, self._part_lost)


class WatchedLease:
    """The `on_lost` of a lease that notifies its own hold first, and then other callers."""

    __slots__ = ("first", "others")

    def __init__(self, first: Callable[[], None]) -> None:
        self.first: Callable[[], None] = first
        self.others: dict[Callable[[], None], None] = {}

    def __call__(self) -> None:
        self.first()
        for notify in list(self.others):
            notify()


def watch(part: Hold[Grant], notify: Callable[[], None]) -> None:
    """Call `notify`, on the engine's thread, when the lease of `part` is lost; at once if it is already."""
    lease = part.lease
    if lease is not None:
        watched = lease.on_lost
        if not isinstance(watched, WatchedLease):
            watched = lease.on_lost = WatchedLease(watched)
        watched.others[notify] = None
    if lease is None or lease.lost:
        notify()


def unwatch(part: Hold[Grant], notify: Callable[[], None]) -> None:
    """Do not call `notify` any more."""
    lease = part.lease
    if lease is not None and isinstance(lease.on_lost, WatchedLease):
        lease.on_lost.others.pop(notify, None)


class MultiLock(Handle[MultiGrant]):
    """A handle to several locks, the same locks that `lw.lock` returns one by one."""

    noun: ClassVar[str] = "multilock"

    def __init__(
        self,
        runtime: Runtime,
        config: Config,
        names: Sequence[str],
        **settings: Unpack[LockSettings[MultiGrant]],
    ) -> None:
        for name in names:
            literal(name, "a lock's name")
        if not 1 <= len(names) <= MOST:
            raise ConfigError(f"a multilock takes 1 to {MOST} locks, not {len(names)}")
        ordered = {stored(name): name for name in sorted(names, key=stored)}
        if len(ordered) < len(names):
            twice = next(name for at, name in enumerate(names) if name in names[:at])
            raise ConfigError(f"a multilock takes each lock once: {twice!r} is duplicated")
        super().__init__(runtime, config, names[0], **settings)
        self.names: tuple[str, ...] = tuple(names)
        self.name: str = ", ".join(names)
        self._braced: bool = False
        single = replace(self._options, noun="lock", on_lost=None)
        self._parts = [replace(single, name=name, key=keys.lock(config.prefix, name)) for name in ordered.values()]
        self._key = " ".join(part.key for part in self._parts)  # no key of the server's: where this process has it
        self._options = replace(self._options, name=self.name, key=self._key)
        self._by_slot = False

    def acquire(self, wait: Duration | None = None) -> MultiGrant:
        """Wait up to `wait` for all locks (None: the handle's `wait`), one after the other; returns their grant.

        It re-enters locks that the current thread or task already holds. Raises LockTimeout.
        """
        return super().acquire(wait)

    def try_acquire(self) -> MultiGrant | None:
        """Acquire all locks if all are free and have no waiters; otherwise acquire none and return None."""
        return super().try_acquire()

    def _check_decorated(self, function: Callable[..., Any]) -> None:
        super()._check_decorated(function)
        for name in self.names:
            pattern = template(name, "a lock's name")
            if pattern is not None and pattern.has_placeholders:
                raise ConfigError(
                    f"the names of a multilock are not filled from arguments, and {name!r} looks like a template: "
                    "acquire the multilock inside the function"
                )

    def _acquire_hold(self, wait: Duration | None) -> Protocol[Hold[MultiGrant]]:
        return self._collecting(self._owner(), self._options.patience(wait))

    def _collecting(self, owner: Owner, wait: float | None) -> Protocol[Hold[MultiGrant]]:
        """Reenter the locks that this owner holds, acquire the others, and register them as one hold."""
        request = self._new_request(owner)
        mine = self._parts_of(owner)
        groups = self._grouped([part.key for part in self._parts if part.key not in mine])
        entered: list[Hold[Grant]] = []
        got: dict[str, Granted] = {}
        try:
            for hold in mine.values():
                hold.depth += 1
                entered.append(hold)
            if groups:
                got = yield from multilock_protocol.acquire(request, groups, wait)
            return self._whole(owner, request, mine, got)
        except GeneratorExit:
            raise
        except BaseException as error:
            for hold in entered:
                hold.depth -= 1
            self._disown_all(owner, request, got)
            yield from multilock_protocol.abandon(request, groups if got else [], error)
            raise

    def _parts_of(self, owner: Owner) -> dict[str, Hold[Grant]]:
        """Return the owner's holds of these locks, by key."""
        pairs = ((part.key, self._runtime.holds.get((part.key, owner))) for part in self._parts)
        mine: dict[str, Hold[Grant]] = {key: hold for key, hold in pairs if hold is not None and hold.lease is not None}
        for hold in mine.values():
            hold.check()
        return mine

    def _whole(
        self, owner: Owner, request: Request, mine: dict[str, Hold[Grant]], got: dict[str, Granted]
    ) -> MultiHold:
        parts = [
            mine[part.key] if part.key in mine else _kept(part, owner, replace(request, key=part.key), got[part.key])
            for part in self._parts
        ]
        hold = MultiHold(self._options, owner, parts, now(), self._grouped)
        hold.keep()
        return hold

    def _disown_all(self, owner: Owner, request: Request, got: dict[str, Granted]) -> None:
        """Remove the holds that an interrupted `_whole` has registered."""
        whole: MultiHold | None = self._runtime.holds.get((self._key, owner))
        if whole is not None:
            whole.drop()
        for key, granted in got.items():
            disown(self._runtime, replace(request, key=key), granted)

    def _grouped(self, wanted: Sequence[str]) -> list[list[str]]:
        """Group the keys so that one script may access each group; all processes use the same order."""
        if not (self._by_slot or self._runtime.clustered):
            return [list(wanted)] if wanted else []
        tags: dict[tuple[int, str], list[str]] = {}
        for key in wanted:
            # not by slot alone: a script sends its messages under the hash tag of its first key
            tags.setdefault((slot_of(key), tag_of(key)), []).append(key)
        return [tags[place] for place in sorted(tags)]


def _kept(options: LockOptions, owner: Owner, request: Request, granted: Granted) -> Hold[Grant]:
    since = now()
    hold = LockHold(options, owner, new_lease(options, request, granted, since), since)
    hold.keep()
    return hold
