"""A program in a process group of its own, with a watcher that ends the group when this process cannot."""

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
    """The group, from before the program starts until after its end; `close` it."""

    def __init__(self, grace: float) -> None:
        self._grace = grace
        self._process: subprocess.Popen[bytes] | None = None
        self._watcher = self._start_watcher(0)
        self._group = self._watcher.pid
        self._terminal = Terminal()
        self.paused: bool = False
        """Whether it was stopped, and we with it, and nobody has told us yet to go on."""

    def start(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        """Start it, with the terminal if we have that; raises OSError."""
        self._terminal.hand_over(self._group)  # before it starts: it may want to read at once
        self._process = subprocess.Popen(  # noqa: S603 - the user's command
            command,
            env=environment,
            process_group=self._group,
            close_fds=False,  # what our caller meant for it is inheritable, what is ours is not
        )

    def poll(self, *, pause: bool) -> int | None:
        """Its exit status as a shell has it, when it has ended. `pause`: stop as it does, if it was (Ctrl-Z)."""
        assert self._process is not None
        found, raw = os.waitpid(self._process.pid, os.WNOHANG | os.WUNTRACED)
        if not found:
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
        """Go on, in the foreground if we are there now."""
        self.paused = False
        self._terminal.hand_over(self._group)
        self.send(signal.SIGCONT)

    def send(self, number: int) -> None:
        """Send a signal to the program and to what it has started, as a terminal does."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._group, number)
        if self._process is not None and self._process.returncode is None and self._has_left():
            self.tell(number)

    def tell(self, number: int) -> None:
        """Send a signal to the program alone."""
        assert self._process is not None
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(self._process.pid, number)

    def watch(self, end_at: float, lease_end: float) -> None:
        """Let the watcher wait for our next word until `end_at`."""
        assert self._watcher.stdin is not None
        with contextlib.suppress(OSError):  # full: it is paused, and has enough to read; gone: it is replaced
            pid = 0 if self._process is None else self._process.pid
            os.write(self._watcher.stdin.fileno(), watcher.WORD.pack(end_at, lease_end, pid))

    def close(self) -> None:
        """Take the terminal back and end the watcher; a program that still runs, by an error of ours, is killed."""
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
        self.watch(NEVER, NEVER)  # it does no harm while it is stopped; we look at the lock before it goes on
        self._terminal.take_back(self._group)
        # our shell is to see that the whole job has stopped; SIGCONT will tell us
        os.killpg(os.getpgrp(), signal.SIGTSTP)

    def _has_left(self) -> bool:
        """Whether it is in another group now: an interactive shell makes one of its own."""
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
        # what is blocked now stays blocked in there: signals to the group are not for the watcher
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
