"""`lockwork worker`."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable
from logging import INFO, WARNING
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec
from click.core import ParameterSource

from lockwork.app.lockwork import Lockwork
from lockwork.cli.help import Command
from lockwork.cli.options import discovers_tasks, size, unit_or_seconds
from lockwork.cli.project import Project
from lockwork.cli.terminal import fill_standard_streams
from lockwork.durations import seconds
from lockwork.errors import ConfigError
from lockwork.logs import Log
from lockwork.protocol.keys import base_queue, checked_queue
from lockwork.runtime.connect import EMBEDDED
from lockwork.suggestions import closest
from lockwork.worker.environment import FORMATS, LEVELS, LOOPS, configured, overruled
from lockwork.worker.loading import find, named_by_environment
from lockwork.worker.settings import WorkerOptions
from lockwork.worker.supervisor.banner import log_start
from lockwork.worker.supervisor.reload import Reloader
from lockwork.worker.supervisor.session_cleanup import warn_of_leftovers
from lockwork.worker.supervisor.supervisor import Supervisor

if TYPE_CHECKING:
    from lockwork.worker.monitoring.health import Health

log: Log = Log("lockwork.worker")

_HEAVIEST = 1000
_NUMBER = re.compile(r"[-+]?\d+(?:\.\d*)?(?:e[-+]?\d+)?", re.IGNORECASE)
_WEIGHT = re.compile(r"\d{1,4}")


def read_queues(texts: Iterable[str]) -> dict[str, int | None]:
    """Read `a,b:5`, several times if need be; a name without a weight has None. Raises ConfigError."""
    weights: dict[str, int | None] = {}
    for text in ",".join(texts).split(",") if texts else ():
        # a queue's name may contain a colon: only a number after the last colon is a weight
        name, colon, weight = text.strip().rpartition(":")
        if not colon or not _NUMBER.fullmatch(weight):
            name, weight = text.strip(), ""
        if not name:
            raise ConfigError(f"--queues contains an empty name: {','.join(texts)!r}; write NAME or NAME:WEIGHT,...")
        if name in weights:
            raise ConfigError(f"--queues names {name!r} twice")
        if weight and not (_WEIGHT.fullmatch(weight) and 1 <= int(weight) <= _HEAVIEST):
            raise ConfigError(
                f"the weight of queue {name!r} must be a whole number from 1 to {_HEAVIEST}, not {weight:.80}"
            )
        weights[checked_queue(name)] = int(weight) if weight else None
    return weights


def queues_of(app: Lockwork, options: WorkerOptions, named: dict[str, int | None]) -> WorkerOptions:
    """Complete the options by the queues that were named, or by all of the app's; raises ConfigError."""
    app_queues, partitions = app.registry.queues(), app.config.partitions
    for name in partitions.counts:
        if name not in app_queues:
            hint = _meant(name, app_queues)
            log.warning("queue %r has partitions, but no task of %s belongs to it%s", name, options.app, hint)
    if not named:
        if not app_queues:
            raise ConfigError(
                f"{options.app} has no tasks: import the modules that define them in its module, or pass --queues"
            )
        return msgspec.structs.replace(
            options, queues=app_queues, weights=[1] * len(app_queues) if len(app_queues) > 1 else None
        )
    for name in named:
        whole = base_queue(name)
        if whole not in app_queues:
            hint = _meant(name, app_queues)
            # `options(queue=...)` may select any queue
            log.log(WARNING if hint else INFO, "no task of %s belongs to queue %r%s", options.app, name, hint)
        elif whole != name and whole in named and name in partitions.names(whole):
            raise ConfigError(f"--queues names {name!r} twice: it is a partition of {whole!r}")
        elif whole != name and name not in partitions.names(whole):
            log.info("this app enqueues nothing to %r; the worker only runs the jobs that are left there", name)
    weights = list(named.values())
    shares = None if weights.count(None) == len(weights) else [weight or 1 for weight in weights]
    return msgspec.structs.replace(options, queues=list(named), weights=shares)


