"""A grant on its way to another process, as a text."""

from __future__ import annotations

import binascii
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import TYPE_CHECKING

import msgspec

from lockwork.errors import ConfigError, LockLost

if TYPE_CHECKING:
    from lockwork.locks.grant import Grant
    from lockwork.locks.holding import Holding

_LONGEST = 2000


class Passed(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    """What the text says: which grant of which lock."""

    key: str
    owner: str
    fence: int


def export(handle: Holding, grant: Grant) -> str:
    """End `grant` in this process without giving it back, and write it down."""
    grant.check()
    ended = handle._forget(grant)
    if ended is None or not ended[1]:
        raise LockLost(f"the lease of {handle.noun} {grant.name!r} ended before it could be exported")
    renewal = ended[0].renewal
    return urlsafe_b64encode(msgspec.json.encode(Passed(renewal.key, renewal.owner, renewal.fence))).decode()


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
