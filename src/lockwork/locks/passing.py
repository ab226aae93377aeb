"""A grant on its way to another process, as a text."""

from __future__ import annotations

import binascii
import contextlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec

from lockwork.errors import ConfigError, LockLost, LockworkError
from lockwork.protocol.effects import Protocol
from lockwork.protocol.locks import grants
from lockwork.protocol.locks import lock as protocol

if TYPE_CHECKING:
    from lockwork.locks.grant import Grant
    from lockwork.locks.ownership import Holding
    from lockwork.protocol.locks.leases import Lease

_LONGEST = 2000


class Passed(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    """What the text says: which grant of which lock."""

    key: str
    owner: str
    fence: int


def export(handle: Holding, grant: Grant, lease: Lease, lease_ms: int) -> Protocol[str]:
    """Hand `grant`, which this process has just forgotten, to whoever has the text; without that, it is released."""
    asked = handle._request(grant._owner)
    # Nobody's owner: were it the exporter's, then the exporter, asking again, would look to the server like the holder.
    transit = replace(asked, owner=f"{asked.owner}~{asked.request}", lease_ms=lease_ms, kind="lock")
    renewal = lease.renewal
    try:
        moved = yield from protocol.adopt(transit, renewal.owner, renewal.fence)
    except GeneratorExit:
        raise
    except BaseException:
        yield from grants.abandon(transit)
        with contextlib.suppress(LockworkError):
            yield from grants.release(renewal.key, renewal.owner, renewal.fence, patience=1)
        raise
    if moved is None:
        raise LockLost(f"the lease of {handle.noun} {grant.name!r} ended before it could be exported")
    return urlsafe_b64encode(msgspec.json.encode(Passed(asked.key, transit.owner, moved.fence))).decode()


def read(exported: str, key: str) -> Passed:
    """Read it again; raises ConfigError when it is not one of ours, or another lock's."""
    try:
        if not isinstance(exported, str) or len(exported) > _LONGEST:
            raise ValueError
        passed = msgspec.json.decode(urlsafe_b64decode(exported.encode("ascii")), type=Passed)
    except (ValueError, binascii.Error, msgspec.MsgspecError):
        raise ConfigError("this is not a text that export() of a lock has returned") from None
    if passed.key != key:
        raise ConfigError(f"this grant was exported by {passed.key!r}, and cannot be adopted by {key!r}")
    return passed
