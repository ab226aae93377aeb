"""`lockwork metrics`."""

from __future__ import annotations

import signal
import threading

import click

from lockwork.cli.help import Command
from lockwork.cli.options import connected, names_the_app, warn_if_embedded
from lockwork.errors import ConfigError


@click.command(cls=Command, examples={"lockwork metrics --port 9464": "Serve the metrics of all workers and queues."})
@names_the_app
@click.option("--port", default=9465, show_default=True, type=click.IntRange(0, 65535), help="Port to listen on.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--print", "once", is_flag=True, help="Print the metrics once and exit.")
def metrics(url: str | None, prefix: str, port: int, host: str, *, once: bool) -> None:
    """Serve the metrics of all queues, tasks, locks and stocks to Prometheus, until SIGINT or SIGTERM.

    It reads them from the server at each scrape, so it does not need the apps. Example: lockwork metrics --port 9465
    """
    # only now: an extra
    from lockwork.telemetry.prometheus import LockworkCollector  # noqa: PLC0415

    from prometheus_client import CollectorRegistry, generate_latest, start_http_server  # noqa: PLC0415  # isort: skip

    registry = CollectorRegistry()
    with connected(url, prefix) as lw:
        lw.queues()  # an error now is better than none at every scrape
        warn_if_embedded(lw)
        registry.register(LockworkCollector(lw))
        if once:
            click.echo(generate_latest(registry).decode(), nl=False)
            return
        try:
            server, thread = start_http_server(port, host, registry)
        except OSError as error:
            raise ConfigError(
                f"{host}:{port} cannot be used ({error.strerror or error}): choose another --port"
            ) from None
        stop = threading.Event()
        signal.signal(signal.SIGTERM, lambda *_: stop.set())
        url_host = f"[{host}]" if ":" in host else host
        click.echo(f"metrics at http://{url_host}:{server.server_port}/metrics", err=True)
        try:
            stop.wait()
        finally:
            server.shutdown()
            thread.join()
            server.server_close()
