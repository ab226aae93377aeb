"""`lockwork queue`."""

from __future__ import annotations

import click

from lockwork.cli.partitioned import opened, partitions_option
from lockwork.cli.quantities import duration
from lockwork.cli.queuejson import queue_json
from lockwork.cli.queueview import show_queue
from lockwork.queue_limits import LimitSettings
from lockwork.queues import Queue

_ACTIONS = ("status", "pause", "resume", "limit", "drain")
_NONE = "none"


@click.command()
@click.option("--json", "as_object", is_flag=True, help="Print one JSON document.")
@click.option("--url", envvar="LOCKWORK_URL", help="The server. [default: LOCKWORK_URL, else the embedded one]")
@click.option("--prefix", default="lw", show_default=True, help="What the app's keys begin with.")
@click.option("--rate", help="limit: so many jobs may begin in a time, such as 100/s; none takes the limit away.")
@click.option("--concurrency", help="limit: so many jobs may run at once; or none.")
@click.option("--size", help="limit: so many jobs may wait, 0 to refuse new ones; or none.")
@click.option("--timeout", help="drain: how long to wait at most, such as 5m. [default: as long as it takes]")
@partitions_option
@click.option("--delayed", is_flag=True, help="drain: wait for scheduled jobs, too.")
@click.argument("words", nargs=-1, metavar="[status | pause | resume | limit | drain] NAME")
def queue(
    *,
    as_object: bool,
    url: str | None,
    prefix: str,
    timeout: str | None,
    partitions: int | None,
    delayed: bool,
    words: tuple[str, ...],
    **given: str | None,
) -> None:
    """Pause a queue, limit it, wait until it is empty, or show how it stands; it holds for all workers at once.

    Afterwards the queue's state is shown. `limit` without options changes nothing.
    """
    *verbs, name = words or ("",)
    action = verbs[0] if verbs else "status"
    if not name or len(verbs) > 1 or action not in _ACTIONS:
        raise click.UsageError(f"give {', '.join(_ACTIONS[:-1])} or {_ACTIONS[-1]}, and the queue's name")
    if not verbs and name in _ACTIONS:
        raise click.UsageError(f"{name} which queue?")
    limits = _limits(given)
    if limits and action != "limit":
        raise click.UsageError("--rate, --concurrency and --size go with limit")
    if (timeout is not None or delayed) and action != "drain":
        raise click.UsageError("--timeout and --delayed go with drain")
    with opened(url, prefix, name, partitions) as lw:
        chosen = lw.queue(name)
        _act(chosen, action, limits, timeout, delayed=delayed)
        status, in_force = chosen.status(), chosen.limits()
    click.echo(queue_json(name, status, in_force)) if as_object else show_queue(name, status, in_force)


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
        if text is not None and text != _NONE and not text.isdecimal():
            raise click.UsageError(f"--{name} is a number of jobs, or none, not {text!r}")
        if text is not None:
            found[name] = None if text == _NONE else int(text)
    return found
