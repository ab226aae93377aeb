"""A progress bar for steps that take over a second, on standard error, and only on a terminal."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import click
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.text import Text

from lockwork.cli.report import console
from lockwork.errors import LockworkError

_PATIENCE = 1.0
"""Seconds before the bar appears."""
_PAUSE = 0.25


class _Counted(ProgressColumn):
    def render(self, task: Task) -> Text:
        return Text("" if task.total is None else f"{task.completed:,.0f} of {task.total:,.0f}")


@contextmanager
def progress(
    title: str, total: int | Callable[[], int], done: Callable[[], int], *, changes: bool = False
) -> Iterator[None]:
    """Show a bar while the block runs: `done` of `total`; functions are called on another thread.

    `changes`: the block changes jobs, so report their number after Ctrl-C.
    """
    try:
        with _bar(title, total, done):
            yield
    except KeyboardInterrupt:
        if changes:
            with suppress(LockworkError):
                most = total if isinstance(total, int) else total()
                how_far = f"{max(0, min(most, done())):,} of {most:,} jobs"
                click.echo(f"lockwork: interrupted after {how_far}: run it again for the others", err=True)
        raise


@contextmanager
def _bar(title: str, total: int | Callable[[], int], done: Callable[[], int]) -> Iterator[None]:
    if not console(stderr=True).is_terminal:
        yield
        return
    over = threading.Event()
    thread = threading.Thread(target=_follow, args=(over, title, total, done), name="progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _follow(over: threading.Event, title: str, total: int | Callable[[], int], done: Callable[[], int]) -> None:
    if over.wait(_PATIENCE):
        return
    columns = TextColumn("{task.description}"), BarColumn(), _Counted(), TimeRemainingColumn()
    with Progress(*columns, console=console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=None)
        while not over.wait(_PAUSE):
            try:
                most = total if isinstance(total, int) else total()
                bar.update(task, total=most, completed=max(0, min(most, done())))
            except LockworkError:
                continue  # the block gets the same error, and reports it
