"""Partitioned queues in the terminal: the server knows their partitions' names, but not how many belong together."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from typing import TypeVar

import click

from lockwork.app.lockwork import Lockwork
from lockwork.cli.options import connected
from lockwork.cli.printable import printable
from lockwork.errors import ConfigError
from lockwork.protocol.keys import MOST_PARTITIONS, base_queue, partition_number
from lockwork.queues.limits import QueueLimits

F = TypeVar("F", bound=Callable[..., object])


def partitions_option(command: F) -> F:
    """Give a command --partitions."""
    return click.option(
        "--partitions",
        type=click.IntRange(1, MOST_PARTITIONS),
        help="How many partitions the queue has, to mean all of them; one is named as NAME/2.",
    )(command)


@contextmanager
def opened(
    url: str | None, prefix: str, queue: str | None, partitions: int | None, *, looks: bool, create: bool | None = None
) -> Iterator[Lockwork]:
    """An app that knows the partitions of this queue.

    Raises ConfigError for a queue that does not exist, unless it shall be created, and for one of which only partitions
    exist, unless the command only `looks`: then it is told. `create` is None where that makes no sense.
    """
    if partitions is not None and queue is None:
        raise click.UsageError("--partitions goes with the name of a queue")
    counts = {} if queue is None or partitions is None else {queue: partitions}
    with connected(url, prefix, counts) as lw:
        if queue is not None and not _exists(lw, queue):
            _complain(lw, queue, looks=looks, create=create)
        yield lw


def _exists(lw: Lockwork, name: str) -> bool:
    """Whether a queue ever had a job, has limits, is paused, or is served by a worker."""
    queue = lw.queue(name)
    status, limits = queue.status(), queue.limits()
    return bool(status.enqueued or status.paused or limits != QueueLimits(None, None, None) or queue.workers())


def _complain(lw: Lockwork, queue: str, *, looks: bool, create: bool | None) -> None:
    names = lw.queues()
    found = sorted((name for name in names if name != queue and base_queue(name) == queue), key=partition_number)
    if found:
        said = f"queue {printable(queue)} has partitions ({_some(found)}): name one, or give --partitions N"
        if not looks:
            raise ConfigError(said)
        click.echo(said, err=True)
    elif not create:
        known = sorted({base_queue(name) for name in names})
        close = get_close_matches(queue, {*names, *known}, 1)
        hint = (
            f"did you mean {printable(close[0])}?"
            if close
            else f"there are {_some(known)}"
            if known
            else "there is none"
        )
        last = " (--create: it shall exist)" if create is not None else ""
        raise ConfigError(f"no queue {printable(queue)} exists: {hint}{last}")


def _some(names: list[str]) -> str:
    return ", ".join(map(printable, names[:3])) + (", ..." if len(names) > 3 else "")
