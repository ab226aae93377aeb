"""A program in a separate process group, with a watcher that ends the group when this process cannot."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from lockwork.cli import watcher
from lockwork.cli.terminal import Terminal

NEVER = float("inf")


class Program:
    """The process group of a program. It exists before the program starts and until `close`."""

    def __init__(self, grace: float) -> None:
        self._grace = grace
        self._process: subprocess.Popen[bytes] | None = None
        self._watcher = self._start_watcher(0)
        self._group = self._watcher.pid
        self._terminal = Terminal()
        self.paused: bool = False
        """True after Ctrl-Z until SIGCONT."""

    def start(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        """Start the program, with the terminal if this process has it; raises OSError."""
        self._terminal.hand_over(self._group)  # before it starts: it may want to read at once
        self._process = subprocess.Popen(  # noqa: S603 - the user's command
            command,
            env=environment,
            process_group=self._group,
            close_fds=False,  # files of the caller are inheritable, files of this process are not
        )

    def poll(self, *, pause: bool) -> int | None:
        """Return the exit status as a shell does, None while the program runs; `pause`: stop with it after Ctrl-Z."""
        assert self._process is not None
        pid, raw = os.waitpid(self._process.pid, os.WNOHANG | os.WUNTRACED)
        if not pid:
            self._keep_watcher()
            return None
        if os.WIFSTOPPED(raw):
            self.paused = pause and self._terminal.there
            if self.paused:
                self._pause()
            return None
        code = self._process.returncode = os.waitstatus_to_exitcode(raw)
        return code if code >= 0 else 128 - code

    def resume(self) -> None:
        """Continue the program, in the foreground if this process is there."""
        self.paused = False
        self._terminal.hand_over(self._group)
        self.send(signal.SIGCONT)

    def send(self, number: int) -> None:
        """Send a signal to the program and its children, as a terminal does."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._group, number)
        if self._process is not None and self._process.returncode is None and self._has_left():
            self.send_to_program(number)

    def send_to_program(self, number: int) -> None:
        """Send a signal to the program alone."""
        assert self._process is not None
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(self._process.pid, number)

    def watch(self, end_at: float, lease_end: float) -> None:
        """Let the watcher wait for the next message until `end_at`."""
        assert self._watcher.stdin is not None
        with contextlib.suppress(OSError):  # a full pipe: the watcher is paused; a closed pipe: it is replaced
            pid = 0 if self._process is None else self._process.pid
            os.write(self._watcher.stdin.fileno(), watcher.MESSAGE.pack(end_at, lease_end, pid))

    def close(self) -> None:
        """Take the terminal back and end the watcher; kill a program that still runs after an internal error."""
        if self._process is not None and self._process.returncode is None:
            self.send(signal.SIGKILL)
            self._process.wait()
        self._terminal.take_back(self._group)
        self._terminal.close()
        self._watcher.kill()
        self._watcher.wait()
        assert self._watcher.stdin is not None
        self._watcher.stdin.close()

    def _pause(self) -> None:
        self.watch(NEVER, NEVER)  # a stopped program does no harm; `wait` checks the lock before it continues
        self._terminal.take_back(self._group)
        # the shell must see that the whole job has stopped; it sends SIGCONT
        os.killpg(os.getpgrp(), signal.SIGTSTP)

    def _has_left(self) -> bool:
        """Return True if the program is in another group: an interactive shell creates one."""
        assert self._process is not None
        with contextlib.suppress(ProcessLookupError, PermissionError):
            return os.getpgid(self._process.pid) != self._group
        return False

    def _keep_watcher(self) -> None:
        if self._watcher.poll() is not None and not self._has_left():
            assert self._watcher.stdin is not None
            self._watcher.stdin.close()
            self._watcher = self._start_watcher(self._group)

    def _start_watcher(self, group: int) -> subprocess.Popen[bytes]:
        # the watcher inherits the blocked signals: signals to the group must not end it
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            process = subprocess.Popen(  # noqa: S603 - our own command
                [sys.executable, "-I", "-S", str(Path(watcher.__file__)), str(self._grace)],
                stdin=subprocess.PIPE,
                # a reader of the program's output waits for its end, not for the watcher's
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                bufsize=0,
                process_group=group,
            )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        assert process.stdin is not None
        os.set_blocking(process.stdin.fileno(), False)
        return process
