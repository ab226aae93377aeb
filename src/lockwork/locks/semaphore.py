"""A semaphore: a number of permits for all processes together; permits of a dead holder return."""

from __future__ import annotations

import contextlib
from typing import ClassVar, Unpack
from weakref import WeakValueDictionary, ref

from msgspec.structs import replace

from lockwork import owners
from lockwork.config import Config
from lockwork.durations import Duration
from lockwork.errors import LockLost
from lockwork.locks.grant import Grant, LockHold
from lockwork.locks.handle import Handle
from lockwork.locks.hold import Ended, Hold
from lockwork.locks.options import LockOptions, LockSettings, Steps
from lockwork.owners import Owner
from lockwork.protocol import keys
from lockwork.protocol.effects import Protocol
from lockwork.protocol.locks.grants import LockScripts
from lockwork.protocol.locks.leases import Lease
from lockwork.protocol.permits import permits as permits_protocol
from lockwork.protocol.permits.permits import PermitsState
from lockwork.runtime.runtime import Runtime
from lockwork.validation import whole


class PermitStack(list[Hold[Grant]]):
    """The permits of one thread or task, the newest last. Other threads may remove permits, but not add any."""

    def discard(self, hold: Hold[Grant]) -> None:
        """Remove the hold, if it is there."""
        with contextlib.suppress(ValueError):
            self.remove(hold)


class PermitOwner(Owner):
    """The owner of one permit. On the server it is the thread or task that took the permit; here it is unique."""

    __slots__ = ("stack", "taker")

    def __init__(self, taker: Owner, stack: PermitStack) -> None:
        self.text: str = taker.text
        self.taker: Owner = taker
        self.stack: PermitStack = stack

    @property
    def described(self) -> str:  # type: ignore[override]
        """The taker as warnings name it."""
        return self.taker.described

    @property
    def gone(self) -> bool:
        """True if the taker has ended."""
        return self.taker.gone

    def acts_for(self, owner: Owner) -> bool:
        """Return True if `owner` took the permit."""
        return self.taker is owner


class PermitHold(LockHold):
    """The permits of one acquire. Any thread may release them, so they last while the program refers to the grant."""

    __slots__ = ("_given", "stack")
    abandoned_advice = "Use `with`, or release it in `finally`"

    def __init__(self, options: LockOptions, owner: Owner, lease: Lease, since: float) -> None:
        super().__init__(options, owner, lease, since)
        assert isinstance(owner, PermitOwner)
        self.stack: PermitStack = owner.stack
        self._given: ref[Grant] | None = None
        """The grant, after the hold has dropped its own reference."""

    def new_grant(self) -> Grant:
        """Return the program's grant, or a new grant of this hold."""
        grant = self._given and self._given()
        return grant or super().new_grant()

    def owner_gone(self) -> bool:
        """Return True if the taker has ended, and the program does not refer to the grant any more."""
        if not self.owner.gone:
            return False
        grant = self.grant
        if grant is not None:
            self._given = ref(grant)
            self.grant: Grant | None = None
            del grant  # the last reference, unless the program has one
        return self._given is None or self._given() is None

    def strike_lost(self) -> None:
        """Forget the hold, whose lease is lost, in this process."""
        super().strike_lost()
        self.stack.discard(self)

    def keep(self) -> None:
        """Note the hold, as the newest of its thread or task."""
        super().keep()
        self.stack.append(self)

    def forget(self) -> Ended | None:
        """Forget the hold in this process."""
        ended = super().forget()
        if ended is not None and not self.bodies:  # else the end of the body will look for it
            self.stack.discard(self)
        return ended


