"""The lock: `with lw.lock("order:42") as grant`."""

from __future__ import annotations

import contextlib
from typing import TypeVar, Unpack

from msgspec.structs import replace

from lockwork.config import Config
from lockwork.durations import Duration, lease_milliseconds, milliseconds
from lockwork.errors import ConfigError, LockLost, LockworkError
from lockwork.locks.grant import ExportedGrant, Grant, LockHold, read_export
from lockwork.locks.handle import Handle
from lockwork.locks.hold import Hold
from lockwork.locks.options import LockSettings
from lockwork.owners import Owner
from lockwork.protocol.effects import Protocol
from lockwork.protocol.locks import grants
from lockwork.protocol.locks.grants import Granted, LockState
from lockwork.protocol.locks.leases import Lease
from lockwork.protocol.locks.overview import Holder, read
from lockwork.runtime.drive import no_running_loop
from lockwork.runtime.runtime import Runtime
from lockwork.validation import whole

G = TypeVar("G", bound=Grant)


class ExclusiveLock(Handle[G]):
    """Base class of `lw.lock(...)` and `lw.queue(...).lock(...)`: a reentrant lock with one holder at a time."""

    def __init__(
        self,
        runtime: Runtime,
        config: Config,
        name: str,
        *,
        at_least: Duration | None = None,
        replicas: int = 0,
        **settings: Unpack[LockSettings[G]],
    ) -> None:
        super().__init__(runtime, config, name, **settings)
        options, at_least_ms = self._options, 0 if at_least is None else milliseconds(at_least, "at_least")
        if not options.renewed and at_least_ms > options.lease_ms:
            raise ConfigError("at_least must not be longer than the lease, after which the lock is free in any case")
        self._options = replace(
            options,
            lease_ms=max(options.lease_ms, at_least_ms),
            at_least=at_least_ms / 1000,
            at_once=at_least is not None,
            replicas=whole(replicas, "replicas", 0, 100),
        )

    def inspect(self) -> LockState:
        """Read from the server who holds the lock and how many wait (see `LockState.waiters`)."""
        return self._runtime.run(grants.state(self._used_key()))

    async def ainspect(self) -> LockState:
        """Async version of `inspect`."""
        return await self._runtime.arun(grants.state(self._used_key()))

    def locked(self) -> bool:
        """Return whether the lock is held, or kept for its minimum time. One round trip; `inspect` reads everything."""
        return self._runtime.run(self._short_state()).expires_in > 0

    async def alocked(self) -> bool:
        """Async version of `locked`."""
        return (await self._runtime.arun(self._short_state())).expires_in > 0

    def owner(self) -> Holder | None:
        """Return the owner of the lock: host, process, thread or task, and tags; None if it is free. One round trip."""
        return _owner(self._runtime.run(self._short_state()))

    async def aowner(self) -> Holder | None:
        """Async version of `owner`."""
        return _owner(await self._runtime.arun(self._short_state()))

    def remaining(self) -> float:
        """Return the seconds that the current lease lasts unless it is renewed; 0 if the lock is free.

        One round trip.
        """
        return self._runtime.run(self._short_state()).expires_in

    async def aremaining(self) -> float:
        """Async version of `remaining`."""
        return (await self._runtime.arun(self._short_state())).expires_in

    def force_release(self) -> bool:
        """Release the lock by force; True if it was held.

        The next waiter gets it at once, and the holder is notified that its lease is lost. Only a store that checks the
        fence can refuse the holder's late writes.
        """
        return self._runtime.run(self._force())

    async def aforce_release(self) -> bool:
        """Async version of `force_release`."""
        return await self._runtime.arun(self._force())

    def export(self, lease: Duration | None = None) -> str:
        """Give up this thread's or task's grant, and return a text that another process can `adopt`.

        The other process must adopt it within `lease` (None: the handle's lease), which is not renewed.
        Raises NotHeld or LockLost.
        """
        no_running_loop()
        return self._runtime.run(self._exporting(lease))

    async def aexport(self, lease: Duration | None = None) -> str:
        """Async version of `export`."""
        return await self._runtime.arun(self._exporting(lease))

    def adopt(self, exported: str) -> G:
        """Continue with an exported grant, under a higher fence. Raises LockLost if its lease has ended."""
        no_running_loop()
        hold = self._runtime.run(self._adopting(exported))
        return hold.grant or hold.new_grant()

    async def aadopt(self, exported: str) -> G:
        """Async version of `adopt`."""
        hold = await self._runtime.arun(self._adopting(exported))
        return hold.grant or hold.new_grant()

    def _short_state(self) -> Protocol[LockState]:
        return grants.state(self._used_key(), count=False)

    def _exporting(self, lease: Duration | None) -> Protocol[str]:
        """Transfer the caller's grant to the adopter of the text; if that fails, release it."""
        hold = self._current_hold()
        lease_ms = self._options.lease_ms if lease is None else lease_milliseconds(lease)
        ended = hold.forget()
        if ended is None or not ended[1]:
            raise LockLost(f"the lease of {hold.shown} ended before it could be exported")
        request, renewal = self._new_request(hold.owner), ended[0].renewal
        # owned by no holder: under the exporter's own name, its next request would look to the server like the holder's
        transit = replace(request, owner=f"{request.owner}~{request.request}", lease_ms=lease_ms)
        try:
            moved = yield from grants.adopt(transit, renewal.owner, renewal.fence)
        except GeneratorExit:
            raise
        except BaseException:
            yield from grants.abandon(transit)
            with contextlib.suppress(LockworkError):
                yield from grants.release(renewal.key, renewal.owner, renewal.fence, patience=1)
            raise
        if moved is None:
            raise LockLost(f"the lease of {hold.shown} ended before it could be exported")
        return ExportedGrant(request.key, transit.owner, moved.fence).text()

    def _adopting(self, exported: str) -> Protocol[Hold[G]]:
        export = read_export(exported, self._used_key())
        again = self._reenter()
        if again is not None:
            again.depth -= 1
            raise ConfigError(
                f"lock {self._options.label!r} is already held by this thread or task, which cannot adopt another grant"
            )
        owner = self._owner()
        request = self._new_request(owner)
        return self._acquire_and_register(
            owner, request, self._adopted(grants.adopt(request, export.owner, export.fence))
        )

    def _adopted(self, adopting: Protocol[Granted | None]) -> Protocol[Granted]:
        granted = yield from adopting
        if granted is None:
            raise LockLost(
                f"the lease of lock {self._options.label!r} ended before the grant was adopted, or the grant was "
                "already adopted"
            )
        return granted

    def _force(self) -> Protocol[bool]:
        # the fence identifies the grant: called again after a lost reply, it must not end the next one
        state = yield from self._short_state()
        if not state.expires_in:
            return False
        return (yield from grants.force(self._key, state.fence, self._runtime.channels))


class Lock(ExclusiveLock[Grant]):
    """A handle to one named lock; it holds nothing itself, so threads and tasks may share it."""

    def _new_hold(self, owner: Owner, lease: Lease, since: float) -> Hold[Grant]:
        return LockHold(self._options, owner, lease, since)


def _owner(state: LockState) -> Holder | None:
    return None if state.owner is None else read(state.owner, state.request)
