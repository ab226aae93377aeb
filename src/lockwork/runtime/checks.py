"""What a server must be like before locks and jobs are entrusted to it."""

from __future__ import annotations

from collections.abc import Sequence

from lockwork.errors import ServerUnsuitable
from lockwork.logs import Log
from lockwork.runtime.identity import COMMANDS, Identity, identify
from lockwork.runtime.replies import Demoted, passing, raise_error, read_only

log: Log = Log("lockwork")

OLDEST = (6, 2)
_warned: set[str] = set()
"""Servers that this process has warned about: each of its connections finds the same."""


def check(replies: Sequence[object], where: str, *, allow_eviction: bool) -> Identity | None:
    """Return who the connection is, from the replies to ASK; None, with a warning, if this user could not end it later.

    Raises ServerUnsuitable unless INFO shows a server of at least 6.2 that evicts no keys, Demoted for a read-only
    replica, Retry when the server cannot serve just now, and ServerRefused when a password is missing. A user without
    INFO is not checked.
    """
    for reply, command in zip(replies, COMMANDS, strict=True):
        if passing(str(reply)) or str(reply).startswith("NOAUTH"):
            raise_error(str(reply), where, command[0])
    if isinstance(replies[0], bytes):
        _check_info(replies[0], where, allow_eviction=allow_eviction)
    identity = identify(replies)
    if identity is None:
        _warn(replies, where)
    return identity


def _check_info(info: bytes, where: str, *, allow_eviction: bool) -> None:
    facts = dict(line.split(":", 1) for line in info.decode(errors="replace").splitlines() if ":" in line)
    version = facts.get("redis_version", "")
    numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
    if numbers and numbers < OLDEST:
        raise ServerUnsuitable(f"the server at {where} is version {version}: use Redis 6.2 or later, or Valkey")
    if facts.get("role") == "slave" and facts.get("slave_read_only", "1") == "1":
        raise Demoted(read_only(where))
    policy = facts.get("maxmemory_policy", "noeviction")
    if policy != "noeviction" and not allow_eviction:
        raise ServerUnsuitable(
            f"the server at {where} may evict locks and jobs (maxmemory-policy {policy}): set it to noeviction, "
            "or pass allow_eviction=True if you accept lost locks and jobs"
        )


def _warn(replies: Sequence[object], where: str) -> None:
    if where in _warned:
        return
    _warned.add(where)
    refused = " and ".join(
        " ".join(command[:2]) for reply, command in zip(replies, COMMANDS, strict=True) if isinstance(reply, Exception)
    )
    log.warning(
        "this user may not run %s at %s, so a call that the network delivers late still takes effect, and may leave a "
        "lock or a job to nobody. Grant the user +info +client|id +client|kill (ACL SETUSER; see docs/security.md)",
        refused or "INFO and CLIENT KILL",
        where,
    )
