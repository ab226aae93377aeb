"""Holds of this process: one `Hold` for each grant of a thread or task."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from msgspec.structs import replace

from lockwork import words
from lockwork.durations import Duration, lease_milliseconds
from lockwork.errors import LockLost, LockworkError, NotHeld
from lockwork.lazy import asyncio
from lockwork.locks.options import LockOptions, Steps
from lockwork.logs import Log
from lockwork.owners import Owner
from lockwork.protocol.effects import Protocol
from lockwork.protocol.locks import grants
from lockwork.protocol.locks.grants import Granted, LockScripts, Renewal, Request
from lockwork.protocol.locks.leases import Lease
from lockwork.runtime.clock import now
from lockwork.runtime.drive import no_running_loop
from lockwork.runtime.runtime import Runtime

if TYPE_CHECKING:  # it imports redis-py, which an app needs only when it uses a server
    from lockwork.runtime.engine import Engine

log: Log = Log("lockwork")
G = TypeVar("G")
Ended = tuple[Lease, bool]
"""The lease of a hold that was forgotten, and whether the lease still ran then."""


class CancellableBody:
    """The `async with` body that is cancelled when the lease is lost."""

    __slots__ = ("cancelled", "level", "loop", "task")

    def __init__(self, task: asyncio.Task[Any], level: int) -> None:
        self.loop: asyncio.AbstractEventLoop = asyncio.get_running_loop()
        self.task: asyncio.Task[Any] = task
        self.level: int = level
        """Number of bodies that had begun, including this one."""
        self.cancelled: bool = False


class Hold(Generic[G]):
    """One lock held by one thread or task, and the grant that its user has of it."""

    __slots__ = ("bodies", "body", "depth", "fence", "grant", "lease", "on_end", "on_lost", "options", "owner", "since")
    grant_class: ClassVar[type[Any]]
    """Class of the grant that users receive."""
    abandoned_advice: ClassVar[str] = (
        "Acquire it in the thread or asyncio task that uses it (with wait= instead of asyncio.wait_for), "
        "or transfer it with export() and adopt()"
    )

    def __init__(self, options: LockOptions, owner: Owner, lease: Lease, since: float) -> None:
        self.options: LockOptions = options
        self.owner: Owner = owner
        self.lease: Lease | None = lease
        """None when the hold has ended."""
        self.since: float = since
        self.fence: int = lease.renewal.fence
        self.depth: int = 1
        """Number of acquisitions that the owner has not released."""
        self.bodies: int = 0
        """Number of running `with` bodies that began under this hold or an earlier hold."""
        self.body: CancellableBody | None = None
        self.on_lost: Callable[[G], object] | None = options.on_lost
        self.on_end: Callable[[bool], None] | None = None
        """Called once when the hold ends, with True if its lease was lost."""
        self.grant: G | None = self.grant_class(self)
        """None when the hold has ended, so that the two do not keep each other in memory."""

    def new_grant(self) -> G:
        """Return a grant of this hold, for code that still refers to a hold that has ended."""
        grant: G = self.grant_class(self)
        return grant

    # -- its lease ----------------------------------------------------------------------------------------------------

    @property
    def lost(self) -> bool:
        """True if the lease has ended, by release or by time."""
        lease = self.lease  # once: another thread may end it meanwhile
        return lease is None or lease.lost or now() >= lease.deadline

    @property
    def remaining(self) -> float:
        """Seconds that the lease lasts unless it is renewed; 0 when it is lost."""
        lease = self.lease
        return 0.0 if lease is None or lease.lost else max(0.0, lease.deadline - now())

    def check(self) -> None:
        """Raise LockLost if the lease has ended."""
        if self.lost:
            raise LockLost(f"the lease of {self.shown} has ended: another process may hold it now")

    @property
    def shown(self) -> str:
        """The lock as errors name it."""
        return f"{self.options.noun} {self.options.label!r}"

    def extend(self, lease: Duration | None) -> Steps[None]:
        """Let the lease last for `lease` from now on at least (None: as long as when acquired). Raises LockLost."""
        own_lease = self.lease  # before the check: another thread may release it at any time
        self.check()
        assert own_lease is not None
        lease_ms = self.options.lease_ms if lease is None else lease_milliseconds(lease)
        if not (yield from extend(self.options.runtime.engine, [own_lease], lease_ms)):
            raise LockLost(f"the lease of {self.shown} ended before it was extended")

    def owner_gone(self) -> bool:
        """Return True if the owner has ended, so that it cannot release the hold any more."""
        return self.owner.gone

    def notify_abandoned(self) -> None:
        """Warn that the lease is not renewed any more because the owner is gone; on the engine's thread."""
        log.warning(
            "%s is not renewed any more, and ends in %s: %s acquired it, and ended without releasing it. %s",
            self.shown,
            words.time_left(self.remaining),
            self.owner.described,
            self.abandoned_advice,
        )

    def notify_lost(self) -> None:
        """Cancel the body, and call `on_lost`; on the engine's thread."""
        self.options.runtime.lock_counts.lost(self.options.key)
        if self.on_end is not None:
            self.ended(lost=True)
        body, grant = self.body, self.grant or self.new_grant()
        if body is not None:
            with contextlib.suppress(RuntimeError):  # the loop is closed: its tasks are over
                body.loop.call_soon_threadsafe(self._cancel_body)
        if self.on_lost is not None:
            # on a separate thread: a slow callback must not delay the renewal of other leases
            try:
                threading.Thread(target=self._call_on_lost, args=(grant,), name="lockwork-on-lost", daemon=True).start()
            except RuntimeError as error:  # the system allows no more threads
                log.error("on_lost of %s could not be called: %s", self.shown, error)
        self._strike_abandoned()

    def _strike_abandoned(self) -> None:
        """Forget this and earlier lost holds whose owners have ended: no code will release them."""
        lost = self.options.runtime.lost
        lost[self] = None
        for hold in list(lost):
            if hold.lease is None or hold.owner.gone:
                lost.pop(hold, None)
                hold.strike_lost()

    def strike_lost(self) -> None:
        """Forget the hold, whose lease is lost, in this process; its grant still reports the loss."""
        self.options.runtime.live.pop(self, None)
        self._strike_place()

    def _strike_place(self) -> None:
        holds, place = self.options.runner.holds, (self.options.key, self.owner)
        if holds.get(place) is self:
            holds.pop(place, None)

    def _call_on_lost(self, grant: G) -> None:
        assert self.on_lost is not None
        try:
            self.on_lost(grant)
        except Exception:
            log.exception("on_lost of %s failed", self.shown)

    def _cancel_body(self) -> None:
        body = self.body
        if body is not None and not body.cancelled:
            body.cancelled = True
            body.task.cancel(f"the lease of {self.shown} was lost")

    # -- its end ------------------------------------------------------------------------------------------------------

    def release(self) -> None:
        """End the hold completely, even if it was reentered. Raises NotHeld or LockLost."""
        no_running_loop()
        ending = self.end()
        if ending is not None:
            self.options.runner.run(ending)

    async def arelease(self) -> None:
        """Async version of `release`."""
        ending = self.end()
        if ending is not None:
            await self.options.runner.arun(ending)

    def end(self) -> Steps[None] | None:
        """Forget the hold, and return the remaining calls to the server, if any. Raises NotHeld."""
        extra = self.release_arguments() if self.options.at_least else ()
        return self._end_on_server(*self._forgotten(), extra)

    def release_arguments(self) -> tuple[int, ...]:
        """Return extra arguments of the release script: how long a lock with `at_least` stays taken."""
        remaining = self.since + self.options.at_least - now() if self.options.at_least else 0
        return (round(remaining * 1000),) if remaining >= 0.001 else ()

    def ended(self, *, lost: bool = False) -> None:
        """Call `on_end`, once."""
        on_end, self.on_end = self.on_end, None
        if on_end is not None:
            on_end(lost)

    def give_up(self) -> None:
        """End the hold without waiting: the engine tells the server, which may count on a later end."""
        ended = self.forget()
        if ended is not None:
            self.options.runtime.engine.give_back(ended[0])

    def release_later(self) -> None:
        """End the hold completely without waiting: the engine notifies the server."""
        extra = self.release_arguments()
        ended = self.forget()
        if ended is not None:
            self.options.runtime.engine.give_back(ended[0], extra)

    def keep(self) -> None:
        """Note the hold in this process, and let the engine renew its lease."""
        lease, runtime, place = self.lease, self.options.runtime, (self.options.key, self.owner)
        assert lease is not None
        lease.on_lost = self.notify_lost
        lease.holder = self
        before = runtime.holds.get(place)
        if before is not None:
            self.bodies = before.bodies  # the body of an earlier hold, which ended inside it, still runs
        runtime.live[self] = None
        runtime.holds[place] = self
        runtime.engine.keep(lease)
        if self.options.at_least > 1:  # the lock stays taken for `at_least`, even if it is released earlier
            runtime.names.note(lease.renewal.key)

    def forget(self) -> Ended | None:
        """Forget the hold in this process; None if it had already ended."""
        in_time, lease, runtime = not self.lost, self.lease, self.options.runtime
        try:
            if runtime.live.pop(self, self) is not None or lease is None:
                return None
            self._strike_out(lease)
            runtime.engine.drop(lease)
        except BaseException:
            # interrupted: otherwise the engine would renew the lease forever
            if lease is not None and self not in runtime.live:
                self._strike_out(lease)
                runtime.engine.give_back(lease)
            raise
        return lease, in_time

    def _forgotten(self) -> Ended:
        ended = self.forget()
        if ended is None:
            self._check_struck()
            raise self._not_held()
        return ended

    def _check_struck(self) -> None:
        """Raise LockLost if this process has forgotten the hold because its lease was lost."""
        lease = self.lease
        if lease is not None and lease.lost:
            self._check_released(released=False)

    def _not_held(self) -> NotHeld:
        return NotHeld(f"{self.shown} was already released")

    def _strike_out(self, lease: Lease) -> None:
        self.lease = self.grant = None  # code that still has the grant must see that it has ended
        if self.on_end is not None:
            self.ended()
        if not self.bodies:  # else the end of the body will look for it
            self.options.runtime.holds.pop((lease.renewal.key, self.owner), None)
        if lease.lost:
            self.options.runtime.lost.pop(self, None)

    def _end_on_server(self, lease: Lease, in_time: bool, extra: tuple[int, ...]) -> Steps[None]:
        released = (yield from release(lease, extra, self.options.scripts)) and in_time
        if not released and not lease.lost:  # else the engine has counted it
            self.options.runtime.lock_counts.lost(lease.renewal.key)
        self._check_released(released)

    def _check_released(self, released: bool) -> None:
        if not released:
            raise LockLost(f"the lease of {self.shown} ended before it was released: another process may have held it")