def _meant(name: str, known: list[str]) -> str:
    close = closest(name, known)
    return f": did you mean {close!r}?" if close else ""


def _app(ctx: click.Context, param: click.Parameter, given: str | None) -> str:
    """Return the app that is given, else that of the project, else that of a framework's settings."""
    project = Project.current()
    app = given or (project.app if project is not None else named_by_environment())
    if not app:
        raise click.MissingParameter(ctx=ctx, param=param)
    return app


_MANY = click.IntRange(1, 1000)


@click.command(
    cls=Command,
    examples={
        "lockwork worker shop.tasks:lw": "All queues of an app, 100 jobs at once.",
        "lockwork worker shop.tasks:lw -q orders:3,mail --processes 4": "Two queues; orders gets three of four slots.",
        "lockwork worker shop --discover shop": "The object lw of shop; all modules named tasks below shop.",
        "lockwork worker shop.tasks:lw --reload": "For development.",
    },
)
@click.argument("app", metavar="MODULE[:OBJECT]", required=False, callback=_app)
@discovers_tasks
@click.option(
    "--queues",
    "--queue",
    "-q",
    "queues",
    multiple=True,
    metavar="NAME[:WEIGHT],...",
    help="Queues to serve, or partitions of them, such as mail/2. Without weights strictly in this order; with any,"
    " each gets its share (1 unless given)."
    " [default: all of the app's, in equal shares]",
)
@click.option("--processes", "-p", default=1, show_default=True, type=_MANY, help="Child processes.")
@click.option(
    "--concurrency", "-c", default=100, show_default=True, type=_MANY, help="How many jobs each process runs at once."
)
@click.option(
    "--runners",
    type=_MANY,
    help="Processes for tasks with executor='process', per worker process. [default: the number of processors]",
)
@click.option("--burst", is_flag=True, help="Exit when no queue has a job that could run now.")
@click.option("--once", is_flag=True, help="Run one job, and exit.")
@click.option("--no-wait", is_flag=True, help="Exit if the server does not answer when the worker starts.")
@click.option("--max-jobs", type=click.IntRange(1), metavar="N", help="Replace a process after about N jobs.")
@click.option("--max-memory", metavar="SIZE", help="Replace a process that uses more memory, such as 512MB.")
@click.option("--max-time", metavar="TIME", help="Replace a process that has worked this long, such as 1h.")
@click.option("--exit-after", metavar="TIME", help="Stop the worker after this time, as SIGTERM does.")
@click.option(
    "--exit-memory",
    metavar="SIZE",
    help="Stop the worker, as SIGTERM does, when all its processes together use more memory.",
)
@click.option(
    "--lease",
    default="15s",
    show_default=True,
    help="How long after a crash of this machine other workers take over its jobs.",
)
@click.option(
    "--grace",
    default="30s",
    show_default=True,
    envvar="LOCKWORK_GRACE",
    help="How long running jobs may continue after SIGTERM. [env: LOCKWORK_GRACE]",
)
@click.option("--loop", type=click.Choice(LOOPS), help="The event loop. [default: uvloop if it is installed]")
@click.option("--health-port", type=click.IntRange(1, 65535), help="Serve /livez, /readyz and /metrics on this port.")
@click.option("--health-host", default="127.0.0.1", show_default=True, help="Address of the health port.")
@click.option(
    "--log-level",
    type=click.Choice(LEVELS, case_sensitive=False),
    help="Level of the worker's own log. [default: the app's logging configuration, else info]",
)
@click.option(
    "--log-format",
    type=click.Choice(FORMATS),
    help="Log format if the app does not configure logging. [default: text]",
)
@click.option("--reload", is_flag=True, help="For development: restart when a source file changes.")
def worker(
    app: str,
    discover: tuple[str, ...],
    queues: tuple[str, ...],
    processes: int,
    concurrency: int,
    lease: str,
    grace: str,
    loop: str | None,
    health_port: int | None,
    health_host: str,
    max_jobs: int | None,
    max_memory: str | None,
    max_time: str | None,
    exit_after: str | None,
    exit_memory: str | None,
    runners: int | None,
    log_level: str | None,
    log_format: str | None,
    *,
    burst: bool,
    once: bool,
    no_wait: bool,
    reload: bool,
) -> None:
    """Run the jobs of MODULE:OBJECT, for instance shop.tasks:lw, until SIGTERM, Ctrl-C or a hang-up.

    Without :OBJECT, it is the object lw of the module, or the only Lockwork object there.

    A supervisor renews the leases of its child processes. If a child dies, it replaces the child and returns its jobs
    to the queue. After SIGTERM or Ctrl-C, running jobs may finish within --grace; a second signal ends them at once.
    SIGUSR1 only stops fetching.
    """
    fill_standard_streams()
    if reload:
        with configured(log_level, log_format):
            pass  # this process imports no app
        sys.exit(_reload(burst=burst, once=once))
    lease_seconds = seconds(unit_or_seconds(lease), "--lease")
    if lease_seconds < 1:
        raise ConfigError(f"--lease must be at least 1 s, so that heartbeats can renew it, not {lease}")
    if once and processes > 1:
        raise ConfigError("--once runs one job in one process: omit --processes")
    named = read_queues(queues)
    options = WorkerOptions(
        app,
        [],
        processes,
        1 if once else concurrency,
        lease_seconds,
        seconds(unit_or_seconds(grace), _named("grace"), zero=True),
        burst=burst,
        once=once,
        wait=not (no_wait or burst or once),
        max_jobs=max_jobs,
        max_memory=None if max_memory is None else size(max_memory, "--max-memory"),
        max_time=_period(max_time, "--max-time"),
        exit_after=_period(exit_after, "--exit-after"),
        exit_memory=None if exit_memory is None else size(exit_memory, "--exit-memory"),
        runners=runners,
        log_level=log_level,
        log_format=log_format,
        discover=list(discover),
    )
    health = None if health_port is None else _health(health_host, health_port)
    try:
        with configured(log_level, log_format):
            app, loaded_app = find(app, discover)
        options = msgspec.structs.replace(options, app=app)
        if overruled(log_format):
            log.warning("--log-format %s has no effect: %s configures logging itself", log_format, app)
        options = queues_of(loaded_app, options, named)
        loaded_app.registry.complete(options.queues)
        with loaded_app:
            status = _run(loaded_app, options, loop, health)
    finally:
        if health is not None:
            health.close()
    sys.exit(status)


