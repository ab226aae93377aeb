"""The `lockwork` command."""

from __future__ import annotations

import sys

import click

from lockwork.cli.demo import demo
from lockwork.cli.locks import locks
from lockwork.cli.run import run
from lockwork.cli.worker import worker
from lockwork.errors import LockworkError


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="lockwork")
def cli() -> None:
    """Distributed locks and work queues for Python, on Redis or Valkey."""


cli.add_command(demo)
cli.add_command(locks)
cli.add_command(run)
cli.add_command(worker)


def main() -> None:
    """Run the command; an error of ours is one line, and exit status 1; Ctrl-C is 130, without a word."""
    try:
        sys.exit(cli(prog_name="lockwork", standalone_mode=False))
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (KeyboardInterrupt, click.Abort) as error:
        # an input that ended instead of an answer is no Ctrl-C
        interrupted = isinstance(error, KeyboardInterrupt) or isinstance(error.__context__, KeyboardInterrupt)
        sys.exit(130 if interrupted else 1)
    except LockworkError as error:
        click.echo(f"lockwork: {error}", err=True)
        sys.exit(1)
