"""A real server that a test may kill and restart at the same address, with or without its data."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path
from typing import Self

import redis

from lockwork.runtime.embedded import Embedded, start_private


class MortalServer:
    """A server that a test kills.

    fsync: `always` writes each command to disk, so that SIGKILL loses no acknowledged write; `everysec` once a second;
    None keeps no data.
    """

    def __init__(self, folder: Path, fsync: str | None = "always") -> None:
        self._folder, self._fsync = folder, fsync
        self._server: Embedded | None = None
        self.url: str = self.start()

    def start(self, *, empty: bool = False) -> str:
        """Restart the server at the same address; `empty`: as if its disk had been replaced."""
        assert self._server is None, "it runs"
        if empty:
            shutil.rmtree(self._folder / "data")
        self._server = start_private(self._folder, durable=self._fsync is not None)
        if self._fsync is not None:
            with redis.Redis.from_url(self._server.url) as client:
                client.config_set("appendfsync", self._fsync)
        return self._server.url

    def kill(self) -> None:
        """Kill the server with SIGKILL, and wait until its process is gone."""
        assert self._server is not None, "it was killed before"
        os.kill(self._server.pid, signal.SIGKILL)
        self.close()

    def close(self) -> None:
        """Kill the server if it runs."""
        server, self._server = self._server, None
        if server is not None:
            server.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
