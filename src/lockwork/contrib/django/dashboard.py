"""The dashboard below a path of the project's ASGI application, for staff."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from asgiref.sync import sync_to_async
from django.apps import apps
from django.conf import settings
from django.contrib.auth import get_user
from django.http import HttpRequest
from django.shortcuts import resolve_url
from django.urls import NoReverseMatch, reverse

from lockwork.contrib.django.app import project_app
from lockwork.contrib.django.call_contexts import as_request_on_loop
from lockwork.errors import ConfigError
from lockwork.version import install_command

if TYPE_CHECKING:
    from starlette.requests import Request

    from lockwork.dashboard.redaction import Redact

Application = Callable[..., Any]
_USER = "lockwork.contrib.django.user"
"""The key of the user's name in the scope of a request."""


def with_dashboard(
    application: Application,
    path: str = "/admin/lockwork",
    *,
    allow_actions: bool = False,
    redact: Redact | None = None,
) -> Application:
    """Return an ASGI application that serves the dashboard below `path`, and all else by `application`.

    Only users with `is_staff` see it; others come to the login of the admin. The admin links to it.

    Args:
        application: of `get_asgi_application()`.
        path: where the dashboard is. Default "/admin/lockwork".
        allow_actions: let staff change things. Default False: read-only.
        redact: called as `redact(task, name, value)` for each value of a job before it is shown. Default none.

    Raises ConfigError.
    """
    try:
        from lockwork.dashboard import app as dashboard_app  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise ConfigError(f"the dashboard needs {error.name}: {install_command('dashboard')}") from None
    path = f"/{path.strip('/')}"
    if path == "/":
        raise ConfigError("the dashboard needs a path of its own, such as /admin/lockwork")
    board = dashboard_app(project_app(), allow_actions=allow_actions, authorize=_user_of_scope, redact=redact)
    if apps.is_installed("django.contrib.admin"):
        from lockwork.contrib.django.admin_link import link_dashboard  # noqa: PLC0415 - the admin may be missing

        link_dashboard(f"{path}/")

    async def serve(scope: dict[str, Any], receive: Any, send: Any) -> None:
        root = scope.get("root_path", "")
        rest = scope["path"].removeprefix(root) if scope["type"] == "http" else ""
        if not f"{rest}/".startswith(f"{path}/"):
            await application(scope, receive, send)
            return
        async with as_request_on_loop():
            name, is_staff = await sync_to_async(_visitor)(_cookie(scope))
        if is_staff:
            await board({**scope, "root_path": root + path, "path": root + rest, _USER: name}, receive, send)
        elif name or scope["method"] not in ("GET", "HEAD"):
            await _answer(send, 403, b"The dashboard is for staff.\n")
        else:
            await _answer(send, 302, b"", location=f"{_login()}?next={quote(scope['path'])}")

    return serve


def _user_of_scope(request: Request) -> str | None:
    name: str | None = request.scope.get(_USER)
    return name


def _cookie(scope: dict[str, Any]) -> str | None:
    """Return the key of the session."""
    from starlette.requests import HTTPConnection  # noqa: PLC0415 - an extra

    return HTTPConnection(scope).cookies.get(settings.SESSION_COOKIE_NAME)


def _visitor(session_key: str | None) -> tuple[str, bool]:
    """Return the name of the session's user, and True for staff; an empty name without a login."""
    request: Any = HttpRequest()
    request.session = import_module(settings.SESSION_ENGINE).SessionStore(session_key)
    # after a change of SECRET_KEY, `get_user` would give the session a new key, which no response carries
    request.session.cycle_key = lambda: None
    user: Any = get_user(request)
    if not (user.is_authenticated and user.is_active):
        return "", False
    return str(user.get_username()), bool(user.is_staff)


def _login() -> str:
    try:
        return reverse("admin:login")
    except NoReverseMatch:
        return resolve_url(settings.LOGIN_URL)


async def _answer(send: Any, status: int, body: bytes, location: str = "") -> None:
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"cache-control", b"no-store")]
    if location:
        headers.append((b"location", location.encode("ascii")))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
