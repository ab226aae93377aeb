"""A worker process whose supervisor was killed before it sent settings."""

from __future__ import annotations

import os
import socket
import subprocess
import sys


def test_process_without_settings_ends_silently() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    reading, writing = os.pipe()
    os.close(writing)
    command = [sys.executable, "-m", "lockwork.worker.process.main", "asyncio", str(theirs.fileno())]
    with ours, theirs:
        try:
            ended = subprocess.run(
                command, stdin=reading, pass_fds=[theirs.fileno()], capture_output=True, timeout=30, check=False
            )
        finally:
            os.close(reading)
    assert ended.returncode == 1
    assert ended.stderr == b""
