"""Removes the demo's temporary folder once the demo and all its processes are gone, also after kill -9.

Run by its path and with the standard library only, so that it is there at once. Usage: sweep.py FOLDER; standard input
is a pipe that the demo and its programs hold open.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import sys
import time
from pathlib import Path

LONGEST = 20.0
"""Seconds that the server's guardian may take to end after everybody else; then the folder is deleted anyway."""


def main() -> None:
    """Wait, then remove."""
    folder = Path(sys.argv[1])
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # we end when the others have, and a signal to all of them must not end us first
        signal.signal(number, signal.SIG_IGN)
    while os.read(0, 1024):
        pass
    _until_unguarded(folder / "valkey" / "guardian")
    shutil.rmtree(folder, ignore_errors=True)


def _until_unguarded(lock: Path) -> None:
    """Wait for the end of the process that guards the server: it holds this file's lock as long as it lives."""
    with contextlib.suppress(FileNotFoundError), lock.open() as file:
        limit = time.monotonic() + LONGEST
        while time.monotonic() < limit and not _taken(file.fileno()):
            time.sleep(0.02)


def _taken(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


if __name__ == "__main__":
    main()
