"""Independent real servers that a test may stop, resume and empty."""

from __future__ import annotations

import os
import signal

import redis


class Servers:
    """Several servers, each with an app."""

    def __init__(self, urls: list[str]) -> None:
        self.urls = urls
        self.pids = [self._pid(url) for url in urls]
        self._stopped: set[int] = set()

    @staticmethod
    def _pid(url: str) -> int:
        with redis.Redis.from_url(url) as client:
            return int(client.info("server")["process_id"])

    def stop(self, at: int) -> None:
        """Stop a server's process, so that it hangs."""
        os.kill(self.pids[at], signal.SIGSTOP)
        self._stopped.add(at)

    def resume(self, at: int) -> None:
        os.kill(self.pids[at], signal.SIGCONT)
        self._stopped.discard(at)

    def empty(self, at: int) -> None:
        """Delete all data, as after a restart without persistence."""
        with redis.Redis.from_url(self.urls[at]) as client:
            client.flushall()

    def fields(self, at: int, key: str = "lw:{quorum:x}") -> dict[bytes, bytes]:
        with redis.Redis.from_url(self.urls[at]) as client:
            fields: dict[bytes, bytes] = client.hgetall(key)
            return fields

    def free(self) -> bool:
        """Return True if no server has a grant."""
        return all(int(self.fields(at).get(b"d", 0)) == 0 for at in range(len(self.urls)))

    def resume_all(self) -> None:
        for at in list(self._stopped):
            self.resume(at)
