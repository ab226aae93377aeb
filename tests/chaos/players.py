"""Processes that run one program on one server and record events; tests kill and freeze them."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from contextlib import ExitStack
from pathlib import Path

from history import History
from processes import Started, alive, started, stopped, until

_APPS = Path(__file__).parent / "apps"


def send(pid: int, number: signal.Signals) -> None:
    """Send a signal to a process that may have ended."""
    with contextlib.suppress(ProcessLookupError):
        if alive(pid):
            os.kill(pid, number)


def freeze(pids: list[int], seconds: float) -> None:
    """Stop processes for this time, and let them continue."""
    for pid in pids:
        send(pid, signal.SIGSTOP)
    threading.Event().wait(seconds)
    for pid in pids:
        send(pid, signal.SIGCONT)


class Players:
    """Processes of one program; killed processes are replaced."""

    def __init__(self, stack: ExitStack, url: str, folder: Path, program: str, kind: str, count: int = 8) -> None:
        folder.mkdir()
        self.history = History(folder / "history")
        self._stack, self._url, self._folder = stack, url, folder
        self._command = [sys.executable, str(_APPS / program), self.history.path, kind]
        self.kills = 0
        self._players = [self._one_more() for _ in range(count)]

    def __getitem__(self, number: int) -> Started:
        return self._players[number]

    def entered(self) -> int:
        """Return the number of grants."""
        return self.history.count("enter")

    def replace(self, pid: int) -> None:
        """Kill a process, and start another one."""
        number = next(number for number, player in enumerate(self._players) if player.pid == pid)
        self._players[number].end()
        self.kills += 1
        self._players[number] = self._one_more()

    def stop_holder(self, end: str) -> int:
        """Stop the process that holds the grant, before it records `end`."""
        while True:
            pid: int = self.history.newest(event="enter")["pid"]
            send(pid, signal.SIGSTOP)
            until(lambda pid=pid: stopped(pid) or not alive(pid), "it is stopped or dead")  # type: ignore[misc]
            if alive(pid) and self.history.newest(pid=pid)["event"] != end:
                return pid
            send(pid, signal.SIGCONT)

    def let_go_on(self, pid: int) -> None:
        """Wait for the next holder after a stopped process, then continue that process."""
        last = self.history.newest(pid=pid)
        same = {"lock": last["lock"]} if "lock" in last else {}
        until(lambda: self.history.newest(event="enter", **same)["pid"] != pid, "another process acquires the grant")
        send(pid, signal.SIGCONT)
        until(lambda: self.history.newest(pid=pid) is not last, "the frozen process records an event")

    def _one_more(self) -> Started:
        return self._stack.enter_context(started(self._command, folder=self._folder, url=self._url))