def _period(text: str | None, option: str) -> float | None:
    return None if text is None else seconds(unit_or_seconds(text), option)


def _named(option: str) -> str:
    """Return where an option's value comes from, for errors."""
    source = click.get_current_context().get_parameter_source(option)
    return f"LOCKWORK_{option.upper()}" if source is ParameterSource.ENVIRONMENT else f"--{option}"


def _health(host: str, port: int) -> Health:
    from lockwork.worker.monitoring.health import Health  # noqa: PLC0415 - few workers need a web server

    return Health(host, port)


def _run(app: Lockwork, options: WorkerOptions, loop: str | None, health: Health | None) -> int:
    log_start(app, options)
    warn_of_leftovers(app, options.queues)
    supervisor = Supervisor(app, options, loop=loop)
    if health is not None:
        from lockwork.worker.monitoring.metrics import Metrics  # noqa: PLC0415 - as above

        names = [name for queue in options.queues for name in app.config.partitions.names(queue)]
        health.start(supervisor.status, Metrics(app, names, supervisor.status, options.lease))
    return supervisor.run()


def _reload(*, burst: bool, once: bool) -> int:
    if burst or once:
        raise ConfigError("--reload cannot be used with --burst or --once")
    project = Project.current()
    os.environ[EMBEDDED] = os.environ.get(EMBEDDED) or "on"  # for development: the worker need not warn about it
    restart = (sys.executable, "-m", "lockwork") if project is None else project.restart
    words = sys.argv[1:] if project is None else project.words
    return Reloader([*restart, *(word for word in words if word != "--reload")], Path.cwd()).run()
