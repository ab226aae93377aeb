"""Ends the program of `lockwork run` when that one is gone, or was paused for too long; however that came.

Usage: python -I -S watcher.py GRACE; standard input is a pipe that only `lockwork run` holds open. What it writes there
says until when the watcher shall wait for the next word: when to end the program, when the lease ends, and the
program's number, 0 when there is none yet.

It leads the process group that the program joins. So the group's number is nobody else's for as long as the watcher
is there. Its parent blocks all signals before the start. Standard library only, and run by its path: it starts fast.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import struct
import sys
import time

WORD: struct.Struct = struct.Struct("ddq")
_PIPE = 0


def main(grace: float) -> None:
    """Wait for the end of the pipe or of the time, then end the group, ourselves included."""
    end_at = lease_end = float("inf")
    program: _Program | None = None
    while True:
        pause = None if end_at == float("inf") else max(0.0, end_at - _now())
        ready, _, _ = select.select([_PIPE], [], [], pause)
        if not ready:
            break
        words = os.read(_PIPE, 4096)
        if not words:
            break
        end_at, lease_end, number = WORD.unpack(words[-WORD.size :])
        if number and program is None:
            program = _Program(number)
    _send(signal.SIGTERM, program)
    _send(signal.SIGCONT, program)  # a stopped program hears SIGTERM only when it goes on
    time.sleep(max(0.0, min(grace, lease_end - _now())))
    _send(signal.SIGKILL, program)


class _Program:
    """The program itself, which may leave the group, as an interactive shell does."""

    def __init__(self, number: int) -> None:
        self.number = number
        # who opens it in time cannot meet another process of the same number later
        self.file = os.pidfd_open(number) if hasattr(os, "pidfd_open") else None

    def send(self, number: int) -> None:
        """Send it a signal if it has left the group."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if os.getpgid(self.number) == os.getpgrp():
                return
            if self.file is None:
                os.kill(self.number, number)
            else:
                signal.pidfd_send_signal(self.file, number)


def _send(number: int, program: _Program | None) -> None:
    if program is not None:
        program.send(number)
    os.killpg(0, number)  # ourselves included: our signals are blocked, but SIGKILL is not


def _now() -> float:
    # the same as in lockwork.runtime.clock
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


if __name__ == "__main__":
    main(float(sys.argv[1]))
