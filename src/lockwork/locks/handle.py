"""The common interface of all locks, for threads and asyncio."""

from __future__ import annotations

import asyncio
import copy
from asyncio import _get_running_loop
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any, ClassVar, Generic, Self, TypeVar

from lockwork import owners
from lockwork.config import Config
from lockwork.durations import Duration
from lockwork.errors import LockLost, LockTimeout, LockworkError, NotHeld
from lockwork.locks.decorator import Decorating
from lockwork.locks.grant import Grant
from lockwork.locks.hold import CancellableBody, Hold, disown, new_lease
from lockwork.locks.options import LockOptions, LockRuntime, Steps
from lockwork.naming import template
from lockwork.owners import Owner
from lockwork.protocol import keys
from lockwork.protocol.effects import Protocol
from lockwork.protocol.locks import grants
from lockwork.protocol.locks.grants import Granted, Request
from lockwork.protocol.locks.leases import Lease
from lockwork.runtime.clock import now
from lockwork.runtime.runtime import LockObserver, Runtime
from lockwork.runtime.sync_driver import no_running_loop

G = TypeVar("G", bound=Grant)


class Handle(Decorating, Generic[G]):
    """A handle to one named lock; it holds nothing itself, so threads and tasks may share it.

    A subclass says what its grants are (`_new_hold`), how its scripts are called (`kind`), what errors call it
    (`noun`), and where its key is (`_key_of`).
    """

    kind: ClassVar[str] = "lock"
    noun: ClassVar[str] = "lock"

    def __init__(
        self,
        runtime: Runtime,
        config: Config,
        name: str,
        *,
        wait: Duration | None,
        lease: Duration | None,
        on_lost: Callable[[G], object] | None,
        tags: Sequence[str] = (),
        runner: LockRuntime | None = None,
    ) -> None:
        self._runtime = runtime
        self._runner = runner or runtime
        self._prefix = config.prefix
        self._template = template(name, self._what())
        self.name: str = name if self._template else keys.checked(name, self._what())
        self._key = "" if self._template else self._key_of(name)
        options = LockOptions.read(
            runtime, config, self.kind, self.noun, wait=wait, lease=lease, on_lost=on_lost, tags=tags, runner=runner
        )
        self._options = replace(options, name=self.name, key=self._key)

    # -- for users ----------------------------------------------------------------------------------------------------

    def acquire(self, wait: Duration | None = None) -> G:
        """Wait up to `wait` for the grant (None: the handle's `wait`), in order of arrival, and return it.

        The owner is the current thread or task. It may acquire again, and must release as often as it acquired.
        Raises LockTimeout.
        """
        if _get_running_loop() is not None:
            no_running_loop()
        hold = self._again() or self._get(wait)
        return hold.grant or hold.new_grant()

    async def aacquire(self, wait: Duration | None = None) -> G:
        """Async version of `acquire`; if cancelled, it stops waiting, or releases its grant."""
        hold = self._again() or await self._aget(wait)
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
        leaving = self._leave(self._mine())
        if leaving is not None:
            self._runner.run(leaving)

    async def arelease(self) -> None:
        """Async version of `release`."""
        leaving = self._leave(self._mine())
        if leaving is not None:
            await self._runner.arun(leaving)

    def release_all(self) -> None:
        """Release all acquisitions of the current thread or task. Raises NotHeld or LockLost."""
        no_running_loop()
        leaving = self._leave_all()
        if leaving is not None:
            self._runner.run(leaving)

    async def arelease_all(self) -> None:
        """Async version of `release_all`."""
        leaving = self._leave_all()
        if leaving is not None:
            await self._runner.arun(leaving)

    def extend(self, lease: Duration | None = None) -> None:
        """Make the lease last at least `lease` from now (None: the original lease). Raises NotHeld, LockLost."""
        self._runner.run(self._mine().extend(lease))

    async def aextend(self, lease: Duration | None = None) -> None:
        """Async version of `extend`."""
        await self._runner.arun(self._mine().extend(lease))

    def held(self) -> bool:
        """Return whether the current thread or task holds it and its lease has not ended."""
        hold = self._runner.holds.get((self._key, owners.current()))
        return hold is not None and not hold.lost

    def __enter__(self) -> G:
        if _get_running_loop() is not None:
            no_running_loop()
        hold = self._again() or self._get()
        hold.bodies += 1
        return hold.grant or hold.new_grant()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        hold = self._end_body()
        if hold is None:
            return
        try:
            if _get_running_loop() is not None:
                no_running_loop()
            leaving = self._leave(hold)
            if leaving is not None:
                self._runner.run(leaving)
        except LockworkError:
            if error is None:
                raise

    async def __aenter__(self) -> G:
        hold = self._again() or await self._aget()
        hold.bodies += 1
        if hold.body is None:
            task = asyncio.current_task()
            assert task is not None
            hold.body = CancellableBody(task, hold.bodies)
        return hold.grant or hold.new_grant()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        hold = self._end_body()
        if hold is None:
            return
        body = hold.body
        if body is not None and hold.bodies < body.level:
            hold.body = None  # from here on the engine cancels nothing for this hold
            if body.cancelled:
                await self._after_cancelled(hold, body.task, error)
                return
        try:
            leaving = self._leave(hold)
            if leaving is not None:
                await self._runner.arun(leaving)
        except LockworkError:
            if error is None:
                raise

    # -- what a subclass may replace ----------------------------------------------------------------------------------

    def _key_of(self, name: str) -> str:
        """The key of the thing with this name."""
        return keys.lock(self._prefix, name)

    @classmethod
    def _what(cls) -> str:
        return f"a {cls.noun}'s name"

    def _request(self, owner: Owner) -> Request:
        return self._options.request(owner)

    def _acquiring(self, asked: Request, wait: float | None) -> Protocol[Granted]:
        """How to get a grant."""
        return grants.acquire(asked, wait)

    def _returning(self, asked: Request) -> Protocol[object]:
        """How to return what a request has got, or may get."""
        return grants.abandon(asked)

    def _new_hold(self, owner: Owner, lease: Lease, since: float) -> Hold[G]:
        """What this process knows of a new grant, and the grant itself."""
        raise NotImplementedError

    def _leave(self, hold: Hold[G]) -> Steps[None] | None:
        """Release once; returns what must be sent to the server, if anything."""
        hold.depth -= 1
        return None if hold.depth else hold.end()

    def _leave_all(self) -> Steps[None] | None:
        return self._mine().end()

    # -- the holds of this process ------------------------------------------------------------------------------------

    def _used_key(self) -> str:
        """The key; raises ConfigError for a name that only a call of the decorated function fills."""
        if self._template is not None:
            raise self._template.unfilled()
        return self._key

    def _owner(self) -> Owner:
        return owners.current()

    def _again(self) -> Hold[G] | None:
        """The caller's hold, entered once more; None when the caller has none."""
        hold: Hold[G] | None = self._runner.holds.get((self._used_key(), owners.current()))
        if hold is None or hold.lease is None:  # given up, but its body has not ended
            return None
        hold.check()
        hold.depth += 1
        return hold

    def _mine(self) -> Hold[G]:
        hold: Hold[G] | None = self._runner.holds.get((self._key, owners.current()))
        if hold is None or hold.lease is None:
            raise self._not_held()
        return hold

    def _not_held(self) -> NotHeld:
        return NotHeld(f"{self.noun} {self.name!r} is not held by this thread or task")

    def _get(self, wait: Duration | None = None) -> Hold[G]:
        return self._runner.run(self._steps(wait))

    def _aget(self, wait: Duration | None = None) -> Coroutine[Any, Any, Hold[G]]:
        return self._runner.arun(self._steps(wait))

    def _steps(self, wait: Duration | None) -> Steps[Hold[G]]:
        steps, observer = self._getting(wait), self._runtime.lock_observer
        return steps if observer is None else self._observed(steps, observer)

    def _observed(self, steps: Steps[Hold[G]], observer: LockObserver) -> Steps[Hold[G]]:
        observation = observer(self.noun, self.name)
        try:
            hold = yield from steps
        except BaseException as error:
            observation.failed(error)
            raise
        try:
            hold.on_end = observation.granted(hold.fence)
        except BaseException:  # interrupted: nobody would release it
            hold.give_up()
            raise
        return hold

    def _getting(self, wait: Duration | None) -> Steps[Hold[G]]:
        owner = self._owner()
        asked = self._request(owner)
        return self._booked(owner, asked, self._acquiring(asked, self._options.patience(wait)))

    def _booked(self, owner: Owner, asked: Request, acquiring: Protocol[Granted]) -> Protocol[Hold[G]]:
        """Acquire and note the hold as one step: interrupted anywhere, it is returned or was never there."""
        granted = yield from acquiring
        try:
            return self._keep(owner, asked, granted)
        except BaseException:
            disown(self._runtime, asked, granted)
            yield from self._returning(asked)
            raise

    def _keep(self, owner: Owner, asked: Request, granted: Granted) -> Hold[G]:
        since = now()
        hold = self._new_hold(owner, new_lease(self._options, asked, granted, since), since)
        hold.keep()
        if granted.handed is not None:
            self._runtime.lock_counts.handed(asked.key, granted.handed)
        return hold

    def _end_body(self) -> Hold[G] | None:
        """End one body; returns the hold to release, None when the body has given it up."""
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

    async def _after_cancelled(self, hold: Hold[G], task: asyncio.Task[Any], error: BaseException | None) -> None:
        """The engine cancelled the body because the lease was lost: turn that, and only that, into LockLost."""
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
        self.name, self._key, self._template = name, self._key_of(name), None
        self._options = replace(self._options, name=name, key=self._key)

    def _named(self, name: str) -> Self:
        named = copy.copy(self)
        named._rename(name)  # noqa: SLF001 - a handle like this one
        return named

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}>"
