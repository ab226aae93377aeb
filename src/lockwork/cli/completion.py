"""`lockwork completion`, and the names that a shell completes."""

from __future__ import annotations

from contextlib import suppress
from typing import Literal

import click
from click.shell_completion import CompletionItem, get_completion_class

from lockwork.cli.help import Command

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
    """Print the lines that make this shell complete commands, options, and names of queues.

    Names come from the server of --url or LOCKWORK_URL.
    """
    from lockwork.cli.commands import cli  # noqa: PLC0415 - it loads this module

    found = get_completion_class(shell)
    assert found is not None
    click.echo(found(cli, {}, "lockwork", "_LOCKWORK_COMPLETE").source())


def queue_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG001 - click's signature
    """Complete the name of a queue; nothing if no server is named, or if it does not answer soon."""
    from lockwork.app.lockwork import Lockwork  # noqa: PLC0415 - loaded only when a name is completed
    from lockwork.errors import LockworkError  # noqa: PLC0415 - the same

    url = ctx.params.get("url")
    if not url:  # the embedded server would be started for a key press
        return []
    with suppress(LockworkError), Lockwork(url, prefix=ctx.params.get("prefix") or "lw", patience=_PATIENCE) as lw:
        return [CompletionItem(name) for name in lw.queues() if name.startswith(incomplete)]
    return []
