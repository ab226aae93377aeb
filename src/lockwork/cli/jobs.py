"""`lockwork jobs`."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, TypeVar, cast, get_args

import click
from rich.console import RenderableType
from rich.text import Text

from lockwork.app.lockwork import Lockwork
from lockwork.cli.announced import Announced
from lockwork.cli.bulk import ACTIONS, Action, Bulk
from lockwork.cli.completion import queue_names, task_names, words_of
from lockwork.cli.help import Command
from lockwork.cli.names import action_hint, unknown
from lockwork.cli.options import duration, names_the_app, opened, partitions_option
from lockwork.cli.progress import progress
from lockwork.cli.report import Output, Report, reports
from lockwork.cli.table import Column, Listing
from lockwork.cli.text import HIDDEN, ago, arguments, brief, printable, state, until
from lockwork.errors import ConfigError
from lockwork.jobs.search import MOST, JobFilter, JobPage, JobRow, JobState

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
_LIMIT = 50
_SEARCHED = 1_000_000
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
        "lockwork jobs --running": "Running jobs, with their workers and start times.",
        "lockwork jobs mail --dead --error SMTPError --since 2h": "Jobs that died with an error in the last two hours.",
        "lockwork jobs --done --task send --arg user=42": "Ended jobs for user 42.",
        "lockwork jobs --ready --json --limit 1000": "For a program.",
        "lockwork jobs mail --dead --error SMTPError retry": "Retry these jobs, after a count and a question.",
        "lockwork jobs mail --task send cancel --yes": "Cancel all waiting and running jobs of a task, without asking.",
    },
)
@click.argument(
    "words", nargs=-1, metavar="[QUEUE] [cancel | retry | delete]", shell_complete=words_of(ACTIONS, queue_names)
)
@_state_option("running")
@_state_option("ready")
@_state_option("scheduled")
@_state_option("blocked")
@_state_option("dead")
@_state_option("succeeded")
@_state_option("cancelled")
@_state_option("expired")
@_state_option("done")
@click.option("--task", shell_complete=task_names, help="Only jobs of this task.")
@click.option("--tag", help="Only jobs with this tag.")
@click.option("--key", help="Only jobs with this key.")
@click.option("--group", help="Only jobs of this group.")
@click.option("--arg", help="Only jobs with this argument: 42 matches any, n=42 the argument named n.")
@click.option("--error", help="Only jobs whose error contains this text in its type or message.")
@click.option("--text", help="Only jobs that contain this text in id, call or error.")
@click.option("--since", help="Only jobs that ended (or else started, or were enqueued) within this time, such as 2h.")
@click.option(
    "--until", "until_", help="Only jobs that ended (or else started, or were enqueued) at least this long ago."
)
@click.option("--limit", type=click.IntRange(1), help="Maximum number of jobs. [default: 50 to show, else all]")
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
@click.option("--yes", is_flag=True, help="cancel, retry, delete: without asking.")
@partitions_option
@reports
@names_the_app
def jobs(
    *,
    words: tuple[str, ...],
    state: JobState | None,
    until_: str | None,
    limit: int | None,
    after: str | None,
    oldest: bool,
    budget: int,
    yes: bool,
    partitions: int | None,
    output: Output,
    url: str | None,
    prefix: str,
    **given: str | None,
) -> None:
    """Show the jobs of a queue, or of all queues: running, ready, scheduled, blocked and ended; change matching jobs.

    The newest come first; of the scheduled ones, the next due. Filters by state, by the time of ended jobs, and by the
    key and the group of ready jobs use an index. Job ids encode the task, the tags, the key, and the enqueue time of
    waiting jobs. Other filters read jobs one by one, and the list shows how many it has searched. `cancel`, `retry` and
    `delete` count all matching jobs and ask before they change them.
    """
    queue, action = _meant(words)
    if action and (after or oldest or output.watch is not None):
        raise click.UsageError("--after, --oldest and --watch cannot be used with an action")
    if yes and not action:
        raise click.UsageError("--yes is an option of cancel, retry and delete")
    if not action and limit is not None and limit > MOST:
        raise click.UsageError(f"a list has at most {MOST:,} jobs: continue with --after")
    matching: Any = {name: text for name, text in given.items() if text is not None}
    for name, text in (("since", given["since"]), ("until", until_)):
        if text is not None:
            matching[name] = duration(text, f"--{name}")
    wanted = cast("JobFilter", {**matching, "state": state})
    with opened(url, prefix, queue, partitions, looks=not action) as lw:
        mistake = _mistake(lw, given["task"])
        if action:
            Bulk(lw, queue, action, wanted, limit).run(output, yes=yes)
            return
        search = _Search(lw, queue, wanted, limit or _LIMIT, budget, newest=not oldest, mistake=mistake)
        output.show(lambda: search.report(after))


def _meant(words: tuple[str, ...]) -> tuple[str | None, Action | None]:
    """Read the queue, None for all, and the action, None to show them; either may come first."""
    actions: list[Action] = [action for word in words for action in ACTIONS if word == action]
    queues = [word for word in words if word not in ACTIONS]
    if len(actions) > 1 or len(queues) > 1:
        hint = next((f": did you mean --{word}?" for word in queues if word in get_args(JobState)), "")
        hint = hint or action_hint(queues, ACTIONS)
        raise click.UsageError(f"pass at most one queue, and cancel, retry, delete or no action{hint}")
    return (queues[0] if queues else None), (actions[0] if actions else None)


def _mistake(lw: Lockwork, task: str | None) -> ConfigError | None:
    """Return the error if apps have announced tasks, and none of them is this one."""
    names = set[str]() if task is None else {each.name for each in Announced.read(lw).tasks.values()}
    return unknown("task", task, names) if task is not None and names and task not in names else None


class _Search:
    """A search that goes on from page to page until it has enough jobs, or has searched enough."""

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
        self._searched = 0

    def report(self, after: str | None) -> Report:
        """Search, and return what was found."""
        self._searched = 0
        hidden = Announced.read(self._lw).hidden
        found: list[JobRow] = []
        page = self._page(after, self._limit)
        with progress("searching", min(page.total, self._budget), lambda: self._searched):
            while True:
                found += page.jobs
                self._searched += page.searched
                if page.next is None or len(found) >= self._limit or self._searched >= self._budget:
                    break
                page = self._page(page.next, self._limit - len(found))
        if self._mistake and not found and page.next is None:
            raise self._mistake  # a task that no code has any more may still have jobs
        document = {
            "jobs": [replace(job, args=None, kwargs=None) if job.task in hidden else job for job in found],
            "searched": self._searched,
            "total": page.total,
            "next": page.next,
            "sampled": page.sampled,
        }
        return Report(document, self._body(found, page, hidden))

    def _page(self, after: str | None, limit: int) -> JobPage:
        step = max(1, min(_STEP, self._budget - self._searched))
        return self._lw.jobs(self._queue, limit=limit, after=after, newest=self._newest, budget=step, **self._wanted)

    def _empty(self) -> str:
        if any(value is not None for value in self._wanted.values()):
            return "no job matches"
        return f"no job is in queue {printable(self._queue)}" if self._queue else "no job is on this server"

    def _body(self, found: list[JobRow], page: JobPage, hidden: Collection[str]) -> list[RenderableType]:
        now = datetime.now(UTC)
        rows = [_row(job, now, hidden, single=self._queue is not None) for job in found]
        body: list[RenderableType] = [Listing(_COLUMNS, rows, empty=self._empty())]
        notes: list[str] = []
        if page.next is not None:
            notes += [
                f"searched {self._searched:,} of {page.total:,}; there may be more: "
                + ("see --limit and --after" if len(found) >= self._limit else "raise --search")
            ]
        if page.sampled and self._wanted.get("state") in (None, "done", "succeeded"):
            notes += [f"{page.sampled:,} successful jobs are not in the history, only in the counters"]
        return [*body, *(Text(printable(note), style="dim") for note in notes)]


def _row(job: JobRow, now: datetime, hidden: Collection[str], *, single: bool) -> list[str | Text]:
    return [
        printable(job.id),
        "" if single and job.partition == job.queue else printable(job.partition),
        printable(job.task or "?"),
        HIDDEN if job.task in hidden else arguments(job.args, job.kwargs),
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
