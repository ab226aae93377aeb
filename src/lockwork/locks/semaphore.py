"""A semaphore: at most so many at a time, in all processes together; what a dead holder had comes back."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from weakref import WeakValueDictionary

from lockwork import owners
from lockwork.config import Config
from lockwork.durations import Duration
from lockwork.errors import LockLost, NotHeld
from lockwork.locks.grant import Grant, OnLost
from lockwork.locks.handle import Handle
from lockwork.owners import Owner
from lockwork.protocol import keys
from lockwork.protocol.effects import Protocol
from lockwork.protocol.locks import permits as protocol
from lockwork.protocol.locks.grants import Granted, Request
from lockwork.protocol.locks.leases import Lease
from lockwork.protocol.locks.permits import PermitsState
from lockwork.runtime.runtime import Runtime
from lockwork.runtime.sync_driver import no_running_loop
from lockwork.validation import whole


class Semaphore(Handle):
    """A handle to one named semaphore; it holds nothing itself, so threads and tasks may share it.

    It is not re-entrant: each acquire takes permits of its own, and returns a grant that can be released on its own,
    from any thread. `release` and the end of a `with` block give back what this thread or task took last.
    """

    kind = protocol.KIND
    noun = "semaphore"

    def __init__(
        self,
        runtime: Runtime,
        config: Config,
        name: str,
        permits: int,
        *,
        units: int = 1,
        wait: Duration | None = None,
        lease: Duration | None = None,
        on_lost: OnLost | None = None,
        tags: Sequence[str] = (),
    ) -> None:
        super().__init__(runtime, config, name, wait=wait, lease=lease, on_lost=on_lost, tags=tags)
        self.permits: int = whole(permits, "permits", 1, protocol.ALL)
        self.units: int = whole(units, "units", 1, self.permits)

    def acquire(self, wait: Duration | None = None) -> Grant:
        """Wait in line, at most `wait` (None: as given to the handle), and return a grant of its own for each call.

        Raises LockTimeout.
        """
        return super().acquire(wait)

    async def aacquire(self, wait: Duration | None = None) -> Grant:
        """Async version of `acquire`; cancelled, it leaves the line, or gives back what it got."""
        return await super().aacquire(wait)

    def release(self) -> None:
        """Release what this thread or task took last; the next in line gets it. Raises NotHeld or LockLost."""
        super().release()

    async def arelease(self) -> None:
        """Async version of `release`."""
        await super().arelease()

    def release_all(self) -> None:
        """Release all that this thread or task took. Raises NotHeld if it has nothing, or LockLost."""
        no_running_loop()
        lost = None
        for grant in self._all_mine():
            try:
                self._release_whole(grant)
            except LockLost as error:
                lost = error
        if lost is not None:
            raise lost

    async def arelease_all(self) -> None:
        """Async version of `release_all`."""
        lost = None
        for grant in self._all_mine():
            try:
                await self._arelease_whole(grant)
            except LockLost as error:
                lost = error
        if lost is not None:
            raise lost

    def held(self) -> bool:
        """Whether the current thread or task holds a permit whose lease has not ended."""
        return any(not grant.lost for grant in tuple(self._stack()))

    def available(self) -> int:
        """The number of free permits; a waiter may be about to get them."""
        return _available(self.inspect())

    async def aavailable(self) -> int:
        """Async version of `available`."""
        return _available(await self.ainspect())

    def inspect(self, *, holders: int = 100, waiters: int = 100) -> PermitsState:
        """Read how many permits there are and are in use; at most so many holders and waiters are named."""
        return self._shown(self._runtime.run(self._look(holders, waiters)))

    async def ainspect(self, *, holders: int = 100, waiters: int = 100) -> PermitsState:
        """Async version of `inspect`."""
        return self._shown(await self._runtime.arun(self._look(holders, waiters)))

    def force_release(self) -> int:
        """Take all permits away from their holders; returns how many grants ended. The waiters come next."""
        return self._runtime.run(protocol.force(self._used_key(), self._runtime.channels))

    async def aforce_release(self) -> int:
        """Async version of `force_release`."""
        return await self._runtime.arun(protocol.force(self._used_key(), self._runtime.channels))

    # -- each permit is a place of its own --------------------------------------------------------------------------

    def _key_of(self, name: str) -> str:
        return keys.semaphore(self._prefix, name)

    def _extra(self) -> tuple[Any, ...]:
        return self.units, self.permits

    def _enter(self) -> tuple[Owner, Grant | None]:
        self._used_key()
        by = owners.current()
        place = self._runtime.process, self._key, by
        stack = _stacks.get(place)
        if stack is None:
            stack = _stacks[place] = _Stack()
        elif len(stack) > self.permits:  # some must be over that were never released: they would pile up
            self._drop_lost(stack)
        return _Taker(by, stack), None

    def _drop_lost(self, stack: _Stack) -> None:
        for grant in tuple(stack):
            if grant.lost and not grant._bodies:
                self._runtime.grants.pop((self._key, grant._owner), None)
                stack.discard(grant)

    def _keep(self, owner: Owner, asked: Request, granted: Granted) -> Grant:
        grant = super()._keep(owner, asked, granted)
        _stack_of(grant).append(grant)
        return grant

    def _forget(self, grant: Grant) -> tuple[Lease, bool] | None:
        ended = super()._forget(grant)
        if ended is not None and not grant._bodies:  # else the end of the body will look for it
            _stack_of(grant).discard(grant)
        return ended

    def _stack(self) -> _Stack:
        """What the current thread or task took; in a forked child, nothing."""
        return _stacks.get((self._runtime.process, self._key, owners.current())) or _Stack()

    def _all_mine(self) -> list[Grant]:
        """Its grants that were not given up, the newest first."""
        grants = [grant for grant in reversed(tuple(self._stack())) if grant._lease is not None]
        if not grants:
            raise NotHeld(f"{self.noun} {self.name!r} is not held by this thread or task")
        return grants

    def _mine(self) -> Grant:
        return self._all_mine()[0]

    def _leave_body(self) -> Grant | None:
        stack = self._stack()
        grant = next((grant for grant in reversed(tuple(stack)) if grant._bodies), None)
        if grant is None:
            raise NotHeld(f"{self.noun} {self.name!r} is not held by this thread or task")
        grant._bodies -= 1
        if grant._lease is not None:
            stack.append(grant)  # it is this one that the end of the body releases
        elif not grant._bodies:  # the body has given it up itself
            self._runtime.grants.pop((self._key, grant._owner), None)
        stack.discard(grant)  # from where it was before
        return None if grant._lease is None else grant

    def _look(self, holders: int, waiters: int) -> Protocol[PermitsState]:
        most = whole(holders, "holders", 0, protocol.ALL)
        return protocol.state(self._used_key(), holders=most, waiters=whole(waiters, "waiters", 0, protocol.ALL))

    def _shown(self, state: PermitsState) -> PermitsState:
        return state if state.capacity else replace(state, capacity=self.permits)


class _Stack(list[Grant]):
    """The permits that one thread or task took, the newest last. Others may remove one, only it adds."""

    def discard(self, grant: Grant) -> None:
        """Take it out if it is there, the first time."""
        with contextlib.suppress(ValueError):
            self.remove(grant)


class _Taker(Owner):
    """Who owns one permit: to the server the thread or task that took it, in this process a place of its own."""

    __slots__ = ("stack",)

    def __init__(self, by: Owner, stack: _Stack) -> None:
        self.text = by.text
        self.stack: _Stack = stack


# A stack lives as long as a permit that is in it: nothing is left of a thread or task that gave back all it took.
_stacks: WeakValueDictionary[tuple[str, str, Owner], _Stack] = WeakValueDictionary()


def _stack_of(grant: Grant) -> _Stack:
    taker = grant._owner
    assert isinstance(taker, _Taker)
    return taker.stack


def _available(state: PermitsState) -> int:
    return max(0, state.capacity - state.used)
