"""The servers of a comparison: one of Lockwork's own program, and PostgreSQL where it is installed."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import redis

from lockwork.runtime.embedded.folder import program


@contextmanager
def redis_server() -> Iterator[str]:
    """Start a server that keeps nothing on disk, and yield its URL."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory(prefix="lockwork-bench-") as folder:
        options = {"port": port, "bind": "127.0.0.1", "dir": folder, "save": "", "appendonly": "no"}
        words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
        server = subprocess.Popen([program(), *words], stdout=subprocess.DEVNULL)
        try:
            with redis.Redis(port=port) as client:
                while True:
                    with suppress(redis.ConnectionError):
                        client.ping()
                        break
                    time.sleep(0.02)
            yield f"redis://127.0.0.1:{port}/0"
        finally:
            server.kill()
            server.wait(10)


@contextmanager
def postgres_server() -> Iterator[str | None]:
    """Start PostgreSQL, and yield its connection string, or None where it is not installed."""
    programs = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    options: dict[str, Any] = {}
    if os.getuid() == 0:  # PostgreSQL refuses to run as root
        with suppress(KeyError):
            options["user"] = pwd.getpwnam("postgres").pw_uid
    if not programs or (os.getuid() == 0 and not options):
        yield None
        return
    folder = Path(tempfile.mkdtemp(prefix="lockwork-pg-", dir="/tmp"))  # short: it has the socket
    if options:
        os.chown(folder, options["user"], -1)

    def run(name: str, *words: str) -> None:
        command = [str(programs[-1].parent / name), "-D", str(folder / "data"), *words]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/", **options)

    try:
        run("initdb", "-A", "trust", "-U", "postgres", "--no-sync")
        run("pg_ctl", "-w", "-l", str(folder / "log"), "-o", f"-k {folder} -c listen_addresses= -c fsync=off", "start")
        try:
            yield f"host={folder} user=postgres dbname=postgres"
        finally:
            run("pg_ctl", "-w", "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder)
