"""A user at a pseudo-terminal of a given size: typed input and visible output."""

from __future__ import annotations

import contextlib
import os
import pty
import select
import subprocess
import sys
import termios
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO

import zygote
from processes import PATIENCE

_LOGIN = """
import os, sys
os.login_tty(int(sys.argv[1]))
if int(sys.argv[2]) >= 0:
    os.dup2(int(sys.argv[2]), 1)
os.execvp(sys.argv[3], sys.argv[3:])
"""


class Typist:
    """A user at a terminal; `stdout` may go to a file instead."""

    def __init__(
        self,
        command: list[str],
        folder: Path,
        url: str,
        *,
        columns: int = 80,
        lines: int = 24,
        environment: Mapping[str, str] | None = None,
        stdout: IO[bytes] | None = None,
    ) -> None:
        self._end, theirs = pty.openpty()
        termios.tcsetwinsize(theirs, (lines, columns))
        usual = {**os.environ, "LOCKWORK_URL": url, "PS1": "ready> ", "TERM": "dumb"}
        for name in ("COLUMNS", "LINES", "NO_COLOR"):
            usual.pop(name, None)
        changed = {**usual, **(environment or {})}
        if stdout is None and zygote.can_copy(command, changed, folder):
            self.process = zygote.popen(command, cwd=folder, env=changed, terminal=theirs)
        else:
            self.process = subprocess.Popen(
                [sys.executable, "-ISc", _LOGIN, str(theirs), str(stdout.fileno() if stdout else -1), *command],
                cwd=folder,
                env=changed,
                pass_fds=(theirs, *([stdout.fileno()] if stdout else [])),
            )
        os.close(theirs)
        self._unread = b""

    def types(self, text: str) -> None:
        os.write(self._end, text.encode())

    def sees(self, text: str) -> str:
        """Wait for this text, and return the output up to it."""
        wanted, deadline = text.encode(), time.monotonic() + PATIENCE
        while wanted not in self._unread:
            ready, _, _ = select.select([self._end], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, f"not seen: {text!r}, but {self._unread!r}"
            try:
                self._unread += os.read(self._end, 4096)
            except OSError:
                raise AssertionError(f"the terminal was closed without {text!r}: {self._unread!r}") from None
        before, _, self._unread = self._unread.partition(wanted)
        return before.decode() + text

    def rest(self) -> str:
        """Return the output until the terminal is closed."""
        with contextlib.suppress(OSError):
            while select.select([self._end], [], [], PATIENCE)[0] and (read := os.read(self._end, 4096)):
                self._unread += read
        found, self._unread = self._unread, b""
        return found.decode()

    def hang_up(self) -> None:
        os.close(self._end)
        self._end = -1

    def leave(self) -> None:
        if self._end >= 0:
            self.hang_up()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(5)
        self.process.kill()
        self.process.wait()


@contextlib.contextmanager
def typist(
    command: list[str],
    folder: Path,
    url: str,
    *,
    columns: int = 80,
    lines: int = 24,
    environment: Mapping[str, str] | None = None,
    stdout: IO[bytes] | None = None,
) -> Iterator[Typist]:
    """Run a command in a terminal until the end of the block."""
    at_work = Typist(command, folder, url, columns=columns, lines=lines, environment=environment, stdout=stdout)
    try:
        yield at_work
    finally:
        at_work.leave()
