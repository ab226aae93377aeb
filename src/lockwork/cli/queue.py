"""`lockwork queue`."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import click

from lockwork.cli.options import duration, names_the_app, opened, partitions_option
from lockwork.cli.terminal import printable
from lockwork.protocol.queues.status import QueueStatus
from lockwork.queues.limits import LimitSettings, QueueLimits
from lockwork.queues.queue import Queue


def show_queue(name: str, status: QueueStatus, limits: QueueLimits) -> None:
    """Print a queue's jobs by place, and its limits."""
    click.echo(f"queue {printable(name)}: {'paused' if status.paused else 'open'}")
    places = [("ready", status.ready), ("scheduled", status.scheduled), ("running", status.running)]
    if status.blocked:  # only flows have such jobs
        places.append(("blocked", status.blocked))
    click.echo("  " + ", ".join(f"{count:,} {place}" for place, count in (*places, ("dead", status.dead))))
    found = (
        ("rate", limits.rate),
        ("concurrency", None if limits.concurrency is None else f"{limits.concurrency:,}"),
        ("size", None if limits.size is None else f"{limits.size:,}"),
    )
    given = [f"{what} {limit}" for what, limit in found if limit is not None]
    click.echo(f"  limits: {', '.join(given) or 'none'}")


def show_queues(seen: Sequence[tuple[str, QueueStatus, QueueLimits]]) -> None:
    """Print several queues."""
    for each in seen:
        show_queue(*each)
    if not seen:
        click.echo("no queue has had a job")


def queue_json(name: str, status: QueueStatus, limits: QueueLimits) -> str:
    """Return a queue's jobs by place, counters, pause and limits as JSON; null: no limit."""
    return json.dumps(_queue(name, status, limits), indent=2)


def queues_json(seen: Sequence[tuple[str, QueueStatus, QueueLimits]]) -> str:
    """Return several queues as one JSON document."""
    return json.dumps({"queues": [_queue(*each) for each in seen]}, indent=2)


def _queue(name: str, status: QueueStatus, limits: QueueLimits) -> dict[str, Any]:
    return {"queue": name, **asdict(status), "limits": asdict(limits)}


_ACTIONS = ("status", "pause", "resume", "limit", "drain")
_CREATING = ("pause", "limit")
"""Actions that may create a queue."""
_NONE = "none"
_NUMBER = re.compile(r"\d{1,15}")


@click.command()
@click.option("--json", "as_object", is_flag=True, help="Print one JSON document.")
@names_the_app
@click.option("--rate", help="limit: so many jobs may begin in a time, such as 100/s; none takes the limit away.")
@click.option("--concurrency", help="limit: so many jobs may run at once; or none.")
@click.option("--size", help="limit: so many jobs may wait, 0 to refuse new ones; or none.")
@click.option("--timeout", help="drain: how long to wait at most, such as 5m. [default: as long as it takes]")
@partitions_option
@click.option("--delayed", is_flag=True, help="drain: wait for scheduled jobs, too.")
@click.option("--create", is_flag=True, help="pause, limit: of a queue that does not exist yet.")
@click.argument("words", nargs=-1, metavar="[[status | pause | resume | limit | drain] NAME]")
def queue(
    *,
    as_object: bool,
    url: str | None,
    prefix: str,
    timeout: str | None,
    partitions: int | None,
    delayed: bool,
    create: bool,
    words: tuple[str, ...],
    **given: str | None,
) -> None:
    """Show how queues stand; pause one, limit it, or wait until it is empty. That holds for all workers at once.

    Afterwards the queue's state is shown; without a name, that of all. `limit` without options changes nothing.
    """
    action, name = _meant(words)
    limits = _limits(given)
    if limits and action != "limit":
        raise click.UsageError("--rate, --concurrency and --size go with limit")
    if (timeout is not None or delayed) and action != "drain":
        raise click.UsageError("--timeout and --delayed go with drain")
    if create and action not in _CREATING:
        raise click.UsageError("--create goes with pause and limit")
    creating = create if action in _CREATING else None
    with opened(url, prefix, name, partitions, looks=action == "status", create=creating) as lw:
        if name is None:
            seen = [(each, lw.queue(each).status(), lw.queue(each).limits()) for each in lw.queues()]
            click.echo(queues_json(seen)) if as_object else show_queues(seen)
            return
        chosen = lw.queue(name)
        _act(chosen, action, limits, timeout, delayed=delayed)
        status, in_force = chosen.status(), chosen.limits()
    click.echo(queue_json(name, status, in_force)) if as_object else show_queue(name, status, in_force)


def _meant(words: tuple[str, ...]) -> tuple[str, str | None]:
    """Read the action and the queue's name; None: all queues."""
    if words in ((), ("status",)):
        return "status", None
    *verbs, name = words
    action = verbs[0] if verbs else "status"
    if len(verbs) > 1 or action not in _ACTIONS:
        raise click.UsageError(f"give {', '.join(_ACTIONS[:-1])} or {_ACTIONS[-1]}, and the queue's name")
    if not verbs and name in _ACTIONS:
        raise click.UsageError(f"{name} which queue?")
    return action, name


def _act(chosen: Queue, action: str, limits: LimitSettings, timeout: str | None, *, delayed: bool) -> None:
    if action == "pause":
        chosen.pause()
    elif action == "resume":
        chosen.resume()
    elif action == "limit" and limits:
        chosen.limit(**limits)
    elif action == "drain":
        chosen.drain(None if timeout is None else duration(timeout), delayed=delayed)


def _limits(given: dict[str, str | None]) -> LimitSettings:
    found: LimitSettings = {}
    rate = given["rate"]
    if rate is not None:
        found["rate"] = None if rate == _NONE else rate
    for name in ("concurrency", "size"):
        text = given[name]
        if text is not None and text != _NONE and not _NUMBER.fullmatch(text):
            raise click.UsageError(f"--{name} is a number of jobs, or none, not {text!r:.80}")
        if text is not None:
            found[name] = None if text == _NONE else int(text)
    return found
