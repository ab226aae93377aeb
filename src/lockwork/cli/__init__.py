"""The `lockwork` command. `main` imports the rest after it has made Ctrl-C quiet."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lockwork.cli.project import Project

INTERRUPTED = 128 + signal.SIGINT


def main(words: Sequence[str] | None = None, project: Project | None = None) -> None:
    """Run the command: the program's arguments, or these words, perhaps in a framework's project.

    A LockworkError is one line, its notes and exit status 1; Ctrl-C is a silent exit status 130."""
    ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # an ignored signal stays ignored
    if ours:
        signal.signal(signal.SIGINT, _leave)

    import click  # noqa: PLC0415 - see above

    from lockwork.cli.commands import cli, load  # noqa: PLC0415 - see above
    from lockwork.errors import LockworkError  # noqa: PLC0415 - see above

    arguments = sys.argv[1:] if words is None else list(words)
    load(arguments)
    try:
        if ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        cli(arguments, prog_name="lockwork" if project is None else project.name, obj=project)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except LockworkError as error:
        click.echo("\n".join([f"lockwork: {error}", *getattr(error, "__notes__", ())]), err=True)
        sys.exit(1)


def _leave(_number: int, _: FrameType | None) -> None:
    # an exception in the middle of an import may be swallowed or printed there
    os._exit(INTERRUPTED)
