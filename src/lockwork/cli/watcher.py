"""Ends the program of `lockwork run` when that one is gone, or was paused for too long; however that came.

Usage: python -I -S watcher.py GRACE; standard input is a pipe that only `lockwork run` holds open. What it writes there
says until when the watcher shall wait for the next word: two numbers, when to end the program and when the lease ends.

It leads the process group that the program joins. So the group's number is nobody else's for as long as the watcher
is there. All signals are blocked by whoever starts it. Standard library only, and run by its path: it starts fast.
"""

from __future__ import annotations

import os
import select
import signal
import struct
import sys
import time

WORD: struct.Struct = struct.Struct("dd")
_PIPE = 0


def main(grace: float) -> None:
    """Wait for the end of the pipe or of the time, then end the group, ourselves included."""
    end_at = lease_end = float("inf")
    while True:
        pause = None if end_at == float("inf") else max(0.0, end_at - _now())
        ready, _, _ = select.select([_PIPE], [], [], pause)
        if not ready:
            break
        words = os.read(_PIPE, 4096)
        if not words:
            break
        end_at, lease_end = WORD.unpack(words[-WORD.size :])
    os.killpg(0, signal.SIGTERM)
    os.killpg(0, signal.SIGCONT)  # a stopped program hears SIGTERM only when it goes on
    time.sleep(max(0.0, min(grace, lease_end - _now())))
    os.killpg(0, signal.SIGKILL)


def _now() -> float:
    # the same as in lockwork.runtime.clock
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


if __name__ == "__main__":
    main(float(sys.argv[1]))
