"""A progress bar for waits, on standard error: in a terminal or a notebook, and nowhere else."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


class ProgressBar:
    """Shows how many of `total` jobs have ended; `total` None: not known yet. Without `show`, it does nothing."""

    def __init__(self, title: str, total: int | None, *, show: bool) -> None:
        self._title = title
        self._total = total
        self._show = show
        self._bar: Progress | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> Self:
        if self._show:
            self._start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def advance(self, jobs: int) -> None:
        """Count jobs that have ended."""
        if self._bar is not None and self._task is not None:
            self._bar.advance(self._task, jobs)

    def expect(self, total: int) -> None:
        """Set the number of jobs."""
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, total=total)

    def _start(self) -> None:
        from rich import progress  # noqa: PLC0415 - only for a bar
        from rich.console import Console  # noqa: PLC0415

        console = Console(stderr=True)
        if not (console.is_terminal or console.is_jupyter):
            return
        self._bar = progress.Progress(
            progress.TextColumn("{task.description}"),
            progress.BarColumn(),
            progress.MofNCompleteColumn(),
            progress.TimeElapsedColumn(),
            progress.TimeRemainingColumn(),
            console=console,
        )
        self._task = self._bar.add_task(self._title, total=self._total)
        self._bar.start()
