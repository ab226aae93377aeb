"""Clients of redis-py for the servers of the tests, whatever their topology."""

from __future__ import annotations

from typing import Any

import redis
import redis.cluster
import redis.sentinel


def client_of(url: str, **options: Any) -> Any:
    """Return a client for a URL of the tests: of a server, of a primary behind Sentinels, or of a Cluster."""
    place, _, name = url.partition("://")[2].partition("/")
    hosts = [(host.partition(":")[0], int(host.partition(":")[2])) for host in place.split(",")] if "+" in url else []
    if url.startswith("redis+cluster:"):
        node: Any = redis.cluster.ClusterNode
        return redis.RedisCluster(startup_nodes=[node(*host) for host in hosts], **options)
    if url.startswith("redis+sentinel:"):
        sentinel: Any = redis.sentinel.Sentinel
        return sentinel(hosts).master_for(name.partition("/")[0].partition("?")[0], **options)
    return redis.Redis.from_url(url, **options)
