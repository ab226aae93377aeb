"""For development: a worker that is started again whenever a source file changes."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import Literal

from lockwork.logs import Log
from lockwork.worker.settings import heard
from lockwork.worker.supervisor.events import EventQueue

log: Log = Log("lockwork.worker")

_LOOK = 0.3
_PATIENCE = 1.0
"""Seconds that running jobs have when the code has changed; then they are given back, and run with the new code."""
_MOST = 20_000
"""Files that are watched."""

_Event = tuple[Literal["signal"], int] | tuple[Literal["exit"], "subprocess.Popen[bytes]"]


class Reloader:
    """Runs `command` until told to stop; `run` returns its exit status."""

    def __init__(self, command: Sequence[str], folder: Path) -> None:
        self._command = list(command)
        self._folder = folder
        self._events: EventQueue[_Event] = EventQueue()
        self._process: subprocess.Popen[bytes] | None = None
        self._stopping = False
        self._passed_on = heard()

    def run(self) -> int:
        """Start the command, and start it again after each change."""
        with self._events:
            previous = {number: signal.signal(number, self._on_signal) for number in self._passed_on}
            try:
                return self._run()
            finally:
                if self._process is not None:
                    self._process.kill()
                    self._process.wait()
                for number, handler in previous.items():
                    signal.signal(number, handler)

    def _run(self) -> int:
        known = stamps(self._folder)
        self._start()
        while True:
            event = self._events.next(_LOOK)
            if event is not None:
                if event[0] == "signal":
                    self._pass_on(event[1])
                    if self._stopping and self._process is None:
                        return 0
                elif event[1] is self._process:
                    status, self._process = event[1].returncode, None
                    if self._stopping:
                        # the signal may have come before it could listen
                        return 0 if -status in self._passed_on else status
                    log.warning("the worker ended with status %d: it starts again when a source file changes", status)
                continue
            found = stamps(self._folder)
            changed = sorted(path for path in found.keys() | known.keys() if found.get(path) != known.get(path))
            if changed and not self._stopping:
                known = found
                log.info("%s changed: the worker starts again", _shown(changed, self._folder))
                self._stop()
                self._start()

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        self._events.post(("signal", number))

    def _pass_on(self, number: int) -> None:
        self._stopping = self._stopping or number != signal.SIGUSR1
        if self._process is not None:
            self._process.send_signal(number)

    def _start(self) -> None:
        # in a group of its own: a terminal's Ctrl-C is for us, and we pass it on
        self._process = process = subprocess.Popen(self._command, process_group=0)  # noqa: S603 - our own command
        threading.Thread(target=self._watch, args=(process,), name="lockwork-watch", daemon=True).start()

    def _watch(self, process: subprocess.Popen[bytes]) -> None:
        process.wait()
        self._events.post(("exit", process))

    def _stop(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.terminate()
        try:
            process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            process.terminate()  # the second one: at once, and what runs is given back
            process.wait()


def stamps(folder: Path) -> dict[str, tuple[int, int]]:
    """Return the time and size of each Python file below a folder, hidden folders and virtual environments left out."""
    found: dict[str, tuple[int, int]] = {}
    for path in _sources(str(folder)):
        with contextlib.suppress(OSError):
            status = os.stat(path)  # noqa: PTH116 - many files, often
            found[path] = status.st_mtime_ns, status.st_size
        if len(found) >= _MOST:
            break
    return found


def _sources(folder: str) -> Iterator[str]:
    for place, folders, files in os.walk(folder):
        if "pyvenv.cfg" in files:
            folders.clear()
            continue
        folders[:] = sorted(name for name in folders if name[0] != "." and name not in ("__pycache__", "node_modules"))
        yield from (f"{place}/{name}" for name in files if name.endswith(".py"))


def _shown(changed: Sequence[str], folder: Path) -> str:
    first = os.path.relpath(changed[0], folder)
    return first if len(changed) == 1 else f"{first} and {len(changed) - 1} more"
