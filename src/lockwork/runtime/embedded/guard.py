"""The guardian: a small process that owns one embedded server and ends it when its last user has left.

It is run by its path, without this package and without site-packages, so that it starts fast: it uses the
standard library only.
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
"""Seconds that the server may take to end after SIGTERM; then it is killed."""
_PR_SET_PDEATHSIG = 1


def main(arguments: list[str]) -> None:
    """Start the server; wait for its end, or for that of its last user and then end it.

    Arguments: "detach" or "child", the file `users`, the descriptor of the server's lock, the server's socket
    and its command. Our own lock is one more inherited descriptor, which the kernel drops when we end.
    SIGTERM ends the server whether it has users or not.
    """
    mode, users_file, server_lock, address, *command = arguments
    if mode == "detach" and os.fork():
        # the process that started us gets no child that it does not know: it may wait for just any child
        os._exit(0)
    # both are inherited through exec: a starter that blocks or ignores signals must not make us deaf
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    os.umask(0o077)
    # opened before there is a server: without this file nobody could tell that it is no longer needed
    users = os.open(users_file, os.O_RDWR | os.O_CLOEXEC)
    lock = int(server_lock)
    server = subprocess.Popen(  # noqa: S603 - our own command
        command,
        stdin=subprocess.DEVNULL,
        pass_fds=(lock,),
        process_group=0,
        preexec_fn=_before_exec(lock, address),  # noqa: PLW1509 - there is no thread yet
    )
    # from here on this lock ends with the server and its rewrite child, which uses the data as well
    os.close(lock)

    def stop(*_: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            server.terminate()
        killer = threading.Timer(STOP_LIMIT, _kill, (server.pid,))
        killer.daemon = True
        killer.start()

    def watch() -> None:
        try:
            # kept until we end: joiners wait for it, and so never meet a server that is about to stop
            fcntl.flock(users, fcntl.LOCK_EX)
        finally:
            stop()

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    threading.Thread(target=watch, daemon=True).start()
    server.wait()
    # nobody starts another server here while we have our lock, so what lies here is not theirs
    _tidy(Path(address), Path(users_file).parent)
    # the watching thread may be in flock for ever
    os._exit(0)


def _before_exec(lock: int, address: str) -> Callable[[], None]:
    """What the server's process does before it becomes the server."""
    guardian = os.getpid()
    host = socket.gethostname()
    prctl = ctypes.CDLL(None).prctl if sys.platform == "linux" else None

    def run() -> None:
        if prctl is not None:
            # the server follows a killed guardian; by SIGTERM, so that it still writes what it has
            prctl(_PR_SET_PDEATHSIG, signal.SIGTERM.value, 0, 0, 0)
            if os.getppid() != guardian:
                os._exit(1)
        # by the server's own process: so whenever a server runs, its record is there
        record = json.dumps({"pid": os.getpid(), "host": host, "socket": address}) + "\n"
        os.pwrite(lock, record.encode(), 0)

    return run


def _kill(group: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


def _tidy(address: Path, folder: Path) -> None:
    # a killed server leaves its socket; a socket outside the folder is in a temporary folder of its own
    with contextlib.suppress(OSError):
        address.unlink(missing_ok=True)
        if address.parent != folder:
            address.parent.rmdir()


if __name__ == "__main__":
    main(sys.argv[1:])
