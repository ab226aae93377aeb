"""`lockwork jobs`."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, TypeVar, cast

import click
from rich.console import RenderableType
from rich.text import Text

from lockwork.app.lockwork import Lockwork
from lockwork.cli.completion import queue_names
from lockwork.cli.help import Command
from lockwork.cli.options import duration, names_the_app, opened, partitions_option
from lockwork.cli.progress import progress
from lockwork.cli.report import Output, Report, reports
from lockwork.cli.table import Column, Listing
from lockwork.cli.text import ago, arguments, brief, printable, state, until
from lockwork.jobs.search import JobFilter, JobPage, JobRow, JobState

F = TypeVar("F", bound=Callable[..., object])
_COLUMNS = (
    Column("id"),
    Column("queue"),
    Column("task"),
    Column("arguments", cut=True),
    Column("state"),
    Column("attempt", right=True, least=100),
    Column("when", right=True),
    Column("ran", right=True, least=100),
    Column("error", cut=True),
    Column("worker", least=120),
)
_SEARCHED = 100_000
"""Records that a list searches unless --search says more or less."""
_STEP = 5_000
"""Records that one call of `lw.jobs` searches, so that a progress bar moves."""


def _state_option(word: JobState) -> Callable[[F], F]:
    said = (
        "Only jobs that have ended: dead, succeeded, cancelled or expired." if word == "done" else f"Only {word} jobs."
    )
    return click.option(f"--{word}", "state", flag_value=word, help=said)


@click.command(
    cls=Command,
    examples={
        "lockwork jobs --running": "What runs now, where, and since when.",
        "lockwork jobs mail --dead --error SMTPError --since 2h": "What died of an error in the last two hours.",
        "lockwork jobs --done --task send --arg user=42": "What was done for user 42.",
        "lockwork jobs --ready --json --limit 1000": "For a program.",
    },
)
@click.argument("queue", required=False, shell_complete=queue_names)
@_state_option("running")
@_state_option("ready")
@_state_option("scheduled")
@_state_option("blocked")
@_state_option("dead")
@_state_option("succeeded")
@_state_option("cancelled")
@_state_option("expired")
@_state_option("done")
@click.option("--task", help="Only jobs of this task.")
@click.option("--tag", help="Only jobs with this tag.")
@click.option("--key", help="Only jobs with this key.")
@click.option("--group", help="Only jobs of this group.")
@click.option("--arg", help="Only jobs with this argument: 42 is any, n=42 the one that is named n.")
@click.option("--error", help="Only jobs whose error has this text in its type or message.")
@click.option("--text", help="Only jobs that have this text in id, call or error.")
@click.option("--since", help="Only jobs that ended, started or were enqueued in this time, such as 2h.")
@click.option("--until", "until_", help="Only jobs for which that is this long ago at least.")
@click.option("--limit", default=50, show_default=True, type=click.IntRange(1, 1000), help="At most so many jobs.")
@click.option("--after", help="Where to go on: `next` of an earlier list with --json.")
@click.option("--oldest", is_flag=True, help="The oldest first.")
@click.option(
    "--search",
    "budget",
    default=_SEARCHED,
    show_default=True,
    type=click.IntRange(1),
    help="Search at most so many jobs for those that match.",
)
@partitions_option
@reports
@names_the_app
def jobs(
    *,
    queue: str | None,
    state: JobState | None,
    until_: str | None,
    limit: int,
    after: str | None,
    oldest: bool,
    budget: int,
    partitions: int | None,
    output: Output,
    url: str | None,
    prefix: str,
    **given: str | None,
) -> None:
    """Show the jobs of a queue, or of all queues: running, ready, scheduled, blocked and ended ones.

    The newest come first; of the scheduled ones, the next due. State, key, group and time use an index; the other
    filters read jobs one by one, and the list says how many it has searched.
    """
    matching: Any = {name: text for name, text in given.items() if text is not None}
    for name, text in (("since", given["since"]), ("until", until_)):
        if text is not None:
            matching[name] = duration(text)
    wanted = cast("JobFilter", {**matching, "state": state})
    with opened(url, prefix, queue, partitions, looks=True) as lw:
        search = _Search(lw, queue, wanted, limit, budget, newest=not oldest)
        output.show(lambda: search.report(after))


class _Search:
    """A search that goes on from page to page until it has enough jobs, or has searched enough."""

    def __init__(
        self, lw: Lockwork, queue: str | None, wanted: JobFilter, limit: int, budget: int, *, newest: bool
    ) -> None:
        self._lw = lw
        self._queue = queue
        self._wanted = wanted
        self._limit = limit
        self._budget = budget
        self._newest = newest
        self._searched = 0

    def report(self, after: str | None) -> Report:
        """Search, and return what was found."""
        self._searched = 0
        found: list[JobRow] = []
        page = self._page(after, self._limit)
        with progress("searching", min(page.total, self._budget), lambda: self._searched):
            while True:
                found += page.jobs
                self._searched += page.searched
                if page.next is None or len(found) >= self._limit or self._searched >= self._budget:
                    break
                page = self._page(page.next, self._limit - len(found))
        document = {
            "jobs": found,
            "searched": self._searched,
            "total": page.total,
            "next": page.next,
            "sampled": page.sampled,
        }
        return Report(document, self._body(found, page))

    def _page(self, after: str | None, limit: int) -> JobPage:
        step = max(1, min(_STEP, self._budget - self._searched))
        return self._lw.jobs(self._queue, limit=limit, after=after, newest=self._newest, budget=step, **self._wanted)

    def _body(self, found: list[JobRow], page: JobPage) -> list[RenderableType]:
        now = datetime.now(UTC)
        rows = [_row(job, now, single=self._queue is not None) for job in found]
        body: list[RenderableType] = [Listing(_COLUMNS, rows, empty="no job matches")]
        notes: list[str] = []
        if page.next is not None:
            notes += [
                f"searched {self._searched:,} of {page.total:,}; there may be more: see --limit, --search and --after"
            ]
        if page.sampled and self._wanted.get("state") in (None, "done", "succeeded"):
            notes += [f"{page.sampled:,} jobs that succeeded were left out of the history, and are only counted"]
        return [*body, *(Text(printable(note), style="dim") for note in notes)]


def _row(job: JobRow, now: datetime, *, single: bool) -> list[str | Text]:
    return [
        printable(job.id),
        "" if single and job.partition == job.queue else printable(job.partition),
        printable(job.task or "?"),
        arguments(job.args, job.kwargs),
        shown_state(job.state, retrying=job.state == "scheduled" and job.error is not None),
        str(job.attempt) if job.attempt else "",
        _when(job, now),
        ran(job.started, job.ended or (now if job.state == "running" else None)),
        printable(f"{job.error.type}: {job.error.text}") if job.error else "",
        place(job.worker),
    ]


def shown_state(word: str, *, retrying: bool) -> Text:
    """A job's state; a job that waits for its next attempt after one that failed is `retrying`."""
    return state("retrying" if retrying else word)


def ran(started: datetime | None, ended: datetime | None) -> str:
    """How long an attempt ran; empty if it is not known."""
    return "" if started is None or ended is None else brief((ended - started).total_seconds())


def place(worker: str | None) -> str:
    """The host and the process of a worker's session."""
    return printable("/".join((worker or "").split("/")[:2]))


def _when(job: JobRow, now: datetime) -> str:
    if job.state == "scheduled":
        return until(job.due, now)
    then = job.ended or (job.started if job.state == "running" else job.enqueued)
    return f"{ago(then, now)} ago" if then else ""
