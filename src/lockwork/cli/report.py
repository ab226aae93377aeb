"""The output of commands: tables for people, one JSON document for programs, once or until Ctrl-C."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import wraps
from types import FrameType
from typing import Any, TypeVar

import click
import msgspec
from msgspec import Struct
from rich.console import Console, ConsoleDimensions, Group, RenderableType
from rich.live import Live
from rich.text import Text

from lockwork import words
from lockwork.bases import as_base
from lockwork.errors import ServerUnavailable

F = TypeVar("F", bound=Callable[..., object])
_WIDTH = 160
"""Columns where there is no terminal, such as in a file or a pipe, unless COLUMNS says more or less."""
_HEIGHT = 1000
_SHORTEST = 0.1
"""Seconds between two calls of --watch."""


class Report(Struct, frozen=True):
    """The result of one call: the document for programs, and lines of text and tables for people."""

    document: Mapping[str, Any]
    body: Sequence[RenderableType]


class Output(Struct, frozen=True):
    """The form that the user wants: --json, --watch."""

    as_json: bool = False
    watch: float | None = None

    def show(self, make: Callable[[], Report]) -> None:
        """Make a report and print it; with --watch, again and again until Ctrl-C."""
        if self.watch is None:
            self._print(make())
        elif self.as_json or not sys.stdout.isatty():
            while True:
                self._print(make())
                sys.stdout.flush()
                time.sleep(self.watch)
        else:
            self._redraw(make, self.watch)

    def _print(self, report: Report) -> None:
        if self.as_json:
            click.echo(document(report.document, indent=2 if self.watch is None else None))
            return
        out = console()
        if out.is_terminal:
            out.print(*map(line, report.body), sep="\n", crop=False)
            return
        with out.capture() as captured:
            out.print(*map(line, report.body), sep="\n", crop=False)
        for text in captured.get().splitlines():
            click.echo(text.rstrip())  # tables pad their lines

    def _redraw(self, make: Callable[[], Report], pause: float) -> None:
        out = console()
        renderables: list[RenderableType] = list(map(line, make().body))
        before = signal.signal(signal.SIGTERM, _end)
        try:
            with Live(console=out, screen=True, auto_refresh=False, vertical_overflow="crop") as live:
                problem = ""
                while True:
                    clock = datetime.now(UTC).astimezone().strftime("%H:%M:%S")
                    head = Text(f"every {words.exact(pause)}, Ctrl-C ends    {clock}", style="dim")
                    warning = [Text(problem, style="color(160)")] if problem else []
                    live.update(Group(head, *warning, *renderables), refresh=True)
                    time.sleep(pause)
                    try:
                        renderables, problem = list(map(line, make().body)), ""
                    except ServerUnavailable as error:
                        problem = f"the figures below are old: {error}"
        finally:
            signal.signal(signal.SIGTERM, before)
            out.print(*renderables, sep="\n")  # so that the last state is seen after the end, too


def _end(number: int, _: FrameType | None) -> None:
    # its default would end the process with the terminal on the other screen, and without a cursor
    sys.exit(128 + number)


def console(*, stderr: bool = False) -> Console:
    """Return a console that is wide where there is no terminal; rich follows NO_COLOR, TERM and COLUMNS."""
    created = Console(highlight=False, markup=False, emoji=False, stderr=stderr)
    if not created.is_terminal and "COLUMNS" not in os.environ:
        created.size = ConsoleDimensions(_WIDTH, _HEIGHT)
    return created


def line(part: RenderableType) -> RenderableType:
    """Return a text without markup."""
    return Text(part) if isinstance(part, str) else part


def document(value: Any, *, indent: int | None = 2) -> str:
    """Return JSON: times are ISO 8601 texts, durations seconds, and an unknown value is null."""
    return json.dumps(msgspec.to_builtins(value, str_keys=True, enc_hook=as_base), indent=indent)


class _Pause(click.ParamType[float]):
    name = "seconds"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            pause = float(value)
        except ValueError:
            self.fail(f"{value!r} is not a number of seconds", param, ctx)
        if not _SHORTEST <= pause <= 86_400:
            self.fail(f"the pause must be {_SHORTEST} s to a day, not {value}", param, ctx)
        return pause


_JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")


def prints_json(command: F) -> F:
    """Give a command --json; it receives it as its argument `output`."""

    @_JSON
    @wraps(command)
    def wrapped(*args: Any, as_json: bool, **options: Any) -> object:
        return command(*args, output=Output(as_json), **options)

    return wrapped  # type: ignore[return-value]  # click calls it by name


def reports(command: F) -> F:
    """Give a command --json and --watch; it receives them as its argument `output`."""

    @_JSON
    @click.option(
        "--watch",
        is_flag=False,
        flag_value=2.0,
        type=_Pause(),
        metavar="[SECONDS]",
        help="Refresh every 2 s, or every given number of seconds, until Ctrl-C.",
    )
    @wraps(command)
    def wrapped(*args: Any, as_json: bool, watch: float | None, **options: Any) -> object:
        return command(*args, output=Output(as_json, watch), **options)

    return wrapped  # type: ignore[return-value]  # click calls it by name
