"""The common base of the shared formats: the key is used unchanged, and waiting callers poll."""

from __future__ import annotations

from typing import Unpack

from msgspec.structs import replace

from lockwork.app.lockwork import Lockwork
from lockwork.errors import ConfigError
from lockwork.locks.grant import Grant, LockHold
from lockwork.locks.handle import Handle
from lockwork.locks.hold import Hold
from lockwork.locks.options import LeaseSettings
from lockwork.owners import Owner
from lockwork.protocol.effects import Protocol
from lockwork.protocol.locks import grants
from lockwork.protocol.locks.grants import Granted, Request
from lockwork.protocol.locks.leases import Lease

_LONGEST = 1000


class PolledLock(Handle[Grant]):
    """A lock on one key that other programs share. It has no fence and no waiting line, because their format has none.

    A thread or asyncio task may acquire it again, as any other handle; the server does not see that.
    """

    def __init__(
        self,
        lw: Lockwork,
        key: str,
        **settings: Unpack[LeaseSettings[Grant]],
    ) -> None:
        if not isinstance(lw, Lockwork):
            raise ConfigError(f"a shared lock is made with a Lockwork object and the key, not {lw!r:.60}")
        super().__init__(lw.runtime, lw.config, "key", **settings)
        self._key = _checked_key(key)
        self.name: str = self._key
        self._options = replace(self._options, name=self._key, key=self._key)

    def _new_hold(self, owner: Owner, lease: Lease, since: float) -> Hold[Grant]:
        return LockHold(self._options, owner, lease, since)

    def _request_grant(self, request: Request, wait: float | None) -> Protocol[Granted]:
        raise NotImplementedError

    def _abandon_request(self, request: Request) -> Protocol[object]:
        return grants.release(request.key, request.owner, 0, scripts=request.scripts, patience=1)

    def _new_request(self, owner: Owner) -> Request:
        request = super()._new_request(owner)
        return replace(request, owner=self._token(request))

    def _token(self, request: Request) -> str:
        """Return a unique token for the acquisition."""
        return request.request


def _checked_key(key: object) -> str:
    if not isinstance(key, str) or not 1 <= len(key) <= _LONGEST:
        raise ConfigError(f"the key of a shared lock must be a text of 1 to {_LONGEST} characters, not {key!r:.60}")
    try:
        key.encode()
    except UnicodeEncodeError:
        raise ConfigError(f"the key of a shared lock must be a text that UTF-8 can hold, not {key!r:.60}") from None
    return key
