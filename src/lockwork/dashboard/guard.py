"""Checks and headers of every response: served hosts and clients, and browser security headers."""

from __future__ import annotations

import secrets

from starlette.datastructures import MutableHeaders
from starlette.requests import HTTPConnection
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lockwork.dashboard.access import Access

_LONGEST_QUERY = 60_000
_MOST_PARAMETERS = 1100


class Guard:
    """Refuses foreign hosts and clients, and adds the headers; the nonce in the scope is that of the policy."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        nonce = scope["lockwork_nonce"] = secrets.token_urlsafe(16)

        async def send_safely(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers["Content-Security-Policy"] = _policy(nonce)
                headers["Referrer-Policy"] = "same-origin"
                headers["X-Content-Type-Options"] = "nosniff"
                headers["X-Frame-Options"] = "DENY"
                headers["Cross-Origin-Opener-Policy"] = "same-origin"
                headers["Cross-Origin-Resource-Policy"] = "same-origin"
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        connection = HTTPConnection(scope)
        host = connection.headers.get("host", "")
        if not self._access.serves_host(host):
            refusal = PlainTextResponse(
                f"The dashboard does not serve the host {host[:200]!r}. "
                "Allow it with --allowed-host NAME or allowed_hosts=[NAME].\n",
                421,
            )
            await refusal(scope, receive, send_safely)
        elif not self._access.serves_client(connection):
            through = " A proxy forwards this request for another." if self._access.is_forwarded(connection) else ""
            refusal = PlainTextResponse(
                f"The dashboard serves only this machine until it has a token, users, or authorize.{through}\n", 403
            )
            await refusal(scope, receive, send_safely)
        elif scope["method"] in ("GET", "HEAD") and not _may_load(connection):
            refusal = PlainTextResponse("Other sites may link to the dashboard, and load nothing from it.\n", 403)
            await refusal(scope, receive, send_safely)
        elif len(query := scope["query_string"]) > _LONGEST_QUERY or query.count(b"&") > _MOST_PARAMETERS:
            await PlainTextResponse("The address is too long.\n", 414)(scope, receive, send_safely)
        else:
            await self._app(scope, receive, send_safely)


def _may_load(connection: HTTPConnection) -> bool:
    """Return False if the browser reports that a page of another site embeds the response; a link is allowed."""
    headers = connection.headers
    if headers.get("sec-fetch-site", "none") in ("same-origin", "none"):
        return True
    return headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest", "document") == "document"


def _policy(nonce: str) -> str:
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src 'nonce-{nonce}'",
            f"style-src 'nonce-{nonce}'",
            "img-src 'self'",
            "connect-src 'self'",
            "form-action 'self'",
            "base-uri 'none'",
            "frame-ancestors 'none'",
        )
    )
