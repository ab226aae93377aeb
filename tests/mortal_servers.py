"""A real server that a test may kill and start again at the same address, with its data or without."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path
from typing import Self

import redis

from lockwork.runtime.embedded import Embedded, start_private


class MortalServer:
    """Keeps every write, so that SIGKILL takes nothing back that was acknowledged."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._server: Embedded | None = None
        self.url: str = self.start()

    def start(self, *, empty: bool = False) -> str:
        """Let it come back, at the same address; `empty`: as if its disk had been replaced."""
        assert self._server is None, "it runs"
        if empty:
            shutil.rmtree(self._folder / "data")
        self._server = start_private(self._folder, durable=True)
        with redis.Redis.from_url(self._server.url) as client:
            client.config_set("appendfsync", "always")
        return self._server.url

    def kill(self) -> None:
        """End it with SIGKILL, and wait until it is gone."""
        assert self._server is not None, "it was killed before"
        os.kill(self._server.pid, signal.SIGKILL)
        self.close()

    def close(self) -> None:
        """End it if it runs."""
        server, self._server = self._server, None
        if server is not None:
            server.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
