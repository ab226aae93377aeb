"""The options that several commands share: server, key prefix, queue, partitions, durations and sizes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import wraps
from typing import Any, TypeVar, cast

import click
from msgspec import Struct

from lockwork.app.lockwork import Lockwork
from lockwork.cli.announced import Announced
from lockwork.cli.completion import queue_names
from lockwork.cli.names import check_queue
from lockwork.cli.project import PrefixOption, ServerOption, server
from lockwork.durations import seconds
from lockwork.errors import ConfigError
from lockwork.protocol.keys import MOST_PARTITIONS

F = TypeVar("F", bound=Callable[..., object])


def queue_option(help: str, *, required: bool = False) -> Callable[[F], F]:
    """Give a command --queue."""
    return click.option("--queue", "-q", required=required, shell_complete=queue_names, help=help)


def queue_argument(metavar: str = "NAME", *, required: bool = True) -> Callable[[F], F]:
    """Give a command the name of a queue as its argument."""
    word = metavar if required else f"[{metavar}]"
    return click.argument("queue", metavar=word, required=required, shell_complete=queue_names)


def yes_option(command: F) -> F:
    """Give a command --yes."""
    return click.option("--yes", is_flag=True, help="Do not ask for confirmation.")(command)


class Scope(Struct, frozen=True):
    """The server and the app that a command is about, and the queue, if one is named."""

    url: str | None
    prefix: str
    queue: str | None
    partitions: int | None

    @contextmanager
    def open(self, *, read_only: bool, create: bool | None = None) -> Iterator[Lockwork]:
        """Open an app that knows the partitions that apps announced; raises ConfigError as `check_queue`."""
        if self.partitions is not None and self.queue is None:
            raise click.UsageError("--partitions needs the name of a queue")
        with ExitStack() as stack:
            lw = stack.enter_context(connected(self.url, self.prefix))
            announced = Announced.read(lw)
            counts = announced.partitions
            if self.queue is not None and self.partitions is not None:
                counts = counts | {self.queue: self.partitions}
            if counts or announced.ten_priorities:
                lw = stack.enter_context(connected(self.url, self.prefix, counts, announced.ten_priorities))
            if self.queue is not None:
                check_queue(lw, self.queue, announced.queues, read_only=read_only, create=create)
            yield lw


def scoped(queue: Callable[[Any], Any]) -> Callable[[F], F]:
    """Give a command `queue` (queue_option or queue_argument), --partitions, --url and --prefix.

    It receives them as its argument `scope`.
    """

    def decorate(command: F) -> F:
        @queue
        @click.option(
            "--partitions",
            type=click.IntRange(1, MOST_PARTITIONS),
            help="Number of partitions. Use NAME/2 to select one. [default: announced by the app]",
        )
        @names_the_app
        @wraps(command)
        def wrapped(
            *args: Any, url: str | None, prefix: str, queue: str | None, partitions: int | None, **options: Any
        ) -> object:
            return command(*args, scope=Scope(url, prefix, queue, partitions), **options)

        return cast("F", wrapped)  # click calls it by name

    return decorate


_SIZE = re.compile(r"(\d{1,15}(?:\.\d{1,15})?)\s*([kmgt])(i?)b?", re.IGNORECASE)
_POWERS = {"k": 1, "m": 2, "g": 3, "t": 4}


def unit_or_seconds(text: str) -> float | str:
    """Read a duration; a bare number on the command line is seconds."""
    try:
        return float(text)
    except ValueError:
        return text


def duration(text: str, option: str) -> float:
    """Return the seconds that the text of an option means, such as "10m" or "90"; raises click.UsageError."""
    try:
        return seconds(unit_or_seconds(text), option, zero=True)
    except ConfigError as error:
        message = str(error).replace("seconds, a timedelta or text such as", "a number of seconds or a time such as")
        raise click.UsageError(message) from None


def size(text: str, what: str) -> int:
    """Return the bytes that a text such as "512MB" or "1.5GiB" means; raises ConfigError."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise ConfigError(f'{what} must be a size such as "512MB" or "1.5GiB", not {text!r:.80}')
    number, unit, binary = match.groups()
    bytes = int(float(number) * (1024 if binary else 1000) ** _POWERS[unit.lower()])
    if bytes < 1:
        raise ConfigError(f"{what} must be more than 0, not {text!r}")
    return bytes


_PATIENCE = 3.0
"""Seconds to wait for a server that does not answer: a person waits."""
_OPTIONS = (
    click.option(
        "--url",
        cls=ServerOption,
        envvar="LOCKWORK_URL",
        help="URL of the server. Other users of this machine can read options: put a URL with a password into "
        "LOCKWORK_URL. [default: LOCKWORK_URL, else the embedded server]",
    ),
    click.option(
        "--prefix",
        cls=PrefixOption,
        envvar="LOCKWORK_PREFIX",
        default="lw",
        help="First part of the app's keys. [default: LOCKWORK_PREFIX, else lw]",
    ),
)


def names_the_server(command: F) -> F:
    """Give a command --url."""
    return _OPTIONS[0](command)


def names_the_app(command: F) -> F:
    """Give a command --url and --prefix."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def discovers_tasks(command: F) -> F:
    """Give a command that imports an app --discover."""
    return click.option(
        "--discover",
        multiple=True,
        metavar="PACKAGE",
        help="Also import all modules named tasks below a package, such as shop. Can be repeated.",
    )(command)


def prefix_option(command: F) -> F:
    """Give a command --prefix."""
    return _OPTIONS[1](command)


def connected(
    url: str | None, prefix: str, partitions: Mapping[str, int] | None = None, ten_priorities: Sequence[str] = ()
) -> Lockwork:
    """Open the app that the options name, for a `with`; `partitions` by queue, and the queues with `ten_priorities`.

    A server that may evict keys is no error here: the app has accepted it, or the doctor reports it.
    """
    url, client = server(url)
    return Lockwork(
        url,
        client=client,
        prefix=prefix,
        patience=_PATIENCE,
        partitions=partitions or {},
        ten_priorities=ten_priorities,
        allow_eviction=True,
    )


def warn_if_embedded(lw: Lockwork) -> None:
    """Open the server of a command that serves, and name it if it is the embedded one; raises ConfigError."""
    server = lw.runtime.server
    if lw.runtime.embedded:
        click.echo(f"lockwork: this is {server}; for another server, set LOCKWORK_URL", err=True)
