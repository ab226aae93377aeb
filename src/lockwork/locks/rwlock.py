"""A read-write lock: many readers or one writer, in one fair line, so that neither side starves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lockwork.config import Config
from lockwork.validation import whole
from lockwork.durations import Duration
from lockwork.locks.grant import OnLost
from lockwork.locks.sides import ReadSide, WriteSide
from lockwork.protocol.effects import Protocol
from lockwork.protocol.locks import permits as protocol
from lockwork.protocol.locks.permits import PermitHolder, PermitsState, PermitWaiter
from lockwork.runtime.runtime import Runtime


@dataclass(frozen=True, slots=True)
class RWLockState:
    """Who writes or reads now, and who waits in line; at most so many of each are named as were asked for."""

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

    def state(self, *, readers: int = 100, waiters: int = 100) -> RWLockState:
        """Read from the server who holds it and who waits; at most so many readers and waiters are named."""
        return _shown(self._runtime.run(self._look(readers, waiters)))

    async def astate(self, *, readers: int = 100, waiters: int = 100) -> RWLockState:
        """The same for a task."""
        return _shown(await self._runtime.arun(self._look(readers, waiters)))

    def force_release(self) -> int:
        """Take it away from the writer, or from all readers; returns how many lost it. Who waits in line comes next."""
        return self._runtime.run(protocol.force(self._key(), self._runtime.channels))

    async def aforce_release(self) -> int:
        """The same for a task."""
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
