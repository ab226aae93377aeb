"""A read-write lock: many readers or one writer, served in one order of arrival, so that neither side starves."""

from __future__ import annotations

from typing import ClassVar, Literal, Unpack

from msgspec import Struct
from msgspec.structs import replace

from lockwork import owners
from lockwork.config import Config
from lockwork.durations import Duration
from lockwork.errors import LockLost, WouldDeadlock
from lockwork.locks.grant import Grant
from lockwork.locks.handle import Handle
from lockwork.locks.hold import Hold
from lockwork.locks.options import LockOptions, LockSettings, Steps
from lockwork.owners import Owner
from lockwork.protocol import keys, names
from lockwork.protocol.effects import Protocol
from lockwork.protocol.locks.grants import LockScripts
from lockwork.protocol.locks.leases import Lease
from lockwork.protocol.permits import permits
from lockwork.protocol.permits.permits import PermitHolder, PermitsState, PermitWaiter
from lockwork.runtime.runtime import Runtime
from lockwork.validation import whole

Mode = Literal["read", "write"]


class RWGrant(Grant):
    """The grant of a read-write lock to one task or thread, for all of its acquisitions in both modes.

    `mode` is its current mode: "write" excludes all others, "read" allows other readers.
    """

    __slots__ = ("_sides",)

    def __init__(self, hold: RWHold) -> None:
        super().__init__(hold)
        self._sides = hold

    @property
    def mode(self) -> Mode:
        """The current mode."""
        return self._sides.mode

    def downgrade(self) -> None:
        """Continue as a reader: waiting readers enter at once. The write mode still needs its release.

        Raises LockLost. A reader cannot become a writer again without releasing first.
        """
        self._sides.options.runner.run(self._sides.downgrade())

    async def adowngrade(self) -> None:
        """Async version of `downgrade`."""
        await self._sides.options.runner.arun(self._sides.downgrade())


class RWHold(Hold[RWGrant]):
    """A read-write lock held by one thread or task, on one side or both."""

    __slots__ = ("entered", "mode")
    grant_class = RWGrant

    def __init__(self, options: LockOptions, owner: Owner, lease: Lease, since: float, mode: Mode) -> None:
        self.mode: Mode = mode
        self.entered: dict[Mode, int] = {"read": 0, "write": 0, mode: 1}
        super().__init__(options, owner, lease, since)

    def leave(self, mode: Mode, times: int) -> Steps[None] | None:
        """Leave one side `times` times; return the calls to the server, if any."""
        self.entered[mode] -= times
        self.depth: int = self.depth - times
        if not self.depth:
            return self.end()
        return self.downgrade() if self.mode == "write" and not self.entered["write"] else None

    def downgrade(self) -> Protocol[None]:
        """Let other readers in. Raises LockLost."""
        lease = self.lease  # before the check: another thread may release it at any time
        self.check()
        if self.mode == "read" and not self.entered["write"]:
            return
        self.mode = "read"  # from now on, whether or not the server has received the call
        assert lease is not None
        renewal = lease.renewal
        if not (yield from permits.downgrade(renewal.key, renewal.owner, renewal.fence, 1)):
            raise LockLost(f"the lease of {self.shown} ended before it was downgraded")


