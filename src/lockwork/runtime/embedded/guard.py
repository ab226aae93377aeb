"""The guardian: a small process that owns one embedded server and ends it after its last user leaves.

It runs by path, without this package and without site-packages, so that it starts fast: it uses only the standard
library.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

STOP_LIMIT = 10.0
"""Seconds for the server to end after SIGTERM; then it is killed."""
_PR_SET_PDEATHSIG = 1


def main(arguments: list[str]) -> None:
    """Start the server; wait until it ends, or until its last user leaves, and then end it.

    Arguments: "detach" or "child", the file `users`, the descriptor of the server's lock, the server's socket and its
    command. The guardian's own lock is one more inherited descriptor, which the kernel releases when the guardian ends.
    SIGTERM ends the server even if it has users.
    """
    mode, users_file, server_lock, address, *command = arguments
    if mode == "detach" and os.fork():
        # the starting process must get no unknown child: it may wait for any child
        os._exit(0)
    # exec inherits both: a starter that blocks or ignores signals must not make the guardian ignore them
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    os.umask(0o077)
    # opened before the server starts: without this file, the guardian could not detect that the server is unused
    users = os.open(users_file, os.O_RDWR | os.O_CLOEXEC)
    lock = int(server_lock)
    server = subprocess.Popen(  # noqa: S603 - our own command
        command,
        stdin=subprocess.DEVNULL,
        pass_fds=(lock,),
        process_group=0,
        preexec_fn=_before_exec(lock, address),  # noqa: PLW1509 - there is no thread yet
    )
    # from here on, this lock ends with the server and its rewrite child, which also uses the data
    os.close(lock)

    def stop(*_: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            server.terminate()
        killer = threading.Timer(STOP_LIMIT, _kill, (server.pid,))
        killer.daemon = True
        killer.start()

    def watch() -> None:
        try:
            # kept until exit: joining processes wait for it, so they never use a server that is about to stop
            fcntl.flock(users, fcntl.LOCK_EX)
        finally:
            stop()

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    threading.Thread(target=watch, daemon=True).start()
    server.wait()
    # no other process starts a server here while the guardian has its lock, so these files are its own
    _tidy(Path(address), Path(users_file).parent)
    # the watching thread may block in flock forever
    os._exit(0)


def _before_exec(lock: int, address: str) -> Callable[[], None]:
    """Return the function that the server's process runs before exec."""
    guardian = os.getpid()
    host = socket.gethostname()
    prctl = ctypes.CDLL(None).prctl if sys.platform == "linux" else None

    def run() -> None:
        if prctl is not None:
            # a killed guardian's server gets SIGTERM, so that it still saves its data
            prctl(_PR_SET_PDEATHSIG, signal.SIGTERM.value, 0, 0, 0)
            if os.getppid() != guardian:
                os._exit(1)
        # written by the server's own process, so that each running server has a record
        record = json.dumps({"pid": os.getpid(), "host": host, "socket": address}) + "\n"
        os.pwrite(lock, record.encode(), 0)

    return run


def _kill(group: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


def _tidy(address: Path, folder: Path) -> None:
    # a killed server leaves its socket; a socket outside the folder is in a separate temporary folder
    with contextlib.suppress(OSError):
        address.unlink(missing_ok=True)
        if address.parent != folder:
            address.parent.rmdir()


if __name__ == "__main__":
    main(sys.argv[1:])
