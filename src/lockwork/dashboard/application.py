"""Assembles the dashboard: pages, login, assets and the guard before them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.routing import Route

from lockwork.app.lockwork import Lockwork
from lockwork.dashboard import assets
from lockwork.dashboard.access import Access, Authorize
from lockwork.dashboard.guard import Guard
from lockwork.dashboard.page import Dashboard
from lockwork.dashboard.pages import PAGES
from lockwork.dashboard.redaction import KnownTasks, Redact
from lockwork.dashboard.server import PageServer


def app(
    lw: Lockwork,
    *,
    allow_actions: bool = False,
    token: str | None = None,
    authorize: Authorize | None = None,
    users: Mapping[str, str] | str | Path | None = None,
    allowed_hosts: Sequence[str] = (),
    trust_proxies: Sequence[str] = (),
    redact: Redact | None = None,
    refresh: float = 2.0,
) -> Starlette:
    """Return the dashboard as an ASGI app, which mounts under any prefix: `fastapi_app.mount("/lockwork", app(lw))`.

    Without `token`, `users` and `authorize` it serves only this machine.

    Args:
        lw: the app whose server is shown; `Lockwork(url)` is enough.
        allow_actions: let users change things. Default False: read-only.
        token: a secret of at least 16 characters to log in with, also as `Authorization: Bearer`. Default none.
        authorize: called with the request, sync or async; returns a User, a name, True to allow it, or False to refuse
            it. Default none.
        users: the path of a file that `lockwork dashboard --add-user` writes, read again when it changes; or password
            hashes by name. Default none.
        allowed_hosts: host names of this server, besides its addresses and localhost. With `authorize` and no names,
            any host.
        trust_proxies: addresses or networks of proxies whose `X-Forwarded-For` names the client. The log has its
            address, and wrong tokens and passwords count by it. Default none: the address of the connection.
        redact: called as `redact(task, name, value)` for each value of a job before it is shown. Default none.
        refresh: seconds between two updates of an open page. Default 2.

    Raises ConfigError.
    """
    access = Access(token, users, authorize, allowed_hosts, trust_proxies)
    server = PageServer(Dashboard(lw, allow_actions, redact, refresh, KnownTasks(lw)), access, PAGES)
    routes = [
        Route("/-/assets/{name:path}", assets.serve),
        Route("/-/login", server.log_in, methods=["GET", "POST"]),
        Route("/-/logout", server.log_out, methods=["POST"]),
        Route("/metrics", server.metrics),
        *(Route(page.path, server.endpoint(page), methods=["GET", "POST"]) for page in PAGES),
        Route("/{rest:path}", server.not_found),
    ]
    return Starlette(routes=routes, middleware=[Middleware(Guard, access), Middleware(GZipMiddleware, 500, 6)])
