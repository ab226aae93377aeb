"""Names as people type them: a mistyped one is an error that suggests the right one."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from difflib import get_close_matches

import click

from lockwork.app.lockwork import Lockwork
from lockwork.cli.text import printable
from lockwork.errors import ConfigError
from lockwork.protocol.keys import base_queue, partition_number
from lockwork.queues.limits import QueueLimits

_ID_CUTOFF = 0.8
"""How alike ids must be: those of one day begin alike."""


def unknown(what: str, name: str, known: Iterable[str], *, ids: bool = False) -> ConfigError:
    """Return the error for a name that does not exist, with the closest of those that do; of `ids` only a close one."""
    names = sorted(known)
    said = f"no {what} {printable(name)} exists"
    if ids and not get_close_matches(name, names, 1, _ID_CUTOFF):
        return ConfigError(said)
    return ConfigError(f"{said}: {hint(name, names)}")


def hint(name: str, known: Iterable[str]) -> str:
    """Suggest the closest of these names, or say which there are."""
    names = sorted(known)
    close = get_close_matches(name, names, 1)
    if close:
        return f"did you mean {printable(close[0])}?"
    return f"there are {_some(names)}" if names else "there is none"


def action_hint(words: Iterable[str], actions: Collection[str]) -> str:
    """Suggest the action that a mistyped word is meant to be, for the end of a usage error; "" if none is close."""
    close = [found for word in words if word not in actions for found in get_close_matches(word, actions, 1)]
    return f": did you mean {close[0]}?" if close else ""


def split_action(words: Sequence[str], actions: Collection[str]) -> tuple[str, list[str]]:
    """Return the action that these words begin or end with, "" for none, and the other words."""
    for at in (0, -1):
        if words and words[at] in actions:
            others = list(words)
            return others.pop(at), others
    return "", list(words)


def id_and_action(id: str | None, action: str | None, actions: Sequence[str]) -> tuple[str | None, str]:
    """Return the id, None for all, and the action, "" to look; raises click.UsageError for an unknown action."""
    found, ids = split_action([word for word in (id, action) if word is not None], actions)
    if len(ids) > 1:
        words = f"{', '.join(actions[:-1])} or {actions[-1]}" if len(actions) > 1 else actions[0]
        raise click.UsageError(f"{printable(ids[1])!r} is no action: pass {words}{action_hint(ids[1:], actions)}")
    if found and not ids:
        raise click.UsageError(f"{found} which one? Pass its id")
    return (ids[0] if ids else None), found


def check_queue(
    lw: Lockwork, name: str, announced: Collection[str] = (), *, looks: bool, create: bool | None = None
) -> None:
    """Raise ConfigError for a queue that neither exists nor was announced, unless `create`.

    If only partitions of it exist, raise it unless the command only `looks`: then print a warning. `create` is None for
    commands that cannot create a queue.
    """
    if name in announced or _exists(lw, name):
        return
    names = sorted({*lw.queues(), *announced})
    found = sorted((each for each in names if each != name and base_queue(each) == name), key=partition_number)
    if found:
        said = f"queue {printable(name)} has partitions ({_some(found)}): pass one of them, or --partitions N"
        if not looks:
            raise ConfigError(said)
        click.echo(said, err=True)
    elif not create:
        known = sorted({base_queue(each) for each in names})
        close = get_close_matches(name, {*names, *known}, 1)
        last = " Add --create to use it anyway." if create is not None else ""
        raise ConfigError(f"no queue {printable(name)} exists: {hint(name, close or known)}{last}")


def _exists(lw: Lockwork, name: str) -> bool:
    """Return True if a queue ever had a job, has limits, is paused, or is served by a worker."""
    queue = lw.queue(name)
    status, limits = queue.status(), queue.limits()
    return bool(status.enqueued or status.paused or limits != QueueLimits(None, None, None) or queue.workers())


def _some(names: list[str]) -> str:
    return ", ".join(map(printable, names[:3])) + (", ..." if len(names) > 3 else "")
