"""A read-write lock: many readers or one writer, in one fair line, so that neither side starves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, cast

from lockwork import owners
from lockwork.config import Config
from lockwork.durations import Duration
from lockwork.errors import LockLost, NotHeld, WouldDeadlock
from lockwork.locks.grant import Grant, OnLost
from lockwork.locks.handle import Handle
from lockwork.owners import Owner
from lockwork.protocol import keys
from lockwork.protocol.effects import Protocol
from lockwork.protocol.locks import permits as protocol
from lockwork.protocol.locks.grants import Granted, Request
from lockwork.protocol.locks.permits import PermitHolder, PermitsState, PermitWaiter
from lockwork.runtime.runtime import Runtime
from lockwork.runtime.sync_driver import no_running_loop
from lockwork.validation import whole

Mode = Literal["read", "write"]


class RWGrant(Grant):
    """A read-write lock in the hands of one task or thread: one grant, however often and on which side it was entered.

    `mode` is what it has now: "write" lets nobody else in, "read" lets other readers in.
    """

    __slots__ = ("_entered", "mode")

    mode: Mode
    _entered: dict[Mode, int]

    def downgrade(self) -> None:
        """Go on as a reader: readers who wait come in at once. The writing side counts as entered until it is left.

        Raises LockLost. A reader cannot become a writer again without releasing first.
        """
        self._side()._runtime.run(self._side()._downgraded(self))

    async def adowngrade(self) -> None:
        """Async version of `downgrade`."""
        await self._side()._runtime.arun(self._side()._downgraded(self))

    def _side(self) -> Side:
        return cast("Side", self._handle)


class Side(Handle):
    """What reading and writing share; see RWLock."""

    kind = protocol.KIND
    grant_class: ClassVar[type[Grant]] = RWGrant
    mode: ClassVar[Mode]

    def acquire(self, wait: Duration | None = None) -> RWGrant:
        """Wait in line, at most `wait` (None: as given to the handle), and return the grant.

        The owner is the current thread or task; it may enter again, and leaves each side as often as it entered.
        Raises LockTimeout; and WouldDeadlock at once when a reader wants to write.
        """
        return cast("RWGrant", super().acquire(wait))

    async def aacquire(self, wait: Duration | None = None) -> RWGrant:
        """Async version of `acquire`; cancelled, it leaves the line, or gives back what it got."""
        return cast("RWGrant", await super().aacquire(wait))

    def try_acquire(self) -> RWGrant | None:
        """Take it if it is free and nobody waits for it; None otherwise."""
        return cast("RWGrant | None", super().try_acquire())

    async def atry_acquire(self) -> RWGrant | None:
        """Async version of `try_acquire`."""
        return cast("RWGrant | None", await super().atry_acquire())

    def __enter__(self) -> RWGrant:
        return cast("RWGrant", super().__enter__())

    async def __aenter__(self) -> RWGrant:
        return cast("RWGrant", await super().__aenter__())

    def release(self) -> None:
        """Leave this side once; the last release hands the lock to the next in line. Raises NotHeld or LockLost."""
        no_running_loop()
        grant = self._mine()
        if not self._left(grant, 1):
            self._release_whole(grant)
        elif self._only_reads(grant):
            self._runtime.run(self._downgraded(grant))

    async def arelease(self) -> None:
        """Async version of `release`."""
        grant = self._mine()
        if not self._left(grant, 1):
            await self._arelease_whole(grant)
        elif self._only_reads(grant):
            await self._runtime.arun(self._downgraded(grant))

    def release_all(self) -> None:
        """Leave this side however often it was entered. Raises NotHeld or LockLost."""
        no_running_loop()
        grant = self._mine()
        if not self._left(grant, grant._entered[self.mode]):
            self._release_whole(grant)
        elif self._only_reads(grant):
            self._runtime.run(self._downgraded(grant))

    async def arelease_all(self) -> None:
        """Async version of `release_all`."""
        grant = self._mine()
        if not self._left(grant, grant._entered[self.mode]):
            await self._arelease_whole(grant)
        elif self._only_reads(grant):
            await self._runtime.arun(self._downgraded(grant))

    def held(self) -> bool:
        """Whether the current thread or task has entered this side, and its lease has not ended."""
        grant = self._known()
        return grant is not None and not grant.lost and grant._entered[self.mode] > 0

    def _key_of(self, name: str) -> str:
        return keys.rwlock(self._prefix, name)

    def _extra(self) -> tuple[Any, ...]:
        return (protocol.ALL if self.mode == "write" else 1), protocol.ALL

    @classmethod
    def _what(cls) -> str:
        return "a read-write lock's name"

    def _known(self) -> RWGrant | None:
        grant: RWGrant | None = self._runtime.grants.get((self._key, owners.current()))
        return grant

    def _enter(self) -> tuple[Owner, Grant | None]:
        self._used_key()
        grant = self._known()
        if grant is None or grant._lease is None:
            return owners.current(), None
        grant.check()
        if grant.mode == "read" and self.mode == "write":
            raise WouldDeadlock(
                f"this thread or task holds read-write lock {self.name!r} for reading, and would wait for itself: "
                "release the reading side first and then read again, or take the writing side from the beginning"
            )
        grant.depth += 1
        grant._entered[self.mode] += 1
        return grant._owner, grant

    def _keep(self, owner: Owner, asked: Request, granted: Granted) -> RWGrant:
        grant = cast("RWGrant", super()._keep(owner, asked, granted))
        grant.mode = self.mode
        grant._entered = {"read": 0, "write": 0}
        grant._entered[self.mode] = 1
        return grant

    def _mine(self) -> RWGrant:
        grant = self._known()
        if grant is None or grant._lease is None or not grant._entered[self.mode]:
            raise NotHeld(f"{self.noun} {self.name!r} is not held by this thread or task")
        return grant

    def _left(self, grant: RWGrant, times: int) -> int:
        """Count that it left this side; returns how often it is still in on either."""
        grant._entered[self.mode] -= times
        grant.depth -= times
        return grant.depth

    def _only_reads(self, grant: RWGrant) -> bool:
        return grant.mode == "write" and not grant._entered["write"]

    def _downgraded(self, grant: RWGrant) -> Protocol[None]:
        lease = grant._lease  # before the check: another thread may release it at any time
        grant.check()
        if grant.mode == "read" and not grant._entered["write"]:
            return
        grant.mode = "read"  # from now on, whether the server has heard of it or not
        assert lease is not None
        renewal = lease.renewal
        if not (yield from protocol.downgrade(renewal.key, renewal.owner, renewal.fence, 1)):
            raise LockLost(f"the lease of {self.noun} {self.name!r} ended before it was downgraded")


class ReadSide(Side):
    """The reading side: held together with other readers."""

    noun = "read lock"
    mode: ClassVar[Mode] = "read"


class WriteSide(Side):
    """The writing side: held alone. Its holder may enter the reading side too, and stay in that when it leaves this."""

    noun = "write lock"
    mode: ClassVar[Mode] = "write"


@dataclass(frozen=True, slots=True)
class RWLockState:
    """The writer or readers, and the waiters; at most as many of each as were asked for."""

    writer: PermitHolder | None
    readers: int
    waiting: int
    named_readers: tuple[PermitHolder, ...]
    line: tuple[PermitWaiter, ...]


class RWLock:
    """A named read-write lock: `read()` and `write()` are what is acquired and released."""

    def __init__(
        self,
        runtime: Runtime,
        config: Config,
        name: str,
        *,
        wait: Duration | None = None,
        lease: Duration | None = None,
        on_lost: OnLost | None = None,
        tags: Sequence[str] = (),
    ) -> None:
        self._runtime = runtime
        self.name: str = name
        self._read = ReadSide(runtime, config, name, wait=wait, lease=lease, on_lost=on_lost, tags=tags)
        self._write = WriteSide(runtime, config, name, wait=wait, lease=lease, on_lost=on_lost, tags=tags)

    def read(self) -> ReadSide:
        """The reading side, a handle that threads and tasks may share."""
        return self._read

    def write(self) -> WriteSide:
        """The writing side, a handle that threads and tasks may share."""
        return self._write

    def inspect(self, *, readers: int = 100, waiters: int = 100) -> RWLockState:
        """Read the holders and waiters from the server, at most as many readers and waiters as asked for."""
        return _shown(self._runtime.run(self._look(readers, waiters)))

    async def ainspect(self, *, readers: int = 100, waiters: int = 100) -> RWLockState:
        """Async version of `inspect`."""
        return _shown(await self._runtime.arun(self._look(readers, waiters)))

    def force_release(self) -> int:
        """Take it away from the writer, or from all readers; returns how many lost it. The waiters come next."""
        return self._runtime.run(protocol.force(self._key(), self._runtime.channels))

    async def aforce_release(self) -> int:
        """Async version of `force_release`."""
        return await self._runtime.arun(protocol.force(self._key(), self._runtime.channels))

    def _look(self, readers: int, waiters: int) -> Protocol[PermitsState]:
        holders = max(1, whole(readers, "readers", 0, protocol.ALL))
        return protocol.state(self._key(), holders=holders, waiters=whole(waiters, "waiters", 0, protocol.ALL))

    def _key(self) -> str:
        return self._read._used_key()

    def __repr__(self) -> str:
        return f"<RWLock {self.name!r}>"


def _shown(state: PermitsState) -> RWLockState:
    writer = next((held for held in state.holders if held.units > 1), None)
    return RWLockState(
        writer,
        0 if writer else state.held,
        state.waiting,
        () if writer else state.holders,
        state.line,
    )
