"""`lockwork workers`."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import click
from rich.console import RenderableType
from rich.text import Text

from lockwork.cli.completion import words_of, worker_names
from lockwork.cli.help import Command
from lockwork.cli.names import action_hint, split_action, unknown
from lockwork.cli.options import connected, names_the_app
from lockwork.cli.report import Output, Report, reports
from lockwork.cli.table import Column, Listing, facts
from lockwork.cli.text import ago, brief, moment, printable, sized, state
from lockwork.errors import ConfigError
from lockwork.validation import several
from lockwork.workers import Worker, WorkerHandle

COLUMNS = (
    Column("worker", whole=True),
    Column("state", whole=True),
    Column("app", least=80),
    Column("queues", cut=True),
    Column("busy", right=True),
    Column("memory", right=True, least=80),
    Column("lag", right=True, least=100),
    Column("age", right=True),
    Column("seen", right=True, least=120),
    Column("version", least=140),
)
_JOB_COLUMNS = (
    Column("job", whole=True),
    Column("task"),
    Column("queue"),
    Column("attempt", right=True),
    Column("since"),
)
_ORDERS: dict[str, tuple[Callable[[WorkerHandle], bool], str]] = {
    "quiet": (WorkerHandle.quiet, "fetches no more jobs"),
    "resume": (WorkerHandle.resume, "fetches jobs"),
    "stop": (WorkerHandle.stop, "stops when its jobs have ended"),
}
"""What carries out each order, and what the worker does then."""


@click.command(
    cls=Command,
    examples={
        "lockwork workers": "All workers of the last hour.",
        "lockwork workers quiet web1/4711/3f2a": "Stop fetching jobs on a worker; its running jobs continue.",
        "lockwork workers stop --all --yes": "Stop all workers.",
    },
)
@click.option("--all", "everyone", is_flag=True, help="quiet, resume, stop: all workers.")
@click.option("--yes", is_flag=True, help="With --all: do not ask.")
@reports
@names_the_app
@click.argument(
    "words",
    nargs=-1,
    metavar="[quiet | resume | stop] [NAME]",
    shell_complete=words_of(_ORDERS, worker_names),
)
def workers(*, everyone: bool, yes: bool, output: Output, url: str | None, prefix: str, words: tuple[str, ...]) -> None:
    """Show workers and their jobs; quiet, resume or stop a worker."""
    order, names = split_action(words, _ORDERS)
    if len(names) > 1 or (everyone and (names or not order)) or (order and not names and not everyone):
        hint = action_hint(words, _ORDERS)
        raise click.UsageError(f"pass quiet, resume or stop, and the worker's name or --all{hint}")
    if order and output.watch is not None:
        raise click.UsageError("--watch cannot be used with an action")
    with connected(url, prefix) as lw:
        name = names[0] if names else None
        if not order:
            output.show(lambda: _report(_chosen(lw.workers(), name), whole=name is not None))
            return
        chosen = [worker for worker in _chosen(lw.workers(), name) if worker.alive or name is not None]
        if not chosen:
            raise ConfigError(f"nothing to {order}: no worker runs")
        if everyone and not yes:
            click.confirm(f"{order} {several(len(chosen), 'worker', 'workers')}?", err=True, abort=True)
        carry_out, said = _ORDERS[order]
        for worker in chosen:
            if not carry_out(lw.worker(worker.name)):
                raise ConfigError(f"worker {printable(worker.name)} is lost and takes no orders")
            if not output.as_json:
                click.echo(f"worker {printable(worker.name)} {said}")
        if output.as_json:
            output.show(lambda: Report({"order": order, "workers": [worker.name for worker in chosen]}, []))


def _chosen(found: list[Worker], name: str | None) -> list[Worker]:
    if name is None:
        return found
    one = [worker for worker in found if worker.name == name]
    if not one:
        raise unknown("worker", name, [worker.name for worker in found])
    return one


def _report(found: list[Worker], *, whole: bool) -> Report:
    body: list[RenderableType] = [] if whole else [listing(found)]
    for worker in found if whole else ():
        body += [facts(_facts(worker)), ""]
        jobs = worker.jobs
        rows = [
            (printable(job.id), printable(job.task), printable(job.queue), str(job.attempt), ago(job.since))
            for job in jobs
        ]
        body.append(Listing(_JOB_COLUMNS, rows, empty="no running jobs"))
    return Report({"workers": found}, body)


def _facts(worker: Worker) -> Iterator[tuple[str, str | Text]]:
    yield "worker", printable(worker.name)
    yield "state", state(worker.state)
    yield "app", printable(worker.app)
    yield "queues", printable(", ".join(worker.queues))
    yield "busy", f"{worker.busy} of {worker.slots}"
    yield "processes", f"{worker.processes}, each runs {several(worker.concurrency, 'job', 'jobs')} at once"
    yield "memory", sized(worker.memory)
    yield "lag", brief(worker.lag)
    yield "lease", brief(worker.lease)
    yield "started", f"{moment(worker.started)}, {ago(worker.started)} ago"
    yield "seen", f"{ago(worker.seen)} ago"
    if worker.app_version:
        yield "version", printable(worker.app_version)
    yield "lockwork", printable(worker.version)


def listing(found: list[Worker], *, title: str = "") -> Listing:
    """A table of workers."""
    rows = [
        (
            printable(worker.name),
            state(worker.state),
            printable(worker.app),
            printable(", ".join(worker.queues)),
            f"{worker.busy}/{worker.slots}",
            sized(worker.memory),
            brief(worker.lag),
            ago(worker.started),
            ago(worker.seen),
            printable(worker.app_version or worker.version),
        )
        for worker in found
    ]
    return Listing(COLUMNS, rows, title=title, empty="no worker runs: start one with `lockwork worker MODULE:OBJECT`")
