"""Partitioned queues in the terminal: the server knows their partitions' names, but not how many belong together."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from typing import TypeVar

import click

from lockwork.app import Lockwork
from lockwork.cli.connecting import connected
from lockwork.cli.printable import printable
from lockwork.errors import ConfigError
from lockwork.protocol.keys import MOST_PARTITIONS, base_queue, partition_number

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
    url: str | None, prefix: str, queue: str | None, partitions: int | None, *, looks: bool
) -> Iterator[Lockwork]:
    """An app that knows the partitions of this queue; if it should have been told of some, it tells who only `looks`.

    Raises ConfigError for whoever would change or wait for the queue itself, where nothing is.
    """
    if partitions is not None and queue is None:
        raise click.UsageError("--partitions goes with the name of a queue")
    counts = {} if queue is None or partitions is None else {queue: partitions}
    with connected(url, prefix, counts) as lw:
        if queue is not None and not counts and not lw.queue(queue).status().enqueued:
            _warn(lw, queue, looks=looks)
        yield lw


def _warn(lw: Lockwork, queue: str, *, looks: bool) -> None:
    """Say so if the jobs of this queue, which never had one itself, are in its partitions; or its name is mistyped."""
    names = lw.queues()
    found = sorted((name for name in names if name != queue and base_queue(name) == queue), key=partition_number)
    if found:
        shown = ", ".join(map(printable, found[:3])) + (", ..." if len(found) > 3 else "")
        said = f"queue {printable(queue)} has partitions ({shown}): name one, or give --partitions N"
        if not looks:
            raise ConfigError(said)
        click.echo(said, err=True)
    elif queue not in names and (close := get_close_matches(queue, {base_queue(name) for name in names}, 1)):
        said = f"no job was ever enqueued to queue {printable(queue)}: did you mean {printable(close[0])}?"
        click.echo(said, err=True)
