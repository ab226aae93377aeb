"""A primary with one replica."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import redis

from lockwork.runtime.embedded import start_private
from ports import free_port
from processes import until


@dataclass
class Pair:
    """URLs and clients of a primary and its replica."""

    url: str
    replica_url: str
    primary: redis.Redis
    replica: redis.Redis

    @contextlib.contextmanager
    def frozen(self) -> Iterator[None]:
        """Stop the replica for the block; the primary keeps counting it as connected."""
        pid = int(self.replica.info("server")["process_id"])
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)


@contextlib.contextmanager
def replicated(folder: Path) -> Iterator[Pair]:
    """Start a primary and its replica until the end of the block."""
    with start_private(folder / "primary") as primary, start_private(folder / "replica") as second:
        with redis.Redis.from_url(primary.url) as client, redis.Redis.from_url(second.url) as replica:
            # a replica needs a TCP port to follow, and these servers listen on unix sockets
            port = free_port()
            client.config_set("bind", "127.0.0.1")
            client.config_set("port", port)
            client.config_set(
                "repl-diskless-sync-delay", 0
            )  # do not wait for another replica that could share the sync
            replica.replicaof("127.0.0.1", port)
            # a primary counts a replica as synchronized while it still loads, so check the replica
            until(lambda: replica.info("replication")["master_link_status"] == "up", "it follows")
            yield Pair(primary.url, second.url, client, replica)
