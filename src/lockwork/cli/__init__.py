"""The `lockwork` command."""

from __future__ import annotations

import sys

import click

from lockwork.cli.demo import demo
from lockwork.cli.worker import worker
from lockwork.errors import LockworkError


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="lockwork")
def cli() -> None:
    """Distributed locks and work queues for Python, on Redis or Valkey."""


cli.add_command(demo)
cli.add_command(worker)


def main() -> None:
    """Run the command; an error of ours is one line, and exit status 1."""
    try:
        cli(prog_name="lockwork")
    except LockworkError as error:
        click.echo(f"lockwork: {error}", err=True)
        sys.exit(1)
