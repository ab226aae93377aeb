"""Which server and which app's keys a command is about: the options that these commands share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

import click

from lockwork.app.lockwork import Lockwork

F = TypeVar("F", bound=Callable[..., object])
_PATIENCE = 3.0
"""Seconds to wait for a server that is away: somebody sits in front of this."""
_OPTIONS = (
    click.option("--url", envvar="LOCKWORK_URL", help="The server. [default: LOCKWORK_URL, else the embedded one]"),
    click.option("--prefix", default="lw", show_default=True, help="What the app's keys begin with."),
)


def names_the_app(command: F) -> F:
    """Give a command --url and --prefix."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def connected(url: str | None, prefix: str, partitions: Mapping[str, int] | None = None) -> Lockwork:
    """The app that they name, for a `with`; `partitions` by queue."""
    return Lockwork(url, prefix=prefix, patience=_PATIENCE, partitions=partitions or {})
