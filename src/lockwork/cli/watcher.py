"""Ends the program of `lockwork run` if that command ends, or is paused for too long.

Usage: python -I -S watcher.py GRACE. Standard input is a pipe that only `lockwork run` holds open. Each message has the
time to end the program, the end of the lease, and the program's process id, 0 before it starts. The watcher waits for
the next message until the first of these times.

The watcher leads the process group that the program joins, so no other group can have its number while the watcher
runs. Its parent blocks all signals before the start. Standard library only, and run by its path: it starts fast.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import struct
import sys
import time

MESSAGE: struct.Struct = struct.Struct("ddq")
_PIPE = 0


def main(grace: float) -> None:
    """Wait for the end of the pipe or of the time, then end the group with the watcher."""
    end_at = lease_end = float("inf")
    program: _Program | None = None
    while True:
        pause = None if end_at == float("inf") else max(0.0, end_at - _now())
        ready, _, _ = select.select([_PIPE], [], [], pause)
        if not ready:
            break
        data = os.read(_PIPE, 4096)
        if not data:
            break
        end_at, lease_end, number = MESSAGE.unpack(data[-MESSAGE.size :])
        if number and program is None:
            program = _Program(number)
    _send(signal.SIGTERM, program)
    _send(signal.SIGCONT, program)  # a stopped program receives SIGTERM when it continues
    time.sleep(max(0.0, min(grace, lease_end - _now())))
    _send(signal.SIGKILL, program)


class _Program:
    """The program itself, which may leave the group, as an interactive shell does."""

    def __init__(self, number: int) -> None:
        self.number = number
        # opened in time, so that it cannot be another process with the same id
        self.file = os.pidfd_open(number) if hasattr(os, "pidfd_open") else None

    def send(self, number: int) -> None:
        """Send the program a signal if it has left the group."""
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
    os.killpg(0, number)  # it includes the watcher: its signals are blocked, except SIGKILL


def _now() -> float:
    # the same as in lockwork.runtime.clock
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


if __name__ == "__main__":
    main(float(sys.argv[1]))
