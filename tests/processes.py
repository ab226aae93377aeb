"""Real processes for the tests: start a script or a worker, wait for its output, and end it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, TypeVar

import zygote

T = TypeVar("T")

PATIENCE = 30.0
"""Seconds until a missing event fails a test; long, so that a busy machine fails no test."""


def until(found: Callable[[], T], what: str, patience: float = PATIENCE) -> T:
    """Poll until the result is true, and return it; fail the test after `patience` seconds."""
    began = time.monotonic()
    while not (answer := found()):
        waited = time.monotonic() - began
        assert waited < patience, f"not within {patience:g} s: {what}"
        time.sleep(min(0.001 + waited / 20, 0.03))  # poll less often after a long wait
    return answer


def alive(pid: int) -> bool:
    """Return True if a process with this id runs; a zombie does not count."""
    try:
        return _state(Path(f"/proc/{pid}")) != "Z"
    except OSError:
        return False


def stopped(pid: int) -> bool:
    """Return True if a signal has stopped all threads of a process."""
    try:
        return all(_state(thread) == "T" for thread in Path(f"/proc/{pid}/task").iterdir())
    except OSError:  # the thread has just ended
        return False


def _state(entry: Path) -> str:
    return _stat(entry)[0]


def _stat(entry: Path) -> list[str]:
    """Return the fields of a process or thread from its state on."""
    return (entry / "stat").read_text().rpartition(")")[2].split()


def born(pid: int) -> str:
    """Return when a process started, '' if there is none: the system soon uses the id of an ended process again."""
    try:
        return _stat(Path(f"/proc/{pid}"))[19]
    except OSError:
        return ""


def children(pid: int) -> list[int]:
    """Return the running child processes of a process."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            found += map(int, task.read_text().split())
    return [child for child in found if alive(child) and _name(child) != zygote.NAME]


def _name(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text().rstrip("\n")
    return ""


class Started:
    """A started process with pipes as standard input and output. Its standard error goes to a file."""

    def __init__(self, command: list[str], *, folder: Path, url: str | None, stderr: IO[bytes]) -> None:
        environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
        environment.pop("LOCKWORK_URL", None)
        if url is not None:
            environment["LOCKWORK_URL"] = url
        self._stderr = stderr
        self._descendants: dict[int, str] = {}
        """All child processes until now, each with its start."""
        pipe = subprocess.PIPE
        self.process = zygote.popen(command, cwd=folder, env=environment, stdin=pipe, stdout=pipe, stderr=stderr)

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def errors(self) -> str:
        """Return the standard error until now."""
        return Path(self._stderr.name).read_text(errors="replace")

    def children(self) -> list[int]:
        """Return the running child processes."""
        pids = children(self.pid)
        self._descendants.update((pid, born(pid)) for pid in pids)
        return pids

    def line(self) -> str:
        """Return the next line of output; fail if the output has ended."""
        assert self.process.stdout is not None
        text = self.process.stdout.readline().decode()
        assert text, f"the process ended: {self.errors}"
        return text.rstrip("\n")

    def tell(self, text: str) -> None:
        """Send a line to standard input."""
        assert self.process.stdin is not None
        self.process.stdin.write(text.encode() + b"\n")
        self.process.stdin.flush()

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the process."""
        self.process.send_signal(number)

    def wait(self, patience: float = PATIENCE) -> int:
        """Wait until the process ends, and return its exit status."""
        return self.process.wait(patience)

    def end(self) -> None:
        """Kill the process and its children in any state, and wait for them."""
        self.children()
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        remaining = [pid for pid, start in self._descendants.items() if alive(pid) and born(pid) == start]
        for pid in remaining:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for pid in remaining:
            until(lambda pid=pid: not alive(pid) or born(pid) != self._descendants[pid], f"process {pid} is gone")  # type: ignore[misc]
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()


@contextlib.contextmanager
def started(command: list[str], *, folder: Path, url: str | None = None) -> Iterator[Started]:
    """Start a process; kill it and its children at the end of the block."""
    with tempfile.NamedTemporaryFile() as stderr:
        process = Started(command, folder=folder, url=url, stderr=stderr)
        try:
            yield process
        except BaseException as error:
            error.add_note(f"what process {process.pid} wrote to standard error:\n{process.errors}")
            raise
        finally:
            process.end()


@contextlib.contextmanager
def script(code: str, *arguments: object, url: str | None = None, folder: Path | None = None) -> Iterator[Started]:
    """Start a Python process that runs `code`; LOCKWORK_URL is `url`."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    with started(command, folder=folder or Path(__file__).parent, url=url) as process:
        yield process


@contextlib.contextmanager
def worker(app: str, *options: str, url: str, folder: Path) -> Iterator[Started]:
    """Start a `lockwork worker` on the app `module:object` in `folder`."""
    command = [sys.executable, "-m", "lockwork", "worker", app, *options]
    with started(command, folder=folder, url=url) as process:
        yield process
