"""The `lockwork` command. `main` imports the rest after it has made Ctrl-C quiet."""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType

INTERRUPTED = 128 + signal.SIGINT


def main() -> None:
    """Run the command. A LockworkError is one line, its notes and exit status 1; Ctrl-C is a silent exit status 130."""
    ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # an ignored signal stays ignored
    if ours:
        signal.signal(signal.SIGINT, _leave)

    import click  # noqa: PLC0415 - see above

    from lockwork.cli.commands import cli, load  # noqa: PLC0415 - see above
    from lockwork.errors import LockworkError  # noqa: PLC0415 - see above

    load(sys.argv[1:])
    try:
        if ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        cli(prog_name="lockwork")
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except LockworkError as error:
        click.echo("\n".join([f"lockwork: {error}", *getattr(error, "__notes__", ())]), err=True)
        sys.exit(1)


def _leave(_number: int, _: FrameType | None) -> None:
    # an exception in the middle of an import may be swallowed or printed there
    os._exit(INTERRUPTED)