class Semaphore(Handle[Grant]):
    """A handle to one named semaphore; it holds nothing itself, so threads and tasks may share it.

    It is not re-entrant: each acquire takes new permits, and returns a separate grant that any thread can release.
    `release` and the end of a `with` block return the permits that this thread or task acquired last.
    """

    scripts: ClassVar[LockScripts] = permits_protocol.SCRIPTS
    noun = "semaphore"

    def __init__(
        self,
        runtime: Runtime,
        config: Config,
        name: str,
        permits: int,
        *,
        units: int = 1,
        **settings: Unpack[LockSettings[Grant]],
    ) -> None:
        super().__init__(runtime, config, name, **settings)
        self.permits: int = whole(permits, "permits", 1, permits_protocol.ALL)
        self.units: int = whole(units, "units", 1, self.permits)
        self._options = replace(self._options, extra=(self.units, self.permits))

    def acquire(self, wait: Duration | None = None) -> Grant:
        """Wait up to `wait` for the permits (None: the handle's `wait`); each call returns a new grant.

        Raises LockTimeout.
        """
        return super().acquire(wait)

    def release(self) -> None:
        """Release the permits that this thread or task acquired last. Raises NotHeld or LockLost."""
        super().release()

    def release_all(self) -> None:
        """Release all permits of this thread or task. Raises NotHeld if it has none, or LockLost."""
        super().release_all()

    def held(self) -> bool:
        """Return whether the current thread or task holds a permit whose lease has not ended."""
        return any(not hold.lost for hold in tuple(self._stack()))

    def available(self) -> int:
        """Return the number of free permits; a waiter may be about to get them."""
        return _available(self.inspect())

    async def aavailable(self) -> int:
        """Async version of `available`."""
        return _available(await self.ainspect())

    def inspect(self, *, holders: int = 100, waiters: int = 100) -> PermitsState:
        """Read the number of permits in total and in use, and at most the requested number of holders and waiters."""
        return self._shown(self._runtime.run(self._state(holders, waiters)))

    async def ainspect(self, *, holders: int = 100, waiters: int = 100) -> PermitsState:
        """Async version of `inspect`."""
        return self._shown(await self._runtime.arun(self._state(holders, waiters)))

    def force_release(self) -> int:
        """Release all permits by force; returns the number of ended grants. The waiters are next."""
        return self._runtime.run(permits_protocol.force(self._key, self._runtime.channels))

    async def aforce_release(self) -> int:
        """Async version of `force_release`."""
        return await self._runtime.arun(permits_protocol.force(self._key, self._runtime.channels))

    # -- each acquire has a separate owner in this process ------------------------------------------------------------

    def _key_of(self, name: str) -> str:
        return keys.semaphore(self._prefix, name)

    def _new_hold(self, owner: Owner, lease: Lease, since: float) -> Hold[Grant]:
        return PermitHold(self._options, owner, lease, since)

    def _reenter(self) -> Hold[Grant] | None:
        self._used_key()
        return None

    def _owner(self) -> Owner:
        taker = owners.current()
        place = self._runtime.process, self._key, taker
        stack = _stacks.get(place)
        if stack is None:
            stack = _stacks[place] = PermitStack()
        elif len(stack) > self.permits:  # some have ended without a release, and would accumulate
            self._drop_lost(stack)
        return PermitOwner(taker, stack)

    def _drop_lost(self, stack: PermitStack) -> None:
        for hold in tuple(stack):
            if hold.lost and not hold.bodies:
                self._runtime.holds.pop((self._key, hold.owner), None)
                stack.discard(hold)

    def _stack(self) -> PermitStack:
        """Return the permits of the current thread or task; none in a forked child."""
        return _stacks.get((self._runtime.process, self._key, owners.current())) or PermitStack()

    def _all_mine(self) -> list[Hold[Grant]]:
        """Return the unreleased holds of the current thread or task, the newest first; raises NotHeld without any."""
        held = [hold for hold in reversed(tuple(self._stack())) if hold.lease is not None]
        if not held:
            raise self._not_held()
        return held

    def _current_hold(self) -> Hold[Grant]:
        return self._all_mine()[0]

    def _release_completely(self) -> Steps[None]:
        return self._leaving_all(self._all_mine())

    def _leaving_all(self, held: list[Hold[Grant]]) -> Steps[None]:
        lost = None
        for hold in held:
            try:
                ending = hold.end()
                if ending is not None:
                    yield from ending
            except LockLost as error:
                lost = error
        if lost is not None:
            raise lost

    def _exit_body(self) -> Hold[Grant] | None:
        stack = self._stack()
        hold = next((hold for hold in reversed(tuple(stack)) if hold.bodies), None)
        if hold is None:
            raise self._not_held()
        hold.bodies -= 1
        if hold.lease is not None:
            return hold
        if not hold.bodies:  # the body has released it
            self._runtime.holds.pop((self._key, hold.owner), None)
        stack.discard(hold)
        return None

    def _state(self, holders: int, waiters: int) -> Protocol[PermitsState]:
        most = whole(holders, "holders", 0, permits_protocol.ALL)
        return permits_protocol.state(
            self._used_key(), holders=most, waiters=whole(waiters, "waiters", 0, permits_protocol.ALL)
        )

    def _shown(self, state: PermitsState) -> PermitsState:
        return state if state.capacity else replace(state, capacity=self.permits)


# Only the permits in a stack refer to it, so the stack of a thread or task disappears with its last permit.
_stacks: WeakValueDictionary[tuple[str, str, Owner], PermitStack] = WeakValueDictionary()


def _available(state: PermitsState) -> int:
    return max(0, state.capacity - state.used)
