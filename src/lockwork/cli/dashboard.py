"""`lockwork dashboard`."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lockwork.app.lockwork import Lockwork
from lockwork.cli.help import Command
from lockwork.cli.options import connected, discovers_tasks, names_the_app, warn_if_embedded
from lockwork.cli.project import Project
from lockwork.errors import ConfigError
from lockwork.version import install_command
from lockwork.worker.loading import load

if TYPE_CHECKING:
    import uvicorn
    from starlette.types import ASGIApp, Receive, Scope, Send

PORT = 8787


@click.command(cls=Command, examples={"lockwork dashboard --port 9000": "Serve the dashboard on another port."})
@names_the_app
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="Address to listen on. Other addresses than loopback need a login.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=PORT,
    show_default=True,
    help="Port to listen on; 0 selects a free port.",
)
@click.option(
    "--token",
    envvar="LOCKWORK_DASHBOARD_TOKEN",
    help="Login secret of 16 characters or more. Prefer the variable LOCKWORK_DASHBOARD_TOKEN or --token-file: other "
    "users of this machine can read the options of a command.",
)
@click.option(
    "--token-file",
    envvar="LOCKWORK_DASHBOARD_TOKEN_FILE",
    type=click.Path(path_type=Path),
    help="File with the login secret, read at the start.",
)
@click.option(
    "--users",
    type=click.Path(path_type=Path),
    help="File of users with the NAME:HASH lines that --add-user writes; read again when it changes.",
)
@click.option("--add-user", metavar="NAME", help="Ask for a password, write NAME to --users, and exit.")
@click.option("--view", is_flag=True, help="With --add-user: NAME may only read.")
@click.option("--allow-actions", is_flag=True, help="Let users change things. [default: the dashboard is read-only]")
@click.option(
    "--allowed-host", multiple=True, help="A host name that browsers may use for this machine; can be repeated."
)
@click.option(
    "--trust-proxy",
    multiple=True,
    metavar="ADDRESS",
    help="Address or network of a proxy whose X-Forwarded-For names the client; can be repeated.",
)
@click.option(
    "--root-path", default="", help="The URL prefix at which a proxy serves the dashboard, such as /lockwork."
)
@discovers_tasks
@click.argument("app", required=False, metavar="[MODULE[:OBJECT]]")
def dashboard(
    *,
    url: str | None,
    prefix: str,
    host: str,
    port: int,
    token: str | None,
    token_file: Path | None,
    users: Path | None,
    add_user: str | None,
    view: bool,
    allow_actions: bool,
    allowed_host: tuple[str, ...],
    trust_proxy: tuple[str, ...],
    root_path: str,
    discover: tuple[str, ...],
    app: str | None,
) -> None:
    """Serve the dashboard, a web page with live queues, jobs, workers, schedules and locks.

    It needs only the server's URL. To use the settings of your app instead, pass it, such as shop.tasks:lw.
    """
    try:
        from lockwork.dashboard import addresses  # noqa: PLC0415 - an extra
        from lockwork.dashboard import app as dashboard_app  # noqa: PLC0415 - an extra
        from lockwork.dashboard import users as accounts  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise ConfigError(f"the dashboard needs {error.name}: {install_command('dashboard')}") from None
    if add_user is not None:
        if users is None:
            raise click.UsageError("--add-user needs --users FILE")
        password = click.prompt(f"Password of {add_user}", hide_input=True, confirmation_prompt=True)
        accounts.add_user(users, add_user, password, view=view)
        click.echo(f"{add_user} is in {users}")
        return
    if token_file is not None:
        if token is not None:
            raise click.UsageError("pass --token or --token-file, not both")
        token = _secret_of(token_file)
    if not addresses.is_loopback(host) and token is None and users is None:
        raise ConfigError(
            f"{host} is an address that other machines can reach: set LOCKWORK_DASHBOARD_TOKEN, or pass "
            "--token-file FILE or --users FILE, "
            "or mount lockwork.dashboard.app(lw, authorize=...) in your app"
        )
    project = Project.current()
    if app is None and project is not None and url is None and prefix == project.prefix:
        app = project.app
    if app is None and discover:
        raise click.UsageError("--discover needs the app, such as shop.app:lw")
    lw = connected(url, prefix) if app is None else load(app, discover)
    warn_if_embedded(lw)
    asgi = dashboard_app(
        lw,
        token=token,
        users=users,
        allow_actions=allow_actions,
        allowed_hosts=allowed_host,
        trust_proxies=trust_proxy,
    )
    _serve(lw, asgi, host, port, root_path, allow_actions=allow_actions)


def _secret_of(file: Path) -> str:
    """Read a token from a file, without its line end. Raises ConfigError."""
    try:
        return file.read_text().strip()
    except (OSError, UnicodeError) as error:
        raise ConfigError(f"the file of the token {str(file)!r} cannot be read: {error}") from None


def _serve(lw: Lockwork, asgi: ASGIApp, host: str, port: int, root_path: str, *, allow_actions: bool) -> None:
    import uvicorn  # noqa: PLC0415 - an extra

    from lockwork.dashboard.connections import PROTOCOL  # noqa: PLC0415 - an extra

    root_path = "/" + root_path.strip("/") if root_path.strip("/") else ""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
    config = uvicorn.Config(
        _below(root_path, asgi),
        http=PROTOCOL,
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,  # a client could forge a local address
        timeout_graceful_shutdown=1,  # live pages never end on their own
        lifespan="off",
    )
    with _bound(host, port) as listener:
        url_host = f"[{host}]" if ":" in host else host
        actions = "actions are allowed" if allow_actions else "read-only: --allow-actions lets users change things"
        click.echo(f"dashboard at http://{url_host}:{listener.getsockname()[1]}{root_path}/ ({actions})")
        asyncio.run(_run(uvicorn.Server(config), listener, lw))


def _below(root_path: str, app: ASGIApp) -> ASGIApp:
    """Serve the app below a prefix, which a proxy passes on or strips."""

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            path = scope["path"]
            whole = path if f"{path}/".startswith(f"{root_path}/") else root_path + path
            scope = {**scope, "root_path": root_path, "path": whole}
        await app(scope, receive, send)

    return serve


async def _run(server: uvicorn.Server, listener: socket.socket, lw: Lockwork) -> None:
    async with lw:
        await server.serve([listener])


def _bound(host: str, port: int) -> socket.socket:
    """Open the port; raises ConfigError if another program uses it."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family)
    except OSError as error:
        other = "--port" if error.errno == errno.EADDRINUSE else "--host or --port"
        why = (error.strerror or str(error)).partition(" (while")[0]
        raise ConfigError(f"{host}:{port} cannot be used ({why}): choose another {other}") from None
