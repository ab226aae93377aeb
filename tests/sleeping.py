"""Idle workers of a queue, by their channels on the server."""

from __future__ import annotations

import redis

from clients import client_of
from lockwork import Lockwork
from processes import until


def sleepers(url: str, queue: str, count: int) -> None:
    """Wait until `count` worker processes sleep on a queue; 0: until no worker process fetches."""
    with client_of(url) as admin:
        until(lambda: admin.zcard(f"lw:{{q:{queue}}}:idle_workers") == count, f"{count} workers sleep on {queue}")


def another_sleeps(url: str, queue: str, others: set[bytes]) -> None:
    """Wait until another worker process than these sleeps on a queue."""
    until(lambda: idle(url, queue) - others, f"another worker sleeps on {queue}")


def idle(url: str, queue: str) -> set[bytes]:
    """Return the channels of the worker processes that sleep on a queue."""
    with client_of(url) as admin:
        return set(admin.zrange(f"lw:{{q:{queue}}}:idle_workers", 0, -1))


def hears(url: str, app: Lockwork, tag: str) -> None:
    """Wait until the server has the app's subscription for a hash tag."""
    channel = app.runtime.channel
    with client_of(url) as admin:
        if isinstance(admin, redis.RedisCluster):
            name = f"{channel}{{{tag}}}".encode()
            until(lambda: name in admin.pubsub_shardchannels(target_nodes=admin.PRIMARIES), "it hears")
        else:
            until(lambda: admin.pubsub_numsub(channel)[0][1], "it hears")
