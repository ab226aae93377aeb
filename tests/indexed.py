"""The index of names on the server, with the entries of a process."""

from __future__ import annotations

import redis

from processes import until


def listed(admin: redis.Redis, *names: str, kind: str = "locks") -> None:
    """Wait until the index contains these names, such as {lock:a}. A test that counts calls waits for it first."""
    wanted = {name.encode() for name in names}
    until(lambda: wanted <= {*admin.zrange(f"lw:{{lockwork}}:index:{kind}", 0, -1)}, f"the {kind} are listed")


def keys_but_indexes(client: redis.Redis) -> list[bytes]:
    """Return all keys, sorted, except the indexes of names: the engine's thread adds names after calls return."""
    return sorted(key for key in client.scan_iter(count=1000) if b":index:" not in key)
