"""A real server with options of the test, such as `--maxmemory 20mb`."""

from __future__ import annotations

import contextlib
import resource
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import redis

from lockwork.runtime.embedded.folder import program
from ports import free_port
from processes import until


@dataclass(frozen=True)
class Configured:
    """A running server."""

    url: str
    pid: int

    def fill_disk(self) -> None:
        """Let all writes to files fail from now on, as on a full disk."""
        resource.prlimit(self.pid, resource.RLIMIT_FSIZE, (0, 0))


@contextlib.contextmanager
def configured(folder: Path, *options: str) -> Iterator[Configured]:
    """Run a server with its files in `folder` until the end of the block."""
    port = free_port()
    usual = ("--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "yes", "--dir", str(folder))
    command = [str(program()), *usual, *options]
    # Python ignores SIGXFSZ; a server that inherits this gets an error from a write to a full disk, and lives
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, cwd=folder, restore_signals=False) as process:
        try:
            with redis.Redis(port=port) as client:
                until(lambda: answers(client), "it answers")
            yield Configured(f"redis://127.0.0.1:{port}", process.pid)
        finally:
            process.kill()


def answers(client: redis.Redis) -> bool:
    """Return True if the server has started."""
    with contextlib.suppress(redis.ConnectionError):
        return bool(client.ping())
    return False
