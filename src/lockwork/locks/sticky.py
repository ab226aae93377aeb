"""A lock that stays in the process after its release, until another process asks for it."""

from __future__ import annotations

from msgspec.structs import replace

from lockwork.locks.grant import Grant, LockHold
from lockwork.locks.hold import Ended, Hold, nothing
from lockwork.locks.lock import Lock
from lockwork.locks.options import Steps
from lockwork.owners import Owner, current
from lockwork.protocol.locks.grants import Granted, Request
from lockwork.protocol.locks.leases import Lease
from lockwork.protocol.locks.overview import STICKY
from lockwork.runtime.clock import now
from lockwork.runtime.runtime import Runtime


class StickyHold(LockHold):
    """A sticky lock in use. The code of a release has few function calls, because it must be fast."""

    __slots__ = ()

    def end(self) -> Steps[None] | None:
        """Leave the lock in this process if possible, else release it. Raises NotHeld."""
        return None if self.put_down() else super().end()

    def put_down(self) -> bool:
        """Leave the lock in this process for its next user; False if it must be released on the server."""
        options, lease = self.options, self.lease
        runtime, key = options.runtime, options.key
        cached = runtime.sticky_cache.all.get(key)
        if lease is None or cached is None or cached.lease is not lease or cached.asked:
            return False
        if lease.lost or now() >= lease.deadline:
            return False
        try:
            if runtime.live.pop(self, self) is not None:
                return False
            lease.on_lost = cached.lost
            lease.holder = None
            self.lease: Lease | None = None  # code that still has the grant must see that it has ended
            self.grant: Grant | None = None
            if self.on_end is not None:
                self.ended()
            if not self.bodies:
                del runtime.holds[key, self.owner]
            back = runtime.sticky_cache.keep(key, cached)
            if back is not None:
                runtime.engine.give_back(back)
        except BaseException:
            runtime.holds.pop((key, self.owner), None)
            interrupted(runtime, key, self)
            raise
        return True

    def release_later(self) -> None:
        """Leave the lock in this process if possible, else let the engine release it."""
        if not self.put_down():
            super().release_later()

    def forget(self) -> Ended | None:
        """Forget the hold in this process, and remove the lock from the cache."""
        self._end_cached()
        return super().forget()

    def strike_lost(self) -> None:
        """Forget the hold, whose lease is lost, in this process, and remove the lock from the cache."""
        self._end_cached()
        super().strike_lost()

    def _end_cached(self) -> None:
        cache = self.options.runtime.sticky_cache
        cached = cache.all.get(self.options.key)
        if cached is not None and cached.lease is self.lease:
            cache.end(cached)


class StickyLock(Lock):
    """See `lw.lock(..., sticky=True)`. For the server, this process is the only holder, under one fence."""

    def _new_hold(self, owner: Owner, lease: Lease, since: float) -> StickyHold:
        return StickyHold(self._options, owner, lease, since)

    def _reenter(self) -> Hold[Grant] | None:
        """Enter the caller's hold once more, or make a new hold if the cache has the lock and no caller uses it."""
        runtime, key = self._runtime, self._key
        place = key, current()
        if place in runtime.holds:  # already entered, perhaps by a body whose lease is lost
            return super()._reenter()
        try:
            cached = runtime.sticky_cache.idle.pop(key, None)
            if cached is None:
                self._used_key()
                return None
            lease = cached.lease
            since = now()
            hold = StickyHold(self._options, place[1], lease, since)
            lease.on_lost = hold.notify_lost
            lease.holder = hold
            if lease.lost or since >= lease.deadline:
                lease.on_lost = nothing
                lease.holder = None
                runtime.sticky_cache.end(cached)
                return None
            runtime.holds[place] = hold
            runtime.live[hold] = None
        except BaseException:
            interrupted(runtime, key, runtime.holds.pop(place, None))
            raise
        return hold

    def _release_once(self, hold: Hold[Grant]) -> Steps[None] | None:
        hold.depth -= 1
        if hold.depth or (type(hold) is StickyHold and hold.put_down()):
            return None
        return hold.end()

    def _register_hold(self, owner: Owner, request: Request, granted: Granted) -> Hold[Grant]:
        hold = super()._register_hold(owner, request, granted)
        if not granted.waited:  # if it had to wait, others may wait, too: do not cache it
            assert hold.lease is not None
            self._runtime.sticky_cache.begin(hold.lease)
            self._runtime.engine.listen()
        return hold

    def _new_request(self, owner: Owner) -> Request:
        # The owner differs for each request. With the thread as owner, the server would take a call of this thread for
        # a call of the grant's owner, while another thread uses the cached grant.
        request = super()._new_request(owner)
        return replace(request, owner=f"{request.owner}~{request.request}", request=f"{STICKY}{request.request}")


def interrupted(runtime: Runtime, key: str, hold: Hold[Grant] | None) -> None:
    """Release the lock on the server if no owner in this process holds it now; `hold` does not count."""
    if hold is not None:
        runtime.live.pop(hold, None)
    cached = runtime.sticky_cache.all.get(key)
    if cached is None:
        return
    cached.asked = True  # its holder in this process returns it after use
    in_use = any(other.lease is cached.lease for other in list(runtime.live))
    if runtime.sticky_cache.idle.pop(key, None) is not None or not in_use:
        runtime.sticky_cache.end(cached)
        runtime.engine.give_back(cached.lease)
