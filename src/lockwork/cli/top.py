"""`lockwork top`."""

from __future__ import annotations

import sys
from importlib.util import find_spec

import click

from lockwork.cli.help import Command
from lockwork.cli.options import connected, names_the_app
from lockwork.cli.top_watcher import Watcher
from lockwork.errors import ConfigError
from lockwork.version import install_command


@click.command(
    cls=Command,
    examples={
        "lockwork top": "The whole server, live; q quits.",
        "lockwork top --every 0.5": "Twice a second.",
    },
)
@click.option(
    "--every",
    default=1.0,
    show_default=True,
    type=click.FloatRange(0.2, 3600),
    metavar="SECONDS",
    help="Time between two updates.",
)
@names_the_app
def top(*, every: float, url: str | None, prefix: str) -> None:
    """Show throughput, queues, workers, running jobs and locks live in the terminal, also over ssh.

    It needs the extra `lockwork[top]`.
    """
    if find_spec("textual") is None:
        raise ConfigError(f"lockwork top needs Textual: {install_command('top')}")
    from lockwork.cli.top_screen import Top  # noqa: PLC0415 - it needs the extra

    if not sys.stdout.isatty():
        raise ConfigError("lockwork top needs a terminal: `lockwork status --watch` and --json go anywhere")
    with connected(url, prefix) as lw:
        lw.queues()  # a server that is away is an error of the command, before the screen opens
        Top(Watcher(lw, every), every).run()
