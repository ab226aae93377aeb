"""A lock that stays in the process after its release, until somebody else asks for it."""

from __future__ import annotations

from asyncio import _get_running_loop
from dataclasses import replace

from lockwork.durations import Duration
from lockwork.locks.grant import Grant
from lockwork.locks.lock import Lock
from lockwork.owners import Owner, current
from lockwork.protocol.locks.grants import Granted, Request
from lockwork.protocol.locks.leases import Lease
from lockwork.runtime.clock import now
from lockwork.runtime.sync_driver import no_running_loop


class StickyLock(Lock):
    """See `lw.lock(..., sticky=True)`. To the server all its holders are one: this process, under one fence.

    What happens on every call is written flat: it is the point of a sticky lock that this costs next to nothing.
    """

    def acquire(self, wait: Duration | None = None) -> Grant:
        """Take the lock, without a call if this process has it already. Raises LockTimeout."""
        if _get_running_loop() is not None:
            no_running_loop()
        return self._at_hand() or super().acquire(wait)

    async def aacquire(self, wait: Duration | None = None) -> Grant:
        """Async version of `acquire`."""
        return self._at_hand() or await super().aacquire(wait)

    def release(self) -> None:
        """Release it, and keep it in this process unless somebody else wants it. Raises NotHeld or LockLost."""
        if _get_running_loop() is not None:
            no_running_loop()
        grant = self._mine()
        grant.depth -= 1
        if not grant.depth and not self._put_down(grant):
            super()._release_whole(grant)

    async def arelease(self) -> None:
        """Async version of `release`."""
        grant = self._mine()
        grant.depth -= 1
        if not grant.depth and not self._put_down(grant):
            await super()._arelease_whole(grant)

    def _at_hand(self) -> Grant | None:
        """The caller's grant, if this process keeps the lock and it is not in use."""
        runtime = self._runtime
        place = self._key, current()
        if place in runtime.grants:
            return None  # entered already, if only a body that has lost it
        try:
            kept = runtime.sticky_cache.idle.pop(self._key, None)
            if kept is None:
                return None
            lease = kept.lease
            since = now()
            grant = Grant(self, place[1], kept.fence, lease, since)
            lease.on_lost = grant._told_lost
            if lease.lost or since >= lease.deadline:
                lease.on_lost = _nothing
                runtime.sticky_cache.end(kept)
                return None
            runtime.grants[place] = grant
            runtime.live[grant] = None
        except BaseException:
            grant = runtime.grants.pop(place, None)
            self._interrupted(grant)
            raise
        return grant

    def _put_down(self, grant: Grant) -> bool:
        """Keep the lock for the next who needs it here; False when it must go back to the server."""
        runtime = self._runtime
        lease = grant._lease
        kept = runtime.sticky_cache.all.get(self._key)
        if lease is None or kept is None or kept.lease is not lease or kept.asked:
            return False
        if lease.lost or now() >= lease.deadline:
            return False
        try:
            if runtime.live.pop(grant, self) is not None:
                return False
            lease.on_lost = kept.lost
            grant._lease = None  # code that still looks at the grant must not take it for held
            if not grant._bodies:
                del runtime.grants[self._key, grant._owner]
            back = runtime.sticky_cache.keep(self._key, kept)
            if back is not None:
                runtime.engine.give_back(back)
        except BaseException:
            runtime.grants.pop((self._key, grant._owner), None)
            self._interrupted(grant)
            raise
        return True

    def _interrupted(self, grant: Grant | None) -> None:
        """Give the lock back to the server, if it is in nobody's hands now; those of `grant` do not count."""
        runtime = self._runtime
        runtime.live.pop(grant, None)
        kept = runtime.sticky_cache.all.get(self._key)
        if kept is None:
            return
        kept.asked = True  # its holder in this process returns it after use
        taken = any(other._lease is kept.lease for other in list(runtime.live))
        if runtime.sticky_cache.idle.pop(self._key, None) is not None or not taken:
            runtime.sticky_cache.end(kept)
            runtime.engine.give_back(kept.lease)

    def _keep(self, owner: Owner, asked: Request, granted: Granted) -> Grant:
        grant = super()._keep(owner, asked, granted)
        if not granted.waited:  # others wanted it, too: then it goes back to the line
            lease = grant._lease
            assert lease is not None
            self._runtime.sticky_cache.begin(lease)
            self._runtime.engine.listen()
        return grant

    def _release_whole(self, grant: Grant) -> None:
        no_running_loop()
        if not self._put_down(grant):
            super()._release_whole(grant)

    async def _arelease_whole(self, grant: Grant) -> None:
        if not self._put_down(grant):
            await super()._arelease_whole(grant)

    def _forget(self, grant: Grant) -> tuple[Lease, bool] | None:
        kept = self._runtime.sticky_cache.all.get(self._key)
        if kept is not None and kept.lease is grant._lease:
            self._runtime.sticky_cache.end(kept)
        return super()._forget(grant)

    def _request(self, owner: Owner) -> Request:
        # The server sees an owner per request. Were it the thread, a call of the same thread would look to the server
        # like the owner of the grant that another thread is using now.
        asked = super()._request(owner)
        return replace(asked, owner=f"{asked.owner}~{asked.request}", request=f"~{asked.request}")


def _nothing() -> None:
    return None
