"""For development: restarts the worker when a source file changes. It needs watchfiles (`lockwork[reload]`)."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import threading
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Literal

from lockwork.errors import ConfigError
from lockwork.logs import Log
from lockwork.version import install_command
from lockwork.worker.settings import handled_signals
from lockwork.worker.supervisor.events import EventQueue

if TYPE_CHECKING:
    from watchfiles import Change

log: Log = Log("lockwork.worker")

_PATIENCE = 1.0
"""Grace in seconds for running jobs after a code change; then they are returned, and run with the new code."""
_SKIPPED = ("__pycache__", "node_modules")

_Event = (
    tuple[Literal["signal"], int]
    | tuple[Literal["exit"], "subprocess.Popen[bytes]"]
    | tuple[Literal["change"], list[str]]
)


class Reloader:
    """Runs `command` until a signal stops it; `run` returns its exit status. Raises ConfigError without watchfiles."""

    def __init__(self, command: Sequence[str], folder: Path) -> None:
        if find_spec("watchfiles") is None:
            raise ConfigError(f"--reload needs watchfiles, which is not installed: {install_command('reload')}")
        self._command = list(command)
        self._folder = folder
        self._events: EventQueue[_Event] = EventQueue()
        self._process: subprocess.Popen[bytes] | None = None
        self._stopping = False
        self._signals = handled_signals()
        self._closed = threading.Event()

    def run(self) -> int:
        """Start the command, and restart it after each change."""
        watching = threading.Thread(target=self._watch_files, name="lockwork-reload", daemon=True)
        with self._events:
            previous = {number: signal.signal(number, self._on_signal) for number in self._signals}
            watching.start()
            try:
                return self._run()
            finally:
                self._closed.set()
                if self._process is not None:
                    self._process.kill()
                    self._process.wait()
                watching.join()
                for number, handler in previous.items():
                    signal.signal(number, handler)

    def _run(self) -> int:
        self._start()
        while True:
            event = self._events.next()
            if event is None:
                continue
            if event[0] == "signal":
                self._forward_signal(event[1])
                if self._stopping and self._process is None:
                    return 0
            elif event[0] == "change":
                if not self._stopping:
                    log.info("%s changed: the worker restarts", _paths_text(event[1], self._folder))
                    self._stop()
                    self._start()
            elif event[1] is self._process:
                status, self._process = event[1].returncode, None
                if self._stopping:
                    # the signal may arrive before the command installed its handler
                    return 0 if -status in self._signals else status
                log.warning("the worker exited with status %d: it restarts when a source file changes", status)

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        self._events.post(("signal", number))

    def _forward_signal(self, number: int) -> None:
        self._stopping = self._stopping or number != signal.SIGUSR1
        if self._process is not None:
            self._process.send_signal(number)

    def _start(self) -> None:
        # in a separate process group: the reloader receives the terminal's Ctrl-C and forwards it
        self._process = process = subprocess.Popen(self._command, process_group=0)  # noqa: S603 - our own command
        threading.Thread(target=self._watch_process, args=(process,), name="lockwork-watch", daemon=True).start()

    def _watch_process(self, process: subprocess.Popen[bytes]) -> None:
        process.wait()
        self._events.post(("exit", process))

    def _watch_files(self) -> None:
        from watchfiles import watch  # noqa: PLC0415 - an extra

        logging.getLogger("watchfiles").setLevel(logging.WARNING)
        sources = Sources(self._folder)
        try:
            for changes in watch(
                self._folder, watch_filter=sources.concerned, stop_event=self._closed, ignore_permission_denied=True
            ):
                self._events.post(("change", sorted(path for _, path in changes)))
        except Exception:
            log.exception("source files can no longer be watched: restart the worker")

    def _stop(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.terminate()
        try:
            process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            process.terminate()  # the second signal ends it at once, and running jobs are returned
            process.wait()


class Sources:
    """The Python files below a folder, without hidden folders and virtual environments."""

    def __init__(self, folder: Path) -> None:
        self._folder = str(folder)
        self._packages = self._below(self._folder)
        """Folders with Python files: the system does not report the files of a folder that is moved away."""

    def concerned(self, change: Change, path: str) -> bool:
        """Return True if a changed path is a Python file, or a folder that has or had some."""
        if path.endswith(".py"):
            changed = self._watched(os.path.dirname(path))  # noqa: PTH120 - many paths, often
        else:
            # the worker's own bytecode files also modify a folder
            moved = change.name != "modified"
            changed = moved and (path in self._packages or bool(self._watched(path) and self._below(path)))
        if changed:
            self._packages = self._below(self._folder)
        return changed

    def _watched(self, folder: str) -> bool:
        """Return True if neither the folder nor one of its parents is excluded."""
        while len(folder) > len(self._folder):
            name = os.path.basename(folder)  # noqa: PTH119
            if name[0] == "." or name in _SKIPPED or os.path.exists(f"{folder}/pyvenv.cfg"):  # noqa: PTH110
                return False
            folder = os.path.dirname(folder)  # noqa: PTH120
        return True

    @staticmethod
    def _below(folder: str) -> set[str]:
        packages: set[str] = set()
        for place, folders, files in os.walk(folder):
            folders[:] = [] if "pyvenv.cfg" in files else [n for n in folders if n[0] != "." and n not in _SKIPPED]
            if "pyvenv.cfg" not in files and any(name.endswith(".py") for name in files):
                while place not in packages and len(place) >= len(folder):
                    packages.add(place)
                    place = os.path.dirname(place)  # noqa: PTH120, PLW2901
        return packages


def _paths_text(changed: Sequence[str], folder: Path) -> str:
    first = os.path.relpath(changed[0], folder)
    return first if len(changed) == 1 else f"{first} and {len(changed) - 1} more"