def new_lease(options: LockOptions, request: Request, granted: Granted, since: float) -> Lease:
    """Make the lease of a new grant."""
    renewal = Renewal(request.key, request.owner, granted.fence, request.lease_ms, options.scripts)
    return Lease(renewal, granted, since, renewed=request.renewed, on_lost=nothing)


def release(lease: Lease, extra: tuple[int, ...], scripts: LockScripts) -> Protocol[bool]:
    """End a lease on the server; False if it had already ended."""
    renewal = lease.renewal
    if lease.ticket:
        extra = (*extra, lease.ticket) if extra else (0, lease.ticket)
    return grants.release(renewal.key, renewal.owner, renewal.fence, *extra, scripts=scripts)


def disown(runtime: Runtime, request: Request, granted: Granted) -> None:
    """Forget the hold that an interrupted `keep` has noted."""
    for hold in list(runtime.live):
        lease: Lease | None = hold.lease  # once: another thread may release it at any time
        renewal = lease and lease.renewal
        if renewal and (renewal.key, renewal.owner, renewal.fence) == (request.key, request.owner, granted.fence):
            hold.forget()


def extend(engine: Engine, leases: Sequence[Lease], lease_ms: int) -> Protocol[bool]:
    """Let these leases last for `lease_ms` from now on; False if one had already ended.

    If interrupted, it sends the call once more, so that this process knows the leases' new ends.
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


def nothing() -> None:
    """The `on_lost` of a lease whose holder need not be notified."""
    return


def _note(engine: Engine, leases: Sequence[Lease], deadlines: Sequence[float | None]) -> bool:
    alive = True
    for lease, deadline in zip(leases, deadlines, strict=True):
        if deadline is None:
            engine.lost(lease)
        alive = deadline is not None and engine.prolong(lease, deadline) and alive
    return alive
