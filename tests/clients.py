"""redis-py clients for the servers of the tests, for each topology."""

from __future__ import annotations

from typing import Any

import redis
import redis.cluster
import redis.sentinel


class _Cluster(redis.RedisCluster):
    """A Cluster client that sends server commands to all primaries."""

    def config_set(self, name: Any, value: Any, *more: Any, **options: Any) -> Any:
        return super().config_set(name, value, *more, **self._all(options))

    def config_resetstat(self, **options: Any) -> Any:
        return super().config_resetstat(**self._all(options))

    def client_kill_filter(self, *words: Any, **options: Any) -> Any:
        return super().client_kill_filter(*words, **self._all(options))

    def keys(self, pattern: Any = "*", **options: Any) -> Any:
        return super().keys(pattern, **self._all(options))

    def pubsub_numsub(self, *channels: Any, **options: Any) -> Any:
        return super().pubsub_numsub(*channels, **self._all(options))

    def _all(self, options: dict[str, Any]) -> dict[str, Any]:
        return {"target_nodes": self.PRIMARIES, **options}


class _Watched(redis.Redis):
    """A Sentinel client that also closes its connections to the Sentinels."""

    def close(self) -> None:
        super().close()
        manager: redis.sentinel.Sentinel = self.connection_pool.sentinel_manager  # type: ignore[attr-defined]
        for sentinel in manager.sentinels:
            sentinel.close()


def connections(admin: Any) -> list[dict[str, Any]]:
    """Return the connections of apps to the server, without this client, replicas and Sentinels."""
    clients: list[dict[str, Any]] = admin.client_list()
    own = admin.client_id()
    return [
        each
        for each in clients
        if int(each["id"]) != own and "S" not in each["flags"] and not each["name"].startswith("sentinel-")
    ]


def client_of(url: str, **options: Any) -> Any:
    """Return a client for a URL of the tests: of a server, of a primary behind Sentinels, or of a Cluster."""
    place, _, name = url.partition("://")[2].partition("/")
    hosts = [(host.partition(":")[0], int(host.partition(":")[2])) for host in place.split(",")] if "+" in url else []
    if url.startswith("redis+cluster:"):
        node: Any = redis.cluster.ClusterNode
        return _Cluster(startup_nodes=[node(*host) for host in hosts], **options)
    if url.startswith("redis+sentinel:"):
        sentinel: Any = redis.sentinel.Sentinel
        service = name.partition("/")[0].partition("?")[0]
        return sentinel(hosts).master_for(service, redis_class=_Watched, **options)
    return redis.Redis.from_url(url, **options)


def servers_of(client: Any) -> list[Any]:
    """Return a client for each server behind `client`: for each primary of a Cluster, or the one server."""
    if not isinstance(client, redis.RedisCluster):
        return [client]
    cluster: Any = client
    return [cluster.get_redis_connection(node) for node in cluster.get_primaries()]
