"""The demo as users run it, in a separate process; its children are identified by their temporary folder."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "examples" / "flashsale"))  # as the command does

HOLD = "1"
"""Seconds to pay."""


class Place:
    """A temporary folder for one demo, and a current directory that must stay empty."""

    def __init__(self, folder: Path) -> None:
        self.temporary = folder / "t"
        self.current = folder / "here"
        self.temporary.mkdir()
        self.current.mkdir()

    def start(self, *arguments: str, program: str = "lockwork") -> subprocess.Popen[str]:
        """Start `lockwork demo` in a separate process group, as a shell does."""
        environment = {**os.environ, "TMPDIR": str(self.temporary), "FLASHSALE_HOLD": HOLD}
        return subprocess.Popen(
            [sys.executable, "-m", program, "demo", *arguments],
            cwd=self.current,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            process_group=0,
        )

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run `lockwork demo` to its end; nothing of it may stay."""
        with self.start(*arguments) as process:
            output, errors = process.communicate(timeout=100)
        self.check_empty()
        return subprocess.CompletedProcess(process.args, process.returncode, output, errors)

    def processes(self) -> dict[int, str]:
        """Return the processes with this temporary folder, and their commands."""
        mark = f"TMPDIR={self.temporary}".encode()
        commands = {}
        for entry in Path("/proc").iterdir():
            # a process may end while it is looked at
            with contextlib.suppress(OSError):
                if entry.name.isdigit():
                    command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                    # the server writes its title, which has the path, over its environment
                    if mark in (entry / "environ").read_bytes().split(b"\0") or f"{self.temporary}/" in command:
                        commands[int(entry.name)] = command
        return commands

    def check_empty(self) -> None:
        """Fail if a process, a temporary file, or anything in the current directory is left."""
        assert self.processes() == {}
        assert list(self.temporary.iterdir()) == []
        assert list(self.current.iterdir()) == []


@pytest.fixture
def place() -> Iterator[Place]:
    if not Path("/proc/self/environ").exists():
        pytest.skip("finds processes in /proc")
    # not tmp_path: that one is too long for the path of a socket
    with tempfile.TemporaryDirectory(prefix="lwd") as folder:
        yield Place(Path(folder))