class Side(Handle[RWGrant]):
    """Base class of the read side and the write side; see RWLock."""

    scripts: ClassVar[LockScripts] = permits.SCRIPTS
    mode: ClassVar[Mode]

    def __init__(
        self,
        runtime: Runtime,
        config: Config,
        name: str,
        **settings: Unpack[LockSettings[RWGrant]],
    ) -> None:
        super().__init__(runtime, config, name, **settings)
        units = permits.ALL if self.mode == "write" else 1
        self._options = replace(self._options, extra=(units, permits.ALL))

    def acquire(self, wait: Duration | None = None) -> RWGrant:
        """Wait up to `wait` for the grant (None: the handle's `wait`), in order of arrival, and return it.

        The owner is the current thread or task. It may acquire again, and must release each mode as often as it
        acquired it. Raises LockTimeout, or WouldDeadlock at once if a reader requests the write lock.
        """
        return super().acquire(wait)

    def release(self) -> None:
        """Release this mode once; the last release grants the lock to the next waiter. Raises NotHeld or LockLost."""
        super().release()

    def release_all(self) -> None:
        """Release all acquisitions of this mode. Raises NotHeld or LockLost."""
        super().release_all()

    def held(self) -> bool:
        """Return whether the current thread or task holds this mode and its lease has not ended."""
        hold = self._known()
        return hold is not None and not hold.lost and hold.entered[self.mode] > 0

    def _key_of(self, name: str) -> str:
        return keys.rwlock(self._prefix, name)

    @classmethod
    def _what(cls) -> str:
        return "a read-write lock's name"

    def _new_hold(self, owner: Owner, lease: Lease, since: float) -> Hold[RWGrant]:
        return RWHold(self._options, owner, lease, since, self.mode)

    def _known(self) -> RWHold | None:
        hold: RWHold | None = self._runner.holds.get((self._key, owners.current()))
        return hold

    def _reenter(self) -> Hold[RWGrant] | None:
        self._used_key()
        hold = self._known()
        if hold is None or hold.lease is None:
            return None
        hold.check()
        if hold.mode == "read" and self.mode == "write":
            raise WouldDeadlock(
                f"this thread or task holds read-write lock {self._options.label!r} for reading, so the write lock "
                "would deadlock: release the read lock first, or start with the write lock"
            )
        hold.depth += 1
        hold.entered[self.mode] += 1
        return hold

    def _current_hold(self) -> RWHold:
        hold = self._known()
        if hold is None or hold.lease is None or not hold.entered[self.mode]:
            raise self._not_held()
        return hold

    def _release_once(self, hold: Hold[RWGrant]) -> Steps[None] | None:  # noqa: ARG002 - the method of every handle
        return self._current_hold().leave(self.mode, 1)  # the body may have left this side, and hold the other one

    def _release_completely(self) -> Steps[None] | None:
        hold = self._current_hold()
        return hold.leave(self.mode, hold.entered[self.mode])


class ReadSide(Side):
    """The read mode, held together with other readers."""

    noun = "read lock"
    mode: ClassVar[Mode] = "read"


class WriteSide(Side):
    """The write mode, held alone. Its holder may also acquire the read mode, and keep it after releasing this one."""

    noun = "write lock"
    mode: ClassVar[Mode] = "write"


class RWLockState(Struct, frozen=True):
    """The writer or readers, and the waiters; at most the requested number of each."""

    writer: PermitHolder | None
    readers: int
    waiting: int
    named_readers: tuple[PermitHolder, ...]
    line: tuple[PermitWaiter, ...]


class RWLock:
    """A named read-write lock; acquire and release its `read()` and `write()` handles."""

    def __init__(
        self,
        runtime: Runtime,
        config: Config,
        name: str,
        **settings: Unpack[LockSettings[RWGrant]],
    ) -> None:
        self._runtime = runtime
        self.name: str = name
        self._prefix = config.prefix
        self._read = ReadSide(runtime, config, name, **settings)
        self._write = WriteSide(runtime, config, name, **settings)

    def read(self) -> ReadSide:
        """Return the handle of the read mode, which threads and tasks may share."""
        return self._read

    def write(self) -> WriteSide:
        """Return the handle of the write mode, which threads and tasks may share."""
        return self._write

    def inspect(self, *, readers: int = 100, waiters: int = 100) -> RWLockState:
        """Read the holders and waiters from the server, at most the requested number of each."""
        return _shown(self._runtime.run(self._state(readers, waiters)))

    async def ainspect(self, *, readers: int = 100, waiters: int = 100) -> RWLockState:
        """Async version of `inspect`."""
        return _shown(await self._runtime.arun(self._state(readers, waiters)))

    def force_release(self) -> int:
        """Release it by force for the writer or all readers; returns their number. The waiters are next."""
        return self._runtime.run(permits.force(self._key(), self._runtime.channels))

    async def aforce_release(self) -> int:
        """Async version of `force_release`."""
        return await self._runtime.arun(permits.force(self._key(), self._runtime.channels))

    def _state(self, readers: int, waiters: int) -> Protocol[PermitsState]:
        holders = max(1, whole(readers, "readers", 0, permits.ALL))
        return permits.state(self._key(), holders=holders, waiters=whole(waiters, "waiters", 0, permits.ALL))

    def _key(self) -> str:
        return keys.rwlock(self._prefix, self.name)

    def __repr__(self) -> str:
        return f"<RWLock {names.display(self.name)!r}>"


def _shown(state: PermitsState) -> RWLockState:
    writer = next((held for held in state.holders if held.units > 1), None)
    return RWLockState(
        writer,
        0 if writer else state.held,
        state.waiting,
        () if writer else state.holders,
        state.line,
    )
