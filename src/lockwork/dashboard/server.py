"""Serves pages: reads, renders and streams them, and performs their actions."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from hashlib import blake2b
from typing import Any
from urllib.parse import parse_qsl

from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response

from lockwork.dashboard.access import (
    SESSION,
    Access,
    User,
    csrf_matches,
    csrf_token,
    same_origin,
    seal,
    unseal,
    why_foreign,
)
from lockwork.dashboard.addresses import FAILURE_SECONDS
from lockwork.dashboard.formats import refusal, visible
from lockwork.dashboard.page import Dashboard, NotFound, Page, View
from lockwork.dashboard.rendering import render
from lockwork.dashboard.streams import Streams
from lockwork.dashboard.time_range import RANGES
from lockwork.errors import ConfigError, LockworkError
from lockwork.logs import Log
from lockwork.telemetry.cluster import ClusterFamilies
from lockwork.telemetry.families import exposition

log: Log = Log("lockwork.dashboard")

_FLASH = "lockwork_said"
_THEME = "lockwork_theme"
_LONGEST = {"after": 2000, "pick": 1000}
"""Maximum characters of a parameter, which the links of a page repeat; the default is 500."""
_LONGEST_FORM = 256 * 1024
_FORM_SECONDS = 10.0
"""Time limit in seconds for a client to send a form."""
_PATIENCE = 5.0
"""Seconds that a page may read before it reports that the server does not answer."""
_WRONG_SECONDS = 0.5
"""Delay in seconds of the answer to a wrong token or password."""
_HEARTBEAT = 15.0
"""Seconds between comments that an unchanged stream sends."""


class PageServer:
    """The endpoints of all pages, and of the login."""

    def __init__(self, dashboard: Dashboard, access: Access, pages: Sequence[Page]) -> None:
        self._dashboard = dashboard
        self._access = access
        self._pages = pages
        self._families = ClusterFamilies(dashboard.lw.runtime, dashboard.lw.config.prefix)
        self._streams = Streams()

    def endpoint(self, page: Page) -> Callable[[Request], Awaitable[Response]]:
        """Return the endpoint of a page."""

        async def answer(request: Request) -> Response:
            user = await self._access.user(request)
            if user is None:
                if request.method == "POST":
                    log.info(
                        "action at %r from %s: refused, nobody is logged in", request.url.path, self._client(request)
                    )
                return self._refused(request)
            session = request.cookies.get(SESSION, "")
            # without a login, the cookie is only a secret that forms must repeat
            fresh = "" if session else secrets.token_urlsafe(24)
            view = View(request, self._dashboard, user, csrf_token(session or fresh))
            if long := [name for name, each in request.query_params.items() if len(each) > _LONGEST.get(name, 500)]:
                text = f"The parameter {long[0][:80]!r} is longer than {_LONGEST.get(long[0], 500):,} characters."
                return self._problem(
                    View(_bare(request), self._dashboard, user, ""), 400, "This address is wrong", text
                )
            if request.method == "POST":
                return await self._act(page, view, session)
            if "text/event-stream" in request.headers.get("accept", ""):
                return self._stream(page, view, session)
            flash = unseal(session, request.cookies.get(_FLASH, ""))
            response = await self._page(page, view, json.loads(flash) if flash else None)
            # the subject was deleted; show the list with that message
            if flash and response.status_code == 404 and page.within:
                return RedirectResponse(view.url(f"/{page.within}"), 303)
            if fresh:
                _set_cookie(response, request, SESSION, fresh)
            if flash:
                response.delete_cookie(_FLASH, path=_cookie_path(request))
            return response

        return answer

    async def not_found(self, request: Request) -> Response:
        """Answer a path without a page."""
        user = await self._access.user(request)
        if user is None:
            return self._refused(request)
        view = View(request, self._dashboard, user, "")
        return self._problem(view, 404, "Nothing is here", "No page has this address.")

    async def metrics(self, request: Request) -> Response:
        """Answer Prometheus with the output of `lockwork metrics`, for users who may read the dashboard."""
        if await self._access.user(request) is None:
            return self._refused(request)
        families = await asyncio.to_thread(self._families.read)
        return PlainTextResponse(exposition(families), media_type="text/plain; version=0.0.4")

    async def log_in(self, request: Request) -> Response:
        """Show the login page, or check its input."""
        view = View(request, self._dashboard, User(""), "")
        if not self._access.has_login:
            return RedirectResponse(view.url("/"), 303)
        wrong = False
        if request.method == "POST":
            form = await _form(request)
            if isinstance(form, int) or not same_origin(request):
                return PlainTextResponse(f"{why_foreign(request)}\n", 403)
            name, client = form.get("name", ""), self._client(request)
            if name and self._access.has_to_wait(request, name):
                return _too_often(name)
            cookie = await self._access.log_in(request, name, form.get("secret", ""))
            if cookie is not None:
                log.info("login of %r from %s", name or "token", client)
                response: Response = RedirectResponse(_next(view, form.get("next", "")), 303)
                _set_cookie(response, request, SESSION, cookie)
                return response
            log.warning("failed login of %r from %s", name[:200] or "token", client)
            if not name and self._access.has_to_wait(request):
                return _too_often()
            await asyncio.sleep(_WRONG_SECONDS)
            wrong = True
        page = self._render(
            view, "login.html", wrong=wrong, by_password=self._access.by_password, next=view.param("next")
        )
        return HTMLResponse(page, 401 if wrong else 200)

    async def log_out(self, request: Request) -> Response:
        """End the session."""
        if not same_origin(request):
            return PlainTextResponse(f"{why_foreign(request)}\n", 403)
        view = View(request, self._dashboard, User(""), "")
        response = RedirectResponse(view.url("/-/login"), 303)
        response.delete_cookie(SESSION, path=_cookie_path(request))
        self._access.log_out(request.cookies.get(SESSION, ""))
        return response

    def _refused(self, request: Request) -> Response:
        wants_page = request.method == "GET" and "text/html" in request.headers.get("accept", "")
        if not self._access.has_login:
            return PlainTextResponse("You may not see this dashboard.\n", 403)
        if "authorization" in request.headers and self._access.has_to_wait(request):
            return _too_often()
        if not wants_page:
            return PlainTextResponse("Log in first.\n", 401, {"WWW-Authenticate": "Bearer"})
        view = View(request, self._dashboard, User(""), "")
        return RedirectResponse(view.url("/-/login", next=view.here()), 303)

    async def _page(self, page: Page, view: View, said: Mapping[str, Any] | None) -> Response:
        try:
            context = await self._read(page, view)
        except NotFound as error:
            return self._problem(view, 404, "Not found", str(error), page)
        except ConfigError as error:
            return self._problem(view, 400, "This address is wrong", str(error), page)
        except (LockworkError, TimeoutError) as error:
            text = str(error) or f"The server did not answer within {_PATIENCE:g} s."
            return self._problem(view, 503, "The server gave an unexpected answer", text, page)
        layout = "fragment.html" if view.request.headers.get("hx-request") else "frame.html"
        html = self._render(view, page.template, page=page, layout=layout, said=said, **context)
        return HTMLResponse(html, headers={"Vary": "Accept, HX-Request, Cookie"})

    async def _read(self, page: Page, view: View) -> dict[str, Any]:
        async with asyncio.timeout(_PATIENCE):
            await self._dashboard.known.refresh()
            return await page.read(view)

    def _stream(self, page: Page, view: View, session: str) -> Response:
        if not page.live:
            return PlainTextResponse("This page is not live.\n", 404)
        browser = session or f"{view.user.name} {self._client(view.request)}"
        return self._streams.response(browser, self._events(page, view))

    async def _events(self, page: Page, view: View) -> AsyncIterator[str]:
        """Send the page when it has changed; occasional comments show that the stream is alive.

        The stream ends when the reader's permissions end or change.
        """
        yield f"retry: {round(self._dashboard.refresh * 1000)}\n\n"
        last, quiet = b"", 0.0
        while await self._access.user(view.request) == view.user:
            event, text = "page", ""
            try:
                context = await self._read(page, view)
                text = self._render(view, page.template, page=page, layout="fragment.html", said=None, **context)
            except NotFound as error:
                event, text = "gone", visible(str(error))
            except (LockworkError, TimeoutError) as error:
                event, text = "trouble", visible(str(error)) or "the server does not answer"
            digest = blake2b(f"{event}{text}".encode()).digest()
            if digest != last or quiet >= _HEARTBEAT:
                changed = digest != last
                last, quiet = digest, 0.0
                yield f"event: {event}\ndata: {json.dumps(text)}\n\n" if changed else ": unchanged\n\n"
            quiet += self._dashboard.refresh
            await asyncio.sleep(self._dashboard.refresh)
        yield f"event: gone\ndata: {json.dumps('Your login has ended or changed: reload the page.')}\n\n"

    async def _act(self, page: Page, view: View, session: str) -> Response:
        request = view.request
        form = await _form(request)
        if isinstance(form, int):
            why = {413: "The form is too long.", 408: "The form did not come in time."}.get(form, "That is not a form.")
            self._audit(page, view, {}, "refused", why)
            return PlainTextResponse(f"{why}\n", form)
        name = form.get("action", "")
        act = page.actions.get(name)
        refused = self._why_refused(view, form, session)
        if refused is not None or act is None:
            status, why = refused or (400, "This page has no such action.")
            self._audit(page, view, form, "refused", why)
            return PlainTextResponse(f"{why}\n", status)
        try:
            text, good = await act(view, form), True
        except (LockworkError, NotFound, TimeoutError) as error:
            text, good = refusal(error) or "The server does not answer.", False
        except Exception as error:
            self._audit(page, view, form, "failed", f"{type(error).__name__}: {error}")
            raise
        self._audit(page, view, form, "done" if good else "failed", text)
        response = RedirectResponse(_next(view, form.get("next", "")), 303)
        sealed = seal(session, json.dumps({"text": text[:1000], "good": good}))
        _set_cookie(response, request, _FLASH, sealed, seconds=60)
        return response

    def _audit(self, page: Page, view: View, form: Mapping[str, str], how: str, text: str) -> None:
        """Log an action: the user, address, action, subject, and result."""
        fields = {key: each[:200] for key, each in form.items() if key not in ("csrf", "action", "next")}
        query = {key: each[:200] for key, each in view.request.query_params.items()}
        log.info(
            "action %s.%s at %r by %r from %s with %r: %s, %r",
            page.name, form.get("action", "")[:80], view.path, view.user.name, self._client(view.request),
            query | fields, how, text,
        )  # fmt: skip

    def _client(self, request: Request) -> str:
        return self._access.client(request)

    def _why_refused(self, view: View, form: Mapping[str, str], session: str) -> tuple[int, str] | None:
        by_token = "authorization" in view.request.headers and not session
        if not same_origin(view.request) or not (by_token or csrf_matches(session, form.get("csrf", ""))):
            return 403, why_foreign(view.request)
        return None if view.may_act else (403, view.why_not)

    def _problem(self, view: View, status: int, title: str, text: str, page: Page | None = None) -> Response:
        if page is not None and status < 500:  # such a page needs no live updates
            page = replace(page, live=False, ranged=False, charts=False)
        html = self._render(
            view, "problem.html", page=page, layout="frame.html", said=None, title=title, text=text, status=status
        )
        return HTMLResponse(html, status)

    def _render(self, view: View, template: str, **found: Any) -> str:
        theme = view.request.cookies.get(_THEME, "")
        return render(
            template,
            view=view,
            pages=self._pages,
            ranges=RANGES,
            nonce=view.request.scope["lockwork_nonce"],
            theme=theme if theme in ("light", "dark") else "",
            has_login=self._access.has_login,
            **found,
        )


def _bare(request: Request) -> Request:
    """Return the request without its query, which its page would repeat."""
    return Request({**request.scope, "query_string": b""})


def _too_often(name: str = "") -> Response:
    what = f"passwords of {name[:80]!r}" if name else "tokens"
    text = f"Too many wrong {what} came from this address: wait a minute.\n"
    return PlainTextResponse(text, 429, {"Retry-After": f"{FAILURE_SECONDS:.0f}"})


async def _form(request: Request) -> dict[str, str] | int:
    """Read an urlencoded form; several values of one name are joined by newlines. Returns an HTTP status on failure."""
    body = bytearray()
    try:
        async with asyncio.timeout(_FORM_SECONDS):
            async for part in request.stream():
                body += part
                if len(body) > _LONGEST_FORM:
                    return 413
    except TimeoutError:
        return 408
    try:
        pairs = parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=5000)
    except ValueError:
        return 400
    form: dict[str, str] = {}
    for name, value in pairs:
        form[name] = f"{form[name]}\n{value}" if name in form else value
    return form


def _next(view: View, asked: str) -> str:
    """Return the redirect target after a form: always a page of this dashboard."""
    root = view.url("/-/")[: -len("-/")]
    if asked.startswith(root) and not asked.startswith("//") and "\\" not in asked and asked.isprintable():
        return asked
    return view.here()


def _cookie_path(request: Request) -> str:
    return str(request.scope.get("root_path", "")) or "/"


def _set_cookie(response: Response, request: Request, name: str, value: str, *, seconds: int = 12 * 3600) -> None:
    origin = request.headers.get("origin", "")
    response.set_cookie(
        name,
        value,
        max_age=seconds,
        path=_cookie_path(request),
        # a forged header harms only the client's own cookie
        secure="https" in (request.url.scheme, request.headers.get("x-forwarded-proto", ""), origin.partition(":")[0]),
        httponly=True,
        samesite="lax",  # with "strict", a link in a chat would lead to the login; a GET changes nothing
    )
