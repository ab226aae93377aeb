"""The common interface of all locks, for threads and asyncio."""

from __future__ import annotations

import copy
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, ClassVar, Generic, Self, TypeVar, Unpack

from msgspec.structs import replace

from lockwork import owners
from lockwork.config import Config
from lockwork.durations import Duration
from lockwork.errors import LockLost, LockTimeout, LockworkError, NotHeld
from lockwork.lazy import asyncio
from lockwork.lazy import running_loop as _get_running_loop
from lockwork.locks.decorator import Decorating
from lockwork.locks.grant import Grant
from lockwork.locks.hold import CancellableBody, Hold, disown, new_lease
from lockwork.locks.options import LockOptions, LockRuntime, LockSettings, Steps
from lockwork.naming import has_braces, warn_of_template
from lockwork.owners import Owner
from lockwork.protocol import keys, names
from lockwork.protocol.effects import Protocol
from lockwork.protocol.locks import grants
from lockwork.protocol.locks.grants import LOCK, Granted, LockScripts, Request
from lockwork.protocol.locks.leases import Lease
from lockwork.runtime.clock import now
from lockwork.runtime.drive import no_running_loop
from lockwork.runtime.runtime import LockObserver, Runtime

G = TypeVar("G", bound=Grant)


class Handle(Decorating, Generic[G]):
    """A handle to one named lock; it has no state of an owner, so threads and tasks may share it.

    A subclass defines its grants (`_new_hold`), its scripts (`scripts`), its name in errors (`noun`), and its key
    (`_key_of`).
    """

    scripts: ClassVar[LockScripts] = LOCK
    noun: ClassVar[str] = "lock"

    def __init__(
        self,
        runtime: Runtime,
        config: Config,
        name: str,
        *,
        runner: LockRuntime | None = None,
        **settings: Unpack[LockSettings[G]],
    ) -> None:
        self._runtime = runtime
        self._runner = runner or runtime
        self._prefix = config.prefix
        self.name: str = names.checked_name(name, self._what())
        self._braced = has_braces(name)
        self._key = self._key_of(name)
        options = LockOptions.read(runtime, config, self.scripts, self.noun, settings, runner)
        self._options = replace(options, name=self.name, key=self._key)

    # -- for users ----------------------------------------------------------------------------------------------------

    def acquire(self, wait: Duration | None = None) -> G:
        """Wait up to `wait` for the grant (None: the handle's `wait`), in order of arrival, and return it.

        The owner is the current thread or task. It may acquire again, and must release as often as it acquired.
        Raises LockTimeout.
        """
        if _get_running_loop() is not None:
            no_running_loop()
        hold = self._reenter() or self._first_acquire(wait)
        return hold.grant or hold.new_grant()

    async def aacquire(self, wait: Duration | None = None) -> G:
        """Async version of `acquire`; if cancelled, it stops waiting, or releases its grant."""
        hold = self._reenter() or await self._afirst_acquire(wait)
        return hold.grant or hold.new_grant()

    def try_acquire(self) -> G | None:
        """Acquire it if it is free and has no waiters; otherwise return None."""
        try:
            return self.acquire(wait=0)
        except LockTimeout:
            return None

    async def atry_acquire(self) -> G | None:
        """Async version of `try_acquire`."""
        try:
            return await self.aacquire(wait=0)
        except LockTimeout:
            return None

    def release(self) -> None:
        """Release once; the last release grants it to the next waiter. Raises NotHeld or LockLost."""
        if _get_running_loop() is not None:
            no_running_loop()
        release_steps = self._release_once(self._current_hold())
        if release_steps is not None:
            self._runner.run(release_steps)

    async def arelease(self) -> None:
        """Async version of `release`."""
        release_steps = self._release_once(self._current_hold())
        if release_steps is not None:
            await self._runner.arun(release_steps)

    def release_all(self) -> None:
        """Release all acquisitions of the current thread or task. Raises NotHeld or LockLost."""
        no_running_loop()
        release_steps = self._release_completely()
        if release_steps is not None:
            self._runner.run(release_steps)

    async def arelease_all(self) -> None:
        """Async version of `release_all`."""
        release_steps = self._release_completely()
        if release_steps is not None:
            await self._runner.arun(release_steps)

    def extend(self, lease: Duration | None = None) -> None:
        """Make the lease last at least `lease` from now (None: the original lease). Raises NotHeld, LockLost."""
        self._runner.run(self._current_hold().extend(lease))

    async def aextend(self, lease: Duration | None = None) -> None:
        """Async version of `extend`."""
        await self._runner.arun(self._current_hold().extend(lease))

    def held(self) -> bool:
        """Return whether the current thread or task holds it and its lease has not ended."""
        hold = self._runner.holds.get((self._key, owners.current()))
        return hold is not None and not hold.lost

    def __enter__(self) -> G:
        if _get_running_loop() is not None:
            no_running_loop()
        hold = self._reenter() or self._first_acquire()
        hold.bodies += 1
        return hold.grant or hold.new_grant()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        hold = self._exit_body()
        if hold is None:
            return
        try:
            if _get_running_loop() is not None:
                no_running_loop()
            release_steps = self._release_once(hold)
            if release_steps is not None:
                self._runner.run(release_steps)
        except LockworkError:
            if error is None:
                raise

    async def __aenter__(self) -> G:
        hold = self._reenter() or await self._afirst_acquire()
        hold.bodies += 1
        if hold.body is None:
            task = asyncio.current_task()
            assert task is not None
            hold.body = CancellableBody(task, hold.bodies)
        return hold.grant or hold.new_grant()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        hold = self._exit_body()
        if hold is None:
            return
        body = hold.body
        if body is not None and hold.bodies < body.level:
            hold.body = None  # from here on the engine cancels nothing for this hold
            if body.cancelled:
                await self._raise_lock_lost(hold, body.task, error)
                return
        try:
            release_steps = self._release_once(hold)
            if release_steps is not None:
                await self._runner.arun(release_steps)
        except LockworkError:
            if error is None:
                raise

    # -- for subclasses to override ------------------------------------------------------------------------------------

    def _key_of(self, name: str) -> str:
        """Return the key of the lock with this name."""
        return keys.lock(self._prefix, name)

    @classmethod
    def _what(cls) -> str:
        return f"a {cls.noun}'s name"

    def _new_request(self, owner: Owner) -> Request:
        return self._options.request(owner)

    def _request_grant(self, request: Request, wait: float | None) -> Protocol[Granted]:
        """Wait on the server for a grant."""
        return grants.acquire(request, wait)

    def _abandon_request(self, request: Request) -> Protocol[object]:
        """Release the grant that a request has received or may still receive."""
        return grants.abandon(request)

    def _new_hold(self, owner: Owner, lease: Lease, since: float) -> Hold[G]:
        """Create the hold of a new grant."""
        raise NotImplementedError

    def _release_once(self, hold: Hold[G]) -> Steps[None] | None:
        """Release once; return the calls to the server, None if the owner still holds it."""
        hold.depth -= 1
        return None if hold.depth else hold.end()

    def _release_completely(self) -> Steps[None] | None:
        return self._current_hold().end()

    # -- the holds of this process ------------------------------------------------------------------------------------

    def _used_key(self) -> str:
        """Return the key; warn if the name is a template that was not filled."""
        if self._braced:
            warn_of_template(self.name, self._what())
        return self._key

    def _owner(self) -> Owner:
        return owners.current()

    def _reenter(self) -> Hold[G] | None:
        """Enter the caller's hold once more; return None if the caller has no hold."""
        hold: Hold[G] | None = self._runner.holds.get((self._used_key(), owners.current()))
        if hold is None or hold.lease is None:  # released inside its body
            return None
        hold.check()
        hold.depth += 1
        return hold

    def _current_hold(self) -> Hold[G]:
        hold: Hold[G] | None = self._runner.holds.get((self._key, owners.current()))
        if hold is None or hold.lease is None:
            raise self._not_held()
        return hold

    def _not_held(self) -> NotHeld:
        return NotHeld(f"{self.noun} {self._options.label!r} is not held by this thread or task")

    def _first_acquire(self, wait: Duration | None = None) -> Hold[G]:
        """Acquire for an owner without a hold."""
        return self._runner.run(self._acquire_steps(wait))

    def _afirst_acquire(self, wait: Duration | None = None) -> Coroutine[Any, Any, Hold[G]]:
        return self._runner.arun(self._acquire_steps(wait))

    def _acquire_steps(self, wait: Duration | None) -> Steps[Hold[G]]:
        """Acquire, and report to the observer of the app."""
        steps, observer = self._acquire_hold(wait), self._runtime.lock_observer
        return steps if observer is None else self._with_observer(steps, observer)

    def _with_observer(self, steps: Steps[Hold[G]], observer: LockObserver) -> Steps[Hold[G]]:
        observation = observer(self.noun, self._options.label)
        try:
            hold = yield from steps
        except BaseException as error:
            observation.failed(error)
            raise
        try:
            hold.on_end = observation.granted(hold.fence)
        except BaseException:  # interrupted: the caller never receives this hold
            hold.give_up()
            raise
        return hold

    def _acquire_hold(self, wait: Duration | None) -> Steps[Hold[G]]:
        owner = self._owner()
        request = self._new_request(owner)
        return self._acquire_and_register(owner, request, self._request_grant(request, self._options.patience(wait)))

    def _acquire_and_register(self, owner: Owner, request: Request, acquiring: Protocol[Granted]) -> Protocol[Hold[G]]:
        """Acquire and register the hold; if interrupted anywhere, release the grant."""
        granted = yield from acquiring
        try:
            return self._register_hold(owner, request, granted)
        except BaseException:
            disown(self._runtime, request, granted)
            yield from self._abandon_request(request)
            raise

    def _register_hold(self, owner: Owner, request: Request, granted: Granted) -> Hold[G]:
        since = now()
        hold = self._new_hold(owner, new_lease(self._options, request, granted, since), since)
        hold.keep()
        if granted.handed is not None:
            self._runtime.lock_counts.handed(request.key, granted.handed)
        return hold

    def _exit_body(self) -> Hold[G] | None:
        """Exit one body; return the hold to release, None if it was released inside the body."""
        place = self._key, owners.current()
        hold: Hold[G] | None = self._runner.holds.get(place)
        if hold is None:
            raise self._not_held()
        if hold.bodies:
            hold.bodies -= 1
        if hold.lease is not None:
            return hold
        if not hold.bodies:
            del self._runner.holds[place]
        return None

    async def _raise_lock_lost(self, hold: Hold[G], task: asyncio.Task[Any], error: BaseException | None) -> None:
        """Raise LockLost if the body was cancelled only because its lease was lost."""
        others = task.uncancel()
        hold.give_up()
        if error is None or (isinstance(error, asyncio.CancelledError) and others == 0):
            try:
                await asyncio.sleep(0)  # the body ended before its cancellation arrived: it arrives here
            except asyncio.CancelledError:
                if others:
                    raise
            raise LockLost(f"the lease of {hold.shown} was lost, and the body was cancelled") from error

    def _rename(self, name: str) -> None:
        self.name, self._key, self._braced = name, self._key_of(name), False
        self._options = replace(self._options, name=name, key=self._key)

    def _named(self, name: str) -> Self:
        named = copy.copy(self)
        named._rename(name)  # noqa: SLF001 - a handle like this one
        return named

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._options.label!r}>"
