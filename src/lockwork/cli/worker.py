"""`lockwork worker`."""

from __future__ import annotations

import sys

import click

from lockwork.durations import seconds
from lockwork.errors import ConfigError
from lockwork.protocol.keys import checked_queue
from lockwork.worker.health import Health
from lockwork.worker.load import load
from lockwork.worker.logs import configure
from lockwork.worker.options import WorkerOptions
from lockwork.worker.supervisor import Supervisor


@click.command()
@click.argument("app", metavar="MODULE:OBJECT")
@click.option(
    "--queue",
    "-q",
    "queues",
    multiple=True,
    help="Queue to work on; repeat it for more. [default: all of the app's]",
)
@click.option("--processes", "-p", default=1, show_default=True, type=click.IntRange(1, 1000), help="Child processes.")
@click.option(
    "--concurrency",
    "-c",
    default=100,
    show_default=True,
    type=click.IntRange(1, 1000),
    help="Jobs at once, per process.",
)
@click.option(
    "--lease",
    default="15s",
    show_default=True,
    help="How long after this machine died its jobs run elsewhere.",
)
@click.option("--grace", default="30s", show_default=True, help="How long running jobs may go on after SIGTERM.")
@click.option("--health-port", type=click.IntRange(1, 65535), help="Serve /livez and /readyz on this port.")
@click.option("--health-host", default="127.0.0.1", show_default=True, help="Address of the health port.")
def worker(
    app: str,
    queues: tuple[str, ...],
    processes: int,
    concurrency: int,
    lease: str,
    grace: str,
    health_port: int | None,
    health_host: str,
) -> None:
    """Run the jobs of MODULE:OBJECT, for instance shop.tasks:lw, until SIGTERM or Ctrl-C.

    A supervisor keeps the leases of its child processes alive, replaces a child that dies, and gives its jobs back.
    """
    configure()
    kept = seconds(_duration(lease), "--lease")
    if kept < 1:
        raise ConfigError(f"--lease must be at least 1 s, so that heartbeats can keep it, not {lease}")
    health = None if health_port is None else Health(health_host, health_port)
    try:
        found = load(app)
        names = [checked_queue(name) for name in queues] or found.registry.queues()
        if not names:
            raise ConfigError(f"{app} has no tasks: import the modules that define them in its module, or give --queue")
        options = WorkerOptions(
            app, names, processes, concurrency, kept, seconds(_duration(grace), "--grace", zero=True)
        )
        with found:
            supervisor = Supervisor(found, options)
            if health is not None:
                health.start(supervisor)
            status = supervisor.run()
    finally:
        if health is not None:
            health.close()
    sys.exit(status)


def _duration(text: str) -> float | str:
    """A bare number on the command line is seconds."""
    try:
        return float(text)
    except ValueError:
        return text
