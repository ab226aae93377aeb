"""`lockwork jobs`."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TypedDict, TypeVar, Unpack

import click
from rich.console import RenderableType
from rich.text import Text

from lockwork.app.lockwork import Lockwork
from lockwork.cli.action_group import ActionGroup
from lockwork.cli.bulk import Action, Bulk
from lockwork.cli.job_filter import job_filter, unknown_task
from lockwork.cli.options import Scope, queue_argument, scoped, yes_option
from lockwork.cli.progress import progress
from lockwork.cli.report import Output, Report, prints_json, reports
from lockwork.cli.table import Column, Listing
from lockwork.cli.text import HIDDEN, ago, arguments, duration, printable, state, until
from lockwork.errors import ConfigError
from lockwork.jobs.search import MOST, JobFilter, JobPage, JobRow
from lockwork.words import several

F = TypeVar("F", bound=Callable[..., object])
_COLUMNS = (
    Column("id", whole=True),
    Column("queue", wide=72),
    Column("task", wide=72),
    Column("arguments", cut=True, below=12, wide=72),
    Column("state", whole=True),
    Column("attempt", right=True, least=100),
    Column("when", right=True),
    Column("ran", right=True, least=100),
    Column("error", cut=True, below=28, wide=72),
    Column("worker", least=120),
)
_SEARCHED = 1_000_000
"""Records that a list searches unless --search says more or less."""
_STEP = 5_000
"""Records that one call of `lw.jobs` searches, so that a progress bar moves."""


class _ChangeOptions(TypedDict):
    """The options of a change of many jobs."""

    wanted: JobFilter
    limit: int | None
    yes: bool
    scope: Scope
    output: Output


jobs: ActionGroup = ActionGroup(
    "jobs",
    default="show",
    help="""Show the jobs of a queue, or of all queues; cancel, retry or delete matching jobs.

    The actions count all matching jobs and ask before they change them.
    """,
)
_scope = scoped(queue_argument("QUEUE", required=False))


@jobs.command(
    "show",
    examples={
        "lockwork jobs --running": "Running jobs, with their workers and start times.",
        "lockwork jobs mail --dead --error SMTPError --since 2h": "Jobs that died with an error in the last two hours.",
        "lockwork jobs --done --task send --arg user=42": "Ended jobs for user 42.",
        "lockwork jobs --ready --json --limit 1000": "For a program.",
    },
)
@job_filter
@click.option("--limit", default=50, show_default=True, type=click.IntRange(1), help="Maximum number of jobs.")
@click.option("--after", help="Where to continue: `next` of an earlier list with --json.")
@click.option("--oldest", is_flag=True, help="The oldest first.")
@click.option(
    "--search",
    "budget",
    default=_SEARCHED,
    show_default=True,
    type=click.IntRange(1),
    help="Maximum number of jobs to search for matches.",
)
@_scope
@reports
def _show(
    *, wanted: JobFilter, limit: int, after: str | None, oldest: bool, budget: int, scope: Scope, output: Output
) -> None:
    """Show jobs.

    The newest come first; of the scheduled ones, the next due. Filters by state, by the time of ended jobs, and by the
    key and the group of ready jobs use an index. Job ids encode the task, the tags, the key, and the enqueue time of
    waiting jobs. Other filters read jobs one by one, and the list shows how many it has searched.
    """
    if limit > MOST:
        raise click.UsageError(f"a list has at most {MOST:,} jobs: continue with --after")
    with scope.open(read_only=True) as lw:
        mistake = unknown_task(lw, wanted)
        search = _Search(lw, scope.queue, wanted, limit, budget, newest=not oldest, mistake=mistake)
        output.show(lambda: search.report(after))


def _change(command: F) -> F:
    """Give an action the filter of jobs and the options of a change."""
    limit = click.option("--limit", type=click.IntRange(1), help="Maximum number of jobs. [default: all]")
    return job_filter(limit(yes_option(_scope(prints_json(command)))))


@jobs.command(
    "cancel",
    examples={"lockwork jobs cancel mail --task send --yes": "Cancel all waiting and running jobs of a task."},
)
@_change
def _cancel(**options: Unpack[_ChangeOptions]) -> None:
    """Cancel matching jobs that wait or run."""
    _run("cancel", **options)


@jobs.command(
    "retry",
    examples={
        "lockwork jobs retry mail --dead --error SMTPError": "Retry these jobs, after a count and a question.",
    },
)
@_change
def _retry(**options: Unpack[_ChangeOptions]) -> None:
    """Run matching jobs again that are dead, cancelled or expired."""
    _run("retry", **options)


@jobs.command("delete", examples={"lockwork jobs delete mail --succeeded": "Delete the records of these jobs."})
@_change
def _delete(**options: Unpack[_ChangeOptions]) -> None:
    """Delete matching jobs that do not run."""
    _run("delete", **options)


def _run(action: Action, **options: Unpack[_ChangeOptions]) -> None:
    scope, wanted = options["scope"], options["wanted"]
    with scope.open(read_only=False) as lw:
        Bulk(lw, scope.queue, action, wanted, options["limit"]).run(options["output"], yes=options["yes"])


class _Search:
    """A search that reads pages until it has enough jobs, or has searched enough."""

    def __init__(
        self,
        lw: Lockwork,
        queue: str | None,
        wanted: JobFilter,
        limit: int,
        budget: int,
        *,
        newest: bool,
        mistake: ConfigError | None,
    ) -> None:
        self._lw = lw
        self._queue = queue
        self._wanted = wanted
        self._limit = limit
        self._budget = budget
        self._newest = newest
        self._mistake = mistake
        self._searched = self._undecided = 0

    def report(self, after: str | None) -> Report:
        """Search, and return the jobs."""
        self._searched = self._undecided = 0
        rows: list[JobRow] = []
        page = self._page(after, self._limit)
        with progress("searching", min(page.total, self._budget), lambda: self._searched):
            while True:
                rows += page.jobs
                self._searched += page.searched
                self._undecided += page.undecided
                if page.next is None or len(rows) >= self._limit or self._searched >= self._budget:
                    break
                page = self._page(page.next, self._limit - len(rows))
        if self._mistake and not rows and page.next is None:
            raise self._mistake  # a task that no code has any more may still have jobs
        document = {
            "jobs": rows,
            "searched": self._searched,
            "total": page.total,
            "next": page.next,
            "sampled": page.sampled,
            "undecided": self._undecided,
        }
        return Report(document, self._body(rows, page))

    def _page(self, after: str | None, limit: int) -> JobPage:
        step = max(1, min(_STEP, self._budget - self._searched))
        return self._lw.jobs(self._queue, limit=limit, after=after, newest=self._newest, budget=step, **self._wanted)

    def _empty(self) -> str:
        if any(value is not None for name, value in self._wanted.items() if name != "hide_arguments"):
            return "no job matches"
        return f"no job is in queue {printable(self._queue)}" if self._queue else "no job is on this server"

    def _body(self, jobs: list[JobRow], page: JobPage) -> list[RenderableType]:
        now = datetime.now(UTC)
        rows = [_row(job, now, single=self._queue is not None) for job in jobs]
        body: list[RenderableType] = [Listing(_COLUMNS, rows, empty=self._empty())]
        notes: list[str] = []
        if page.next is not None:
            notes += [
                f"searched {self._searched:,} of {page.total:,}; there may be more: "
                + ("see --limit and --after" if len(rows) >= self._limit else "raise --search")
            ]
        if page.sampled and self._wanted.get("state") in (None, "done", "succeeded"):
            notes += [f"{page.sampled:,} successful jobs are not in the history, only in the counters"]
        if self._undecided:
            more = several(self._undecided, "more job")
            notes += [f"{more} may match: history has only the beginning of a long record"]
        return [*body, *(Text(printable(note), style="dim") for note in notes)]


def _row(job: JobRow, now: datetime, *, single: bool) -> list[str | Text]:
    return [
        printable(job.id),
        "" if single and job.partition == job.queue else printable(job.partition),
        printable(job.task or "?"),
        HIDDEN if job.hidden else arguments(job.args, job.kwargs, encrypted=job.encrypted),
        shown_state(job.state, retrying=job.state == "scheduled" and job.error is not None),
        str(job.attempt) if job.attempt else "",
        _when(job, now),
        ran(job.started, job.ended or (now if job.state == "running" else None)),
        printable(f"{job.error.type}: {job.error.text}") if job.error else "",
        place(job.worker),
    ]


def shown_state(word: str, *, retrying: bool) -> Text:
    """Return a job's state; a job that waits for its next attempt after a failed attempt is `retrying`."""
    return state("retrying" if retrying else word)


def ran(started: datetime | None, ended: datetime | None) -> str:
    """Return how long an attempt ran; empty if it is unknown."""
    return "" if started is None or ended is None else duration((ended - started).total_seconds())


def place(worker: str | None) -> str:
    """Return the host and the process of a worker's session."""
    return printable("/".join((worker or "").split("/")[:2]))


def _when(job: JobRow, now: datetime) -> str:
    if job.state == "scheduled":
        return until(job.due, now)
    then = job.ended or (job.started if job.state == "running" else job.enqueued)
    return f"{ago(then, now)} ago" if then else ""
