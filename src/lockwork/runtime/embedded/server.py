"""Starts, finds and ends the server of a folder; only one process at a time runs this code."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from lockwork.errors import ConfigError, ServerUnavailable
from lockwork.runtime.embedded.folder import lock, program, socket_path, try_lock

if TYPE_CHECKING:
    from collections.abc import Callable

if sys.platform != "win32":
    import fcntl

Mode = Literal["detach", "child"]
Guardian = subprocess.Popen[bytes]

_GUARD = Path(__file__).with_name("guard.py")
_READY_LIMIT = 10.0
_END_LIMIT = 10.0
_STEP = 0.005


class Record(Struct, frozen=True):
    """Content of the file `server`, about the server that holds this file's lock."""

    pid: int
    host: str
    socket: str


def join(folder: Path, *, durable: bool, mode: Mode) -> tuple[Record, Guardian | None]:
    """Return the folder's server, started if necessary, and the guardian if it was started here.

    The caller holds `start` and `users`: meanwhile no other process starts a server, and no guardian ends one. Raises
    ConfigError and ServerUnavailable.
    """
    while True:
        guardian = _start_unless_running(folder, durable=durable, mode=mode)
        try:
            record = _ready(folder)
        except BaseException:
            if guardian is not None and mode == "child":
                guardian.terminate()
                guardian.wait()
            raise
        if record is not None:
            return record, guardian
        if guardian is not None:
            guardian.wait()
            raise ServerUnavailable(f"the embedded server in {folder} did not start{_last_words(folder)}")
        # the server was killed during this call: start the next one


def end_server(folder: Path) -> int:
    """End a server without a guardian, if there is one, and return its lock; raises ServerUnavailable."""
    for kind in (signal.SIGTERM, signal.SIGKILL):
        server = try_lock(folder / "server")
        if server is not None:
            return server
        record = _read_record(folder)
        if record is not None:
            if record.host != socket.gethostname():
                raise ServerUnavailable(f"end process {record.pid} on {record.host}: it uses {folder} unguarded")
            # a process of the server's group holds this lock, so the number still belongs to that group
            with contextlib.suppress(ProcessLookupError):
                os.killpg(record.pid, kind)
        server = _until(lambda: try_lock(folder / "server"), _END_LIMIT)
        if server is not None:
            return server
    raise ServerUnavailable(f"the embedded server in {folder} lost its guardian: end it by hand")


def _start_unless_running(folder: Path, *, durable: bool, mode: Mode) -> Guardian | None:
    server = try_lock(folder / "server")
    if server is None:
        guardian = try_lock(folder / "guardian")
        if guardian is None:
            return None
    else:
        # waits only for the guardian of a killed server, which is about to end
        guardian = lock(folder / "guardian", fcntl.LOCK_EX)
    try:
        if server is None:
            # the guardian was killed: on Linux its server ends with it, elsewhere the server would run forever
            server = end_server(folder)
        return _start(folder, guardian, server, durable=durable, mode=mode)
    finally:
        # closed, not unlocked: the two new processes have these locks now
        os.close(guardian)
        if server is not None:
            os.close(server)


def _start(folder: Path, guardian: int, server: int, *, durable: bool, mode: Mode) -> Guardian:
    if not sys.executable:
        raise ConfigError("this Python does not know its own program, so it cannot start a server: give a URL")
    data = folder / "data"
    data.mkdir(mode=0o700, exist_ok=True)
    log = folder / "server.log"
    with contextlib.suppress(FileNotFoundError):
        log.replace(folder / "server.log.1")
    address = socket_path(folder)
    options = {
        "port": "0",
        "unixsocket": str(address),
        "unixsocketperm": "700",
        "dir": str(data),
        "appendonly": "yes" if durable else "no",
        "appendfsync": "everysec",
        "save": "",
        "maxmemory-policy": "noeviction",
        "logfile": str(log),
        "daemonize": "no",
    }
    command = [str(program()), *(word for name, value in options.items() for word in (f"--{name}", value))]
    # a process that finds this file locked assumes that its record is the holder's, or is missing
    os.ftruncate(server, 0)
    with (folder / "guardian.log").open("wb") as output:
        process = subprocess.Popen(  # noqa: S603 - our own command
            [sys.executable, "-I", "-S", _GUARD, mode, folder / "users", str(server), address, *command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=folder,
            # the server does not start if the environment names a locale that is not installed
            env={**os.environ, "LC_ALL": "C"},
            pass_fds=(guardian, server),
            # the terminal's Ctrl-C or hang-up must not reach the guardian: others may use the server
            start_new_session=True,
        )
    if mode == "detach":
        process.wait()
    return process


def _ready(folder: Path) -> Record | None:
    """Wait until the server answers; return None if it has ended. Raises ServerUnavailable."""
    limit = time.monotonic() + _READY_LIMIT
    while True:
        record = _read_record(folder)
        answer = _ping(record.socket) if record is not None else b""
        if answer.startswith(b"+PONG"):
            return record
        if answer.startswith(b"-LOADING"):
            # it loads its data and will be ready: the duration depends only on the data
            limit = time.monotonic() + _READY_LIMIT
        ended = try_lock(folder / "server")
        if ended is not None:
            os.close(ended)
            return None
        if time.monotonic() > limit:
            who = f"process {record.pid} on {record.host}" if record is not None else "its process"
            raise ServerUnavailable(
                f"the embedded server in {folder} has not answered for {_READY_LIMIT:g} s: "
                f"end {who}, or give a URL{_last_words(folder)}"
            )
        time.sleep(_STEP)


def _ping(address: str) -> bytes:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(1)
        try:
            connection.connect(address)
            connection.sendall(b"*1\r\n$4\r\nPING\r\n")
            return connection.recv(64)
        except OSError:
            return b""


def _read_record(folder: Path) -> Record | None:
    """Return the record; None while it is incomplete."""
    try:
        record = Record(**json.loads((folder / "server").read_text()))
    except (OSError, ValueError, TypeError):
        return None
    # a group number of 0 or 1 would address this process's own group, or all processes
    return record if isinstance(record.pid, int) and record.pid > 1 else None


def _until(attempt: Callable[[], int | None], limit: float) -> int | None:
    end = time.monotonic() + limit
    while True:
        result = attempt()
        if result is not None or time.monotonic() > end:
            return result
        time.sleep(_STEP)


def _last_words(folder: Path) -> str:
    lines: list[str] = []
    for name in ("guardian.log", "server.log"):
        with contextlib.suppress(OSError):
            lines += (folder / name).read_text(errors="replace").splitlines()[-8:]
    return "; the last lines of its logs:\n  " + "\n  ".join(lines) if lines else ""
