"""`lockwork completion`, and the names that a shell completes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Literal

import click
from click.shell_completion import CompletionItem, get_completion_class

from lockwork.cli.help import Command
from lockwork.config import Config

if TYPE_CHECKING:
    from lockwork.app.lockwork import Lockwork

_PATIENCE = 1.0
"""Seconds to wait for a server: a person has pressed a key."""


@click.command(
    cls=Command,
    examples={
        'eval "$(lockwork completion bash)"': "In ~/.bashrc; for zsh the same in ~/.zshrc.",
        "lockwork completion fish > ~/.config/fish/completions/lockwork.fish": "For fish, once.",
    },
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: Literal["bash", "zsh", "fish"]) -> None:
    """Print a script for the completion of commands, options and names in a shell.

    The names come from the server of --url or LOCKWORK_URL.
    """
    kind = get_completion_class(shell)
    assert kind is not None
    root = click.get_current_context().find_root().command
    click.echo(kind(root, {}, "lockwork", "_LOCKWORK_COMPLETE").source())


Complete = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def names_of(read: Callable[[Lockwork], Iterable[str]]) -> Complete:
    """Complete the names that `read` finds; nothing if no server is named, or if it does not answer soon.

    Names with control characters are omitted: any program may write to the server.
    """

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG001 - click's signature
        from lockwork.app.lockwork import Lockwork  # noqa: PLC0415 - loaded only when a name is completed
        from lockwork.errors import LockworkError  # noqa: PLC0415 - the same

        url = ctx.params.get("url")
        if not url:  # the embedded server would be started for a key press
            return []
        prefix = ctx.params.get("prefix") or Config.read({}).prefix
        with suppress(LockworkError), Lockwork(url, prefix=prefix, patience=_PATIENCE, allow_eviction=True) as lw:
            names = sorted(name for name in {*read(lw)} if name.startswith(incomplete) and name.isprintable())
            return [CompletionItem(name) for name in names]
        return []

    return complete


def _announced_queues(lw: Lockwork) -> Iterable[str]:
    return {*lw.queues(), *(queue for app in lw.apps() for task in app.tasks for queue in task.queues)}


queue_names: Complete = names_of(_announced_queues)
task_names: Complete = names_of(lambda lw: {task.name for app in lw.apps() for task in app.tasks})
worker_names: Complete = names_of(lambda lw: {worker.name for worker in lw.workers()})
schedule_names: Complete = names_of(lambda lw: {each.name for name in lw.queues() for each in lw.schedules(name)})
lock_names: Complete = names_of(lambda lw: {lock.name for lock in lw.locks().locks})
stock_names: Complete = names_of(lambda lw: {stock.name for stock in lw.stocks()})
