"""What a server must be like before locks and jobs are entrusted to it."""

from __future__ import annotations

from lockwork.errors import ServerUnsuitable
from lockwork.runtime.replies import Demoted, raise_error, read_only

OLDEST = (6, 2)


def check(info: object, where: str, *, allow_eviction: bool) -> None:
    """Raise ServerUnsuitable unless the server's INFO shows a server of at least 6.2 that evicts no keys.

    Raises Demoted for a read-only replica. A user without the right to ask is taken at its word; raises ServerRefused
    when a password is missing, and Retry when the server cannot answer yet.
    """
    if not isinstance(info, bytes):
        if not str(info).startswith(("NOPERM", "ERR")):
            raise_error(str(info), where, "INFO")
        return
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
