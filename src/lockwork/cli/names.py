"""Names as people type them: a mistyped one is an error that suggests the right one."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import click

from lockwork.app.lockwork import Lockwork
from lockwork.cli.text import printable
from lockwork.errors import ConfigError
from lockwork.protocol.keys import base_queue, partition_number
from lockwork.queues.limits import QueueLimits
from lockwork.suggestions import closest

_ID_CUTOFF = 0.8
"""The least similarity of ids: the ids of one day begin alike."""


def unknown(what: str, name: str, known: Iterable[str], *, ids: bool = False, on_embedded: str = "") -> ConfigError:
    """Return the error for an unknown name, with the closest known name; for `ids`, only if it is close.

    on_embedded: names the embedded server, see `waits.on_embedded`.
    """
    names = sorted(known)
    text = f"no {what} {printable(name)} exists{on_embedded}"
    if ids and not closest(name, names, _ID_CUTOFF):
        return ConfigError(text)
    return ConfigError(f"{text}: {hint(name, names)}")


def hint(name: str, known: Iterable[str]) -> str:
    """Suggest the closest of these names, or list them."""
    names = sorted(known)
    close = closest(name, names)
    if close:
        return f"did you mean {printable(close)}?"
    return f"known {'are' if len(names) > 1 else 'is'} {_some(names)}." if names else "there is none."


def check_queue(
    lw: Lockwork, name: str, announced: Collection[str] = (), *, read_only: bool, create: bool | None = None
) -> None:
    """Raise ConfigError for a queue that neither exists nor was announced, unless `create`.

    If only partitions of it exist, raise it unless the command is `read_only`: then print a warning. `create` is None
    for commands that cannot create a queue.
    """
    if name in announced or _exists(lw, name):
        return
    names = sorted({*lw.queues(), *announced})
    partitions = sorted((each for each in names if each != name and base_queue(each) == name), key=partition_number)
    if partitions:
        text = f"queue {printable(name)} has partitions ({_some(partitions)}): pass one of them, or --partitions N"
        if not read_only:
            raise ConfigError(text)
        click.echo(text, err=True)
    elif not create:
        # a worker that served it may have ended
        base_queues = sorted({base_queue(each) for each in names} - {name})
        close = closest(name, {*names, *base_queues} - {name})
        last = " Add --create to use it anyway." if create is not None else ""
        raise ConfigError(f"no queue {printable(name)} exists: {hint(name, [close] if close else base_queues)}{last}")


def _exists(lw: Lockwork, name: str) -> bool:
    """Return True if a queue ever had a job, has limits, is paused, or is served by a worker."""
    queue = lw.queue(name)
    status, limits = queue.status(), queue.limits()
    return bool(status.enqueued or status.paused or limits != QueueLimits(None, None, None) or queue.workers())


def _some(names: list[str]) -> str:
    return ", ".join(map(printable, names[:3])) + (", ..." if len(names) > 3 else "")
