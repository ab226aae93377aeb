"""The lock as users hold it: `with lw.lock("order:42") as grant`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lockwork.config import Config
from lockwork.durations import Duration, milliseconds
from lockwork.errors import ConfigError, LockLost
from lockwork.locks.grant import Grant, OnLost, export, read_export
from lockwork.locks.handle import Handle
from lockwork.protocol.effects import Protocol
from lockwork.protocol.locks import grants as protocol
from lockwork.protocol.locks.grants import Granted, LockState
from lockwork.protocol.locks.overview import Holder, read
from lockwork.runtime.clock import now
from lockwork.runtime.runtime import Runtime
from lockwork.runtime.sync_driver import no_running_loop
from lockwork.validation import whole


class Lock(Handle):
    """A handle to one named lock; it holds nothing itself, so threads and tasks may share it."""

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
        at_least: Duration | None = None,
        replicas: int = 0,
    ) -> None:
        super().__init__(runtime, config, name, wait=wait, lease=lease, on_lost=on_lost, tags=tags)
        self.replicas: int = whole(replicas, "replicas", 0, 100)
        at_least_ms = 0 if at_least is None else milliseconds(at_least, "at_least")
        self._at_least = at_least_ms / 1000
        if not self._renewed and at_least_ms > self._lease_ms:
            raise ConfigError("at_least must not be longer than the lease, after which the lock is free in any case")
        self._at_once = at_least is not None
        self._lease_ms = max(self._lease_ms, at_least_ms)

    def inspect(self) -> LockState:
        """Read from the server who holds the lock and how many wait (see `LockState.waiters`)."""
        return self._runtime.run(protocol.state(self._used_key()))

    async def ainspect(self) -> LockState:
        """Async version of `inspect`."""
        return await self._runtime.arun(protocol.state(self._used_key()))

    def locked(self) -> bool:
        """Whether anybody holds the lock, or it is kept for its minimum. One round trip; `inspect` reads everything."""
        return self._runtime.run(self._looking()).expires_in > 0

    async def alocked(self) -> bool:
        """Async version of `locked`."""
        return (await self._runtime.arun(self._looking())).expires_in > 0

    def owner(self) -> Holder | None:
        """Who holds the lock: host, process, thread or task, and tags; None when nobody does. One round trip."""
        return _owner(self._runtime.run(self._looking()))

    async def aowner(self) -> Holder | None:
        """Async version of `owner`."""
        return _owner(await self._runtime.arun(self._looking()))

    def remaining(self) -> float:
        """Seconds that the lease of the present holder lasts unless it is renewed; 0 if the lock is free.

        One round trip.
        """
        return self._runtime.run(self._looking()).expires_in

    async def aremaining(self) -> float:
        """Async version of `remaining`."""
        return (await self._runtime.arun(self._looking())).expires_in

    def force_release(self) -> bool:
        """Take the lock away from its holder; True if there was one.

        The next waiter gets it at once, and the holder is notified that its lease is lost. What the holder still
        writes, only a store that checks the fence refuses.
        """
        return self._runtime.run(self._force())

    async def aforce_release(self) -> bool:
        """Async version of `force_release`."""
        return await self._runtime.arun(self._force())

    def export(self, lease: Duration | None = None) -> str:
        """End this thread's or task's grant here, and return a text with which another process can `adopt` it.

        It must do so within `lease` (None: as given to the handle), which nobody renews. Raises NotHeld or LockLost.
        """
        no_running_loop()
        return self._runtime.run(self._exporting(lease))

    async def aexport(self, lease: Duration | None = None) -> str:
        """Async version of `export`."""
        return await self._runtime.arun(self._exporting(lease))

    def adopt(self, exported: str) -> Grant:
        """Go on with a grant that was exported, under a higher fence. Raises LockLost when its lease has ended."""
        no_running_loop()
        return self._runtime.run(self._adopting(exported))

    async def aadopt(self, exported: str) -> Grant:
        """Async version of `adopt`."""
        return await self._runtime.arun(self._adopting(exported))

    def _looking(self) -> Protocol[LockState]:
        return protocol.state(self._used_key(), count=False)

    def _exporting(self, lease: Duration | None) -> Protocol[str]:
        grant = self._mine()
        lease_ms = self._lease_ms if lease is None else milliseconds(lease, "lease")
        ended = self._forget(grant)
        if ended is None or not ended[1]:
            raise LockLost(f"the lease of lock {grant.name!r} ended before it could be exported")
        return export(self, grant, ended[0], lease_ms)

    def _adopting(self, exported: str) -> Protocol[Grant]:
        passed = read_export(exported, self._used_key())
        owner, again = self._enter()
        if again is not None:
            again.depth -= 1
            raise ConfigError(
                f"lock {self.name!r} is held by this thread or task already: it cannot adopt another grant"
            )
        asked = self._request(owner)
        return self._booked(owner, asked, self._adopted(protocol.adopt(asked, passed.owner, passed.fence)))

    def _adopted(self, adopting: Protocol[Granted | None]) -> Protocol[Granted]:
        granted = yield from adopting
        if granted is None:
            raise LockLost(
                f"the lease of lock {self.name!r} ended before the grant was adopted, or it was adopted before"
            )
        return granted

    def _force(self) -> Protocol[bool]:
        # the fence says which grant is meant: called again after a lost reply, it must not end the next one
        seen = yield from self._looking()
        if not seen.expires_in:
            return False
        return (yield from protocol.force(self._key, seen.fence, self._runtime.channels))

    def _ending(self, grant: Grant) -> tuple[Any, ...]:
        left = grant._since + self._at_least - now()
        return (round(left * 1000),) if left >= 0.001 else ()


def _owner(state: LockState) -> Holder | None:
    return None if state.owner is None else read(state.owner, state.request)
