"""`lockwork workers`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TypedDict, TypeVar, Unpack

import click
from rich.console import RenderableType
from rich.text import Text

from lockwork.app.lockwork import Lockwork
from lockwork.cli.action_group import ActionGroup
from lockwork.cli.completion import worker_names
from lockwork.cli.names import unknown
from lockwork.cli.options import connected, names_the_app
from lockwork.cli.options import duration as seconds_of
from lockwork.cli.report import Output, Report, prints_json, reports
from lockwork.cli.table import Column, Listing, facts
from lockwork.cli.text import ago, duration, moment, printable, rough_age, size, state
from lockwork.errors import ConfigError
from lockwork.words import several
from lockwork.workers import Worker, WorkerHandle

COLUMNS = (
    Column("worker", whole=True),
    Column("state", whole=True),
    Column("app", least=80),
    Column("queues", cut=True),
    Column("busy", right=True),
    Column("memory", right=True, least=80),
    Column("lag", right=True, least=100),
    Column("age", right=True, least=50),
    Column("seen", right=True, least=120),
    Column("version", least=140),
)
_JOB_COLUMNS = (
    Column("job", whole=True),
    Column("task"),
    Column("queue"),
    Column("attempt", right=True),
    Column("since"),
    Column("waits for"),
)
_PAUSE = 0.25
"""Seconds between two looks for the successor of a worker."""
F = TypeVar("F", bound=Callable[..., object])


class _OrderOptions(TypedDict):
    """The options of an order to workers."""

    name: str | None
    everyone: bool
    yes: bool
    output: Output
    url: str | None
    prefix: str


workers: ActionGroup = ActionGroup(
    "workers", default="show", help="Show workers; quiet, resume, stop or restart a worker."
)


@workers.command(
    "show",
    examples={
        "lockwork workers": "All workers of the last hour.",
        "lockwork workers web1/4711/3f2a": "One worker with its running jobs.",
    },
)
@click.argument("name", required=False, shell_complete=worker_names)
@reports
@names_the_app
def _show(*, name: str | None, output: Output, url: str | None, prefix: str) -> None:
    """Show all workers, or one."""
    with connected(url, prefix) as lw:
        output.show(lambda: _report(_chosen(lw.workers(), name), whole=name is not None))


def _order(command: F) -> F:
    """Give an action the name of a worker, or --all."""
    command = click.option("--yes", is_flag=True, help="With --all: do not ask for confirmation.")(command)
    command = click.option("--all", "everyone", is_flag=True, help="All workers.")(command)
    return click.argument("name", required=False, shell_complete=worker_names)(prints_json(names_the_app(command)))


@workers.command(
    "quiet",
    examples={"lockwork workers quiet web1/4711/3f2a": "Stop fetching jobs on a worker; its running jobs continue."},
)
@_order
def _quiet(**options: Unpack[_OrderOptions]) -> None:
    """Fetch no more jobs; running jobs continue."""
    _send("quiet", WorkerHandle.quiet, "fetches no more jobs", **options)


@workers.command("resume", examples={"lockwork workers resume --all": "Let all quiet workers fetch jobs."})
@_order
def _resume(**options: Unpack[_OrderOptions]) -> None:
    """Fetch jobs again."""
    _send("resume", WorkerHandle.resume, "fetches jobs", **options)


@workers.command("stop", examples={"lockwork workers stop --all --yes": "Stop all workers, without asking."})
@_order
def _stop(**options: Unpack[_OrderOptions]) -> None:
    """Stop as SIGTERM does, when the running jobs have ended."""
    _send("stop", WorkerHandle.stop, "stops when its jobs have ended", **options)


@workers.command(
    "restart",
    examples={
        "lockwork workers restart --one-by-one": "All workers, each when the successor of the last one runs.",
        "lockwork workers restart web1/4711/3f2a": "One worker.",
    },
)
@click.argument("name", required=False, shell_complete=worker_names)
@click.option("--one-by-one", is_flag=True, help="All workers, one after the other.")
@click.option(
    "--timeout", default="2m", show_default=True, help="How long to wait for the end and the successor of each worker."
)
@click.option("--yes", is_flag=True, help="With --one-by-one: do not ask for confirmation.")
@prints_json
@names_the_app
def _restart(
    *, name: str | None, one_by_one: bool, timeout: str, yes: bool, output: Output, url: str | None, prefix: str
) -> None:
    """Stop workers, and wait until the process manager has started a successor of each.

    A successor is a new worker of the same app and the same queues, on any machine.
    """
    if one_by_one == (name is not None):
        raise click.UsageError(
            "pass the name of a worker, or --one-by-one; to stop all at once, use workers stop --all"
        )
    patience = seconds_of(timeout, "--timeout")
    with connected(url, prefix) as lw:
        chosen = [worker for worker in _chosen(lw.workers(), name) if worker.alive or name is not None]
        if not chosen:
            raise ConfigError("nothing to restart: no worker runs")
        if name is None and not yes:
            click.confirm(f"restart {several(len(chosen), 'worker')}, one by one?", err=True, abort=True)
        successors: dict[str, str] = {}
        for number, worker in enumerate(chosen, 1):
            left = len(chosen) - number
            after = f"; {several(left, 'worker')} not restarted" if left else ""
            successor = _replaced(lw, worker, set(successors.values()), patience, after)
            successors[worker.name] = successor
            if not output.as_json:
                click.echo(f"worker {printable(worker.name)} stopped, and {printable(successor)} runs")
        if output.as_json:
            output.show(lambda: Report({"order": "restart", "successors": successors}, []))


def _replaced(lw: Lockwork, worker: Worker, taken: set[str], patience: float, after: str) -> str:
    """Stop a worker, and return the name of its successor; raises ConfigError if there is none in time."""
    known = {each.name for each in lw.workers()} - taken
    if not lw.worker(worker.name).stop():
        raise ConfigError(f"worker {printable(worker.name)} is lost and takes no orders{after}")
    give_up = time.monotonic() + patience
    while True:
        found = [each for each in lw.workers() if each.alive]
        runs = any(each.name == worker.name for each in found)
        for each in found:
            new = each.name not in known and each.name not in taken and each.state == "running"
            if not runs and new and (each.app, set(each.queues)) == (worker.app, set(worker.queues)):
                return each.name
        if time.monotonic() >= give_up:
            break
        time.sleep(_PAUSE)
    limit = duration(patience)
    if runs:
        raise ConfigError(f"worker {printable(worker.name)} has not ended within {limit}: its jobs run{after}")
    raise ConfigError(
        f"worker {printable(worker.name)} has ended, and no process manager started a successor within {limit}: "
        f"start a worker, and see docs/worker.md{after}"
    )


def _send(order: str, send: Callable[[WorkerHandle], bool], effect: str, **options: Unpack[_OrderOptions]) -> None:
    """Send an order to one worker, or to all; `effect` describes the worker afterwards."""
    name, output = options["name"], options["output"]
    if options["everyone"] == (name is not None):
        raise click.UsageError("pass the name of a worker, or --all")
    with connected(options["url"], options["prefix"]) as lw:
        chosen = [worker for worker in _chosen(lw.workers(), name) if worker.alive or name is not None]
        if not chosen:
            raise ConfigError(f"nothing to {order}: no worker runs")
        if name is None and not options["yes"]:
            click.confirm(f"{order} {several(len(chosen), 'worker')}?", err=True, abort=True)
        for worker in chosen:
            if not send(lw.worker(worker.name)):
                raise ConfigError(f"worker {printable(worker.name)} is lost and takes no orders")
            if not output.as_json:
                click.echo(f"worker {printable(worker.name)} {effect}")
        if output.as_json:
            output.show(lambda: Report({"order": order, "workers": [worker.name for worker in chosen]}, []))


def _chosen(workers: list[Worker], name: str | None) -> list[Worker]:
    if name is None:
        return workers
    one = [worker for worker in workers if worker.name == name]
    if not one:
        raise unknown("worker", name, [worker.name for worker in workers])
    return one


def _report(workers: list[Worker], *, whole: bool) -> Report:
    body: list[RenderableType] = [] if whole else [listing(workers)]
    for worker in workers if whole else ():
        body += [facts(_facts(worker)), ""]
        jobs = worker.jobs
        rows = [
            (
                printable(job.id),
                printable(job.task),
                printable(job.queue),
                str(job.attempt),
                ago(job.since),
                ", ".join(printable(each.id) for each in job.waits_for),
            )
            for job in jobs
        ]
        body.append(Listing(_JOB_COLUMNS, rows, empty="no running jobs"))
    return Report({"workers": workers}, body)


def _facts(worker: Worker) -> Iterator[tuple[str, str | Text]]:
    yield "worker", printable(worker.name)
    yield "state", state(worker.state)
    yield "app", printable(worker.app)
    yield "queues", printable(", ".join(worker.queues))
    waiting = f", {worker.waiting} of them wait for results" if worker.waiting else ""
    yield "busy", f"{worker.busy} of {worker.slots}{waiting}"
    yield "processes", f"{worker.processes}, each runs {several(worker.concurrency, 'job')} at once"
    yield "isolating", "" if not worker.isolating else several(worker.isolating, "process", "processes")
    yield "memory", size(worker.memory)
    yield "lag", duration(worker.lag)
    yield "lease", duration(worker.lease)
    yield "started", f"{moment(worker.started)}, {ago(worker.started)} ago"
    yield "seen", f"{ago(worker.seen)} ago"
    if worker.app_version:
        yield "version", printable(worker.app_version)
    yield "lockwork", printable(worker.version)


def listing(workers: list[Worker], *, title: str = "") -> Listing:
    """A table of workers."""
    rows = [
        (
            printable(worker.name),
            state(worker.state),
            printable(worker.app),
            printable(", ".join(worker.queues)),
            f"{worker.busy}/{worker.slots}",
            size(worker.memory),
            duration(worker.lag),
            rough_age(worker.started),
            ago(worker.seen),
            printable(worker.app_version or worker.version),
        )
        for worker in workers
    ]
    return Listing(COLUMNS, rows, title=title, empty="no worker runs: start one with `lockwork worker MODULE:OBJECT`")
