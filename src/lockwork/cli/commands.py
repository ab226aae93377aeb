"""The subcommands. A subcommand's module is loaded at its first use; `lockwork --help` loads none."""

from __future__ import annotations

import sys
from importlib import import_module

import click

from lockwork.cli import INTERRUPTED
from lockwork.foreign_words import COMMANDS
from lockwork.suggestions import closest

_COMMANDS = {
    "acl": "Print the rights that a server user needs.",
    "completion": "Print a script that completes commands and names in a shell.",
    "dashboard": "Serve the dashboard.",
    "dead": "Show jobs that failed for good; retry or delete them.",
    "demo": "Run a flash sale with real processes, and audit the result.",
    "doctor": "List problems, and how to fix them.",
    "enqueue": "Enqueue a job.",
    "flows": "Show flows, and the jobs of a flow as a tree; cancel a flow.",
    "functions": "Show, load or delete the server functions of viewers.",
    "job": "Show, cancel, retry, reschedule or delete a job.",
    "jobs": "Show jobs by state, task, argument, error and time.",
    "locks": "Show holders, waiters and deadlocks; release a lock.",
    "metrics": "Serve metrics of the whole cluster to Prometheus.",
    "queue": "Show queues; pause, limit, clear or drain a queue.",
    "run": "Run a program under a lock.",
    "schedules": "Show schedules; pause, resume or run a schedule now.",
    "status": "Show queues, workers, the last hour and problems.",
    "stocks": "Show the sold, reserved and available units of stocks.",
    "top": "Show queues, workers, running jobs and locks live.",
    "worker": "Run the jobs of an app.",
    "workers": "Show workers; quiet, resume, stop or restart a worker.",
}
"""The help text of each command; its module here has the same name."""
_SECTIONS = {
    "Overview": ("status", "top", "doctor", "dashboard", "metrics"),
    "Jobs": ("enqueue", "jobs", "job", "dead", "flows", "schedules", "stocks"),
    "Queues and workers": ("queue", "worker", "workers"),
    "Locks": ("locks", "run"),
    "Setup and demo": ("acl", "functions", "completion", "demo"),
}
"""The commands as the help shows them."""


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context | None, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        if cmd_name not in _COMMANDS:
            return None
        command: click.Command = getattr(import_module(f"lockwork.cli.{cmd_name}"), cmd_name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in _COMMANDS and not ctx.resilient_parsing and not args[0].startswith("-"):
            close = closest(args[0], _COMMANDS)
            hint = f"did you mean {close}?" if close else f"there are {', '.join(_COMMANDS)}"
            hint = COMMANDS.get(args[0], hint)
            ctx.fail(f"no command is named {args[0]!r}: {hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's signature
        width = max(map(len, _COMMANDS))
        for title, names in _SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(f"{name:{width}}", _COMMANDS[name]) for name in names])
        formatter.write_paragraph()
        formatter.write_text("Each command has --help, with examples.")

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            sys.exit(INTERRUPTED)  # click would say "Aborted!"
        except click.Abort as aborted:
            # at a question; an input that ended instead of an answer is no Ctrl-C
            why = aborted.__context__
            if why is not None:
                click.echo(err=True)  # the question has no line break behind it
            if isinstance(why, KeyboardInterrupt):
                sys.exit(INTERRUPTED)
            hint = "no answer, so nothing was changed: add --yes to skip the question"
            click.echo(f"lockwork: {hint if isinstance(why, EOFError) else 'nothing was changed'}", err=True)
            sys.exit(1)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="lockwork")
def cli() -> None:
    """Distributed locks and work queues for Python, on Redis or Valkey."""


def load(arguments: list[str]) -> None:
    """Load the module of the command that these arguments begin with, if they do."""
    if arguments and isinstance(cli, _Commands):
        cli.get_command(None, arguments[0])
