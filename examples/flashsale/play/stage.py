"""The stage: a temporary folder, a Valkey server of its own, and the demo's programs; nothing of it stays."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from lockwork.runtime.embedded import start_private
from play.failure import DemoFailed

_SWEEP = Path(__file__).with_name("sweep.py")
_PARENT_WATCH = Path(__file__).with_name("parent_watch.py")
_PATIENCE = 4.0
"""Seconds for a program to end after SIGTERM, and again after a second one, by which a worker hurries."""


@dataclass(frozen=True)
class DemoProgram:
    """One of the demo's programs, in a process of its own; `log` is what it wrote to standard error."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path


class Stage:
    """While entered, the folder and the server are there; programs run in `home`, and end with the stage."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._programs: list[DemoProgram] = []

    def __enter__(self) -> Self:
        with ExitStack() as undo:
            self.folder: Path = _temporary_folder()
            undo.callback(shutil.rmtree, self.folder, ignore_errors=True)
            watched, self._alive = os.pipe()
            # the sweeper removes the folder when the last holder of the pipe's other end is gone, killed or not
            sweeper = subprocess.Popen(  # noqa: S603 - our own file
                [sys.executable, "-I", "-S", _SWEEP, self.folder], stdin=watched, start_new_session=True
            )
            os.close(watched)
            undo.callback(sweeper.wait)
            undo.callback(os.close, self._alive)
            server = undo.enter_context(start_private(self.folder / "valkey"))
            self.url: str = server.url
            undo.callback(self._end_all)
            self._undo = undo.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._undo.close()

    def door(self) -> socket.socket:
        """Listen on a free port of this machine until the stage ends.

        We keep it open ourselves, too: so buyers of a shop that has died wait, and we are the first to say why.
        """
        return self._undo.enter_context(socket.create_server(("127.0.0.1", 0), backlog=1024))

    def start(
        self,
        name: str,
        *command: str,
        environment: Mapping[str, str],
        output: int | None = None,
        keep: int | None = None,
    ) -> DemoProgram:
        """Start a program in a process group of its own: the terminal's Ctrl-C is for the demo alone.

        `output` is a descriptor for its standard output, `keep` one that it inherits.
        """
        log = self.folder / f"{name}.log"
        with log.open("wb") as errors:
            process = subprocess.Popen(  # noqa: S603 - our own command
                [sys.executable, _PARENT_WATCH, *command],
                cwd=self._home,
                env={**os.environ, **environment},
                stdin=subprocess.PIPE,
                stdout=errors if output is None else output,
                stderr=errors,
                pass_fds=[self._alive, *([] if keep is None else [keep])],
                process_group=0,
            )
        program = DemoProgram(name, process, log)
        self._programs.append(program)
        return program

    def check(self, *programs: DemoProgram) -> None:
        """Raise DemoFailed if one of these programs, which should run, has ended."""
        for program in programs:
            status = program.process.poll()
            if status is not None:
                raise DemoFailed(
                    f"the {program.name} ended in the middle of the sale ({_how(status)}){_last_words(program)}"
                )

    def finish(self, program: DemoProgram) -> None:
        """Take note that a program has done its work; raises DemoFailed unless it ended well."""
        self._programs.remove(program)
        status = program.process.wait()
        _close_input(program)
        if status:
            raise DemoFailed(f"the {program.name} failed ({_how(status)}){_last_words(program)}")

    def end(self, program: DemoProgram) -> None:
        """Stop a program: politely, then urgently, then for certain."""
        self._programs.remove(program)
        process = program.process
        for ask in (process.terminate, process.terminate, process.kill):
            ask()
            try:
                process.wait(_PATIENCE)
                break
            except subprocess.TimeoutExpired:
                pass
        process.wait()
        _close_input(program)

    def _end_all(self) -> None:
        # all of them at once first, then one after the other
        for program in self._programs:
            program.process.terminate()
        for program in list(self._programs):
            self.end(program)


def _temporary_folder() -> Path:
    try:
        return Path(tempfile.mkdtemp(prefix="lockwork-demo-"))
    except OSError as error:
        raise DemoFailed(f"no temporary folder can be made: {error}; set TMPDIR to one that can be written") from error


def _close_input(program: DemoProgram) -> None:
    assert program.process.stdin is not None
    program.process.stdin.close()


def _how(status: int) -> str:
    return f"killed by {signal.Signals(-status).name}" if status < 0 else f"exit status {status}"


def _last_words(program: DemoProgram) -> str:
    # the traceback of an exception group is drawn with these, and ends with a line of them
    lines = [line.strip(" |+-") for line in program.log.read_text(errors="replace").splitlines()]
    said = [line for line in lines if line]
    return f": {said[-1]}" if said else ""
