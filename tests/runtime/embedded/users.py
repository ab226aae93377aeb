"""Processes that use an embedded server, and the processes that they start."""

from __future__ import annotations

import os
import select
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import redis

import zygote

MARKS = [
    pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="waits for processes through pidfds"),
    pytest.mark.timeout(40),
]

LIMIT = 15

_USER = """
import sys
from pathlib import Path
from lockwork.runtime.embedded import Embedded, open_shared, start_private
opened = {}(Path(sys.argv[1]))
print(opened.pid, flush=True)
sys.stdin.read()
opened.close()
"""


class User:
    """A process that opens a server, prints its process ID, and leaves on request."""

    def __init__(self, folder: Path, how: str = "open_shared") -> None:
        command = [sys.executable, "-c", _USER.format(how), str(folder)]
        self.process = zygote.popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._pid: int | None = None

    @property
    def pid(self) -> int:
        """The server's process ID; waits until the process has joined."""
        if self._pid is None:
            assert self.process.stdout is not None
            self._pid = int(self.process.stdout.readline())
        return self._pid

    def leave(self) -> None:
        self.process.communicate(timeout=LIMIT)
        assert self.process.returncode == 0

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate(timeout=LIMIT)


class Watched:
    """A process that is no child of ours, by a descriptor, because its ID could be reused."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.descriptor = os.pidfd_open(pid)

    def alive(self) -> bool:
        return not select.select([self.descriptor], [], [], 0)[0]

    def wait(self) -> None:
        assert select.select([self.descriptor], [], [], LIMIT)[0], f"process {self.pid} did not end"

    def parent(self) -> int:
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return int(fields[1])


@contextmanager
def users(folder: Path, count: int, how: str = "open_shared") -> Iterator[list[User]]:
    """Start processes together, and end them in every case."""
    made = [User(folder, how) for _ in range(count)]
    try:
        yield made
    finally:
        for user in made:
            user.kill()


def client(url: str) -> redis.Redis:
    return redis.Redis.from_url(url, decode_responses=True)
