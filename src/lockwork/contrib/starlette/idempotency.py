"""The header Idempotency-Key: a repeated request gets the first answer, and does not run again."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import inspect
import json
from collections.abc import Awaitable, Callable, Collection
from typing import Any

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lockwork.app.lockwork import Lockwork
from lockwork.durations import Duration, milliseconds
from lockwork.errors import ConfigError, OnceFailed, WaitTimeout

HEADER = "Idempotency-Key"
_LONGEST = 255
_NOT_CARRIED_OUT = frozenset({401, 403, 422, 429, 503})
"""Answers that are not kept: the client corrects the request, or waits, and sends it with the same key."""
Answer = dict[str, Any]
Caller = Callable[[Request], str | Awaitable[str | None] | None]


class IdempotencyKeys:
    """ASGI middleware that runs a request with the header Idempotency-Key once.

    `app.add_middleware(IdempotencyKeys, lw=lw, caller=user_of)`. A repeated request gets the first answer, with the
    header Idempotency-Replayed; 409 while the first one runs; 422 if its body or query differs from the first.

    Args:
        app: given by `add_middleware`.
        lw: the Lockwork object.
        caller: function of the request, `def` or `async def`, that returns who sends it, such as the id of the user.
            Each caller has keys of its own. A request whose caller is None runs without this middleware. It runs before
            the dependencies of FastAPI, so it must check the credentials itself.
        methods: the methods to which it applies. Default POST and PATCH.
        every: time that an answer is kept. Default one day.
        largest: maximum bytes of the body of a kept answer; a repeated request gets 409 after a longer one. Default
            1 MiB.
        again_if_lost: run the request again if the process of the first one died. Default False: answer 500.
    """

    def __init__(
        self,
        app: ASGIApp,
        lw: Lockwork,
        *,
        caller: Caller,
        methods: Collection[str] = ("POST", "PATCH"),
        every: Duration = "1d",
        largest: int = 1 << 20,
        again_if_lost: bool = False,
    ) -> None:
        if not callable(caller):
            raise ConfigError(f"caller must be a function of the request, not {caller!r:.60}")
        milliseconds(every, "every")
        if not 0 < largest * 3 // 2 < lw.config.max_result:
            raise ConfigError(f"largest must be below two thirds of max_result, {lw.config.max_result:,} bytes")
        self._app = app
        self._lw = lw
        self._caller = caller
        self._methods = frozenset(method.upper() for method in methods)
        self._every = every
        self._largest = largest
        self._again = again_if_lost

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        keys = Headers(scope=scope).getlist(HEADER) if scope["type"] == "http" else []
        if not keys or scope["method"] not in self._methods:
            await self._app(scope, receive, send)
            return
        key = _key(keys)
        if key is None:
            await _refuse(400, f"{HEADER} must be one value of 1 to {_LONGEST} visible characters")(
                scope, receive, send
            )
            return
        value = self._caller(Request(scope))
        caller = await value if inspect.isawaitable(value) else value
        if caller is None:
            await self._app(scope, receive, send)
            return
        body = await _body(receive)
        if body is None:
            return  # the client has closed the connection
        name = f"idempotency:{_digest(caller, scope['method'], scope['path'], key)}"
        first = FirstRequest(self._app, scope, body, receive, send, self._largest)
        once = self._lw.once(name, self._every, wait=0, again_if_lost=self._again)
        try:
            answer = await once.arun(first.run)
        except WaitTimeout:
            refusal = _refuse(409, f"A request with this {HEADER} is running.", {"Retry-After": "1"})
        except OnceFailed:
            refusal = _refuse(500, f"The first request with this {HEADER} was interrupted; its effect is unknown.")
        else:
            if first.started:
                if answer["status"] in _NOT_CARRIED_OUT:
                    await once.areset()
                await first.finish()
                return
            await _replay(answer, first.fingerprint, scope, receive, send)
            return
        finally:
            await first.stop()
        await refusal(scope, receive, send)


class FirstRequest:
    """Runs the app for one request; the answer is sent after the server has stored it."""

    def __init__(self, app: ASGIApp, scope: Scope, body: bytes, receive: Receive, send: Send, largest: int) -> None:
        self._app = app
        # with an extension, an app sends messages of other types, such as a file without its body
        extensions = {name: value for name, value in scope.get("extensions", {}).items() if not _replaces_body(name)}
        # a later client may not accept the encoding that the first one accepts
        headers = [(name, value) for name, value in scope["headers"] if name != b"accept-encoding"]
        self._scope = {**scope, "extensions": extensions, "headers": headers}
        self._body: bytes | None = body
        self._receive = receive
        self._send = send
        self._largest = largest
        self._held: list[Message] = []
        self._size = 0
        self._complete = asyncio.Event()
        self._stored = asyncio.Event()
        self._running: asyncio.Task[None] | None = None
        self.fingerprint: str = _digest(scope["query_string"].decode("latin-1"), body)

    @property
    def started(self) -> bool:
        """True if this request is the first one with its key."""
        return self._running is not None

    async def run(self) -> Answer:
        """Run the app until its answer is complete, or too long to keep."""
        self._running = asyncio.ensure_future(self._app(self._scope, self._next, self._hold))
        complete = asyncio.create_task(self._complete.wait())
        try:
            await asyncio.wait([self._running, complete], return_when=asyncio.FIRST_COMPLETED)
        finally:
            complete.cancel()
        answer: Answer = {"fingerprint": self.fingerprint, "status": 500, "headers": [], "body": None}
        if self._complete.is_set():
            start, *parts = self._held
            answer["status"] = start["status"]
            if self._size <= self._largest:
                answer["headers"] = [[_text(name), _text(value)] for name, value in start.get("headers", ())]
                content = b"".join(part.get("body", b"") for part in parts)
                answer["body"] = base64.b64encode(content).decode("ascii")
        return answer

    async def finish(self) -> None:
        """Send the answer, and wait for the end of the app, with its background tasks; raises the app's error."""
        assert self._running is not None
        for message in self._held:
            await self._send(message)
        self._held.clear()
        self._stored.set()
        await self._running

    async def stop(self) -> None:
        """Cancel the app if it still runs."""
        if self._running is not None and not self._running.done():
            self._running.cancel()
            await asyncio.wait([self._running])

    async def _next(self) -> Message:
        if self._body is None:
            await self._stored.wait()  # a client that disconnects does not interrupt the app
            return await self._receive()
        body, self._body = self._body, None
        return {"type": "http.request", "body": body, "more_body": False}

    async def _hold(self, message: Message) -> None:
        """Hold back a part of the response until it is stored; send later parts of a too long response at once."""
        if self._stored.is_set():
            await self._send(message)
            return
        self._held.append(message)
        if message["type"] != "http.response.body":
            return
        self._size += len(message.get("body", b""))
        if self._size > self._largest or not message.get("more_body", False):
            self._complete.set()
            await self._stored.wait()


def _replaces_body(extension: str) -> bool:
    return extension.startswith("http.response.")


def _key(values: list[str]) -> str | None:
    """Return the key of the header, with or without the quotes of a structured field."""
    if len(values) != 1:
        return None
    key = values[0].strip()
    if len(key) >= 2 and key[0] == key[-1] == '"':
        key = key[1:-1]
    return key if 0 < len(key) <= _LONGEST and all("!" <= each <= "~" for each in key) else None


async def _body(receive: Receive) -> bytes | None:
    parts: list[bytes] = []
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return None
        parts.append(message.get("body", b""))
        if not message.get("more_body", False):
            return b"".join(parts)


async def _replay(answer: Answer, fingerprint: str, scope: Scope, receive: Receive, send: Send) -> None:
    if answer["fingerprint"] != fingerprint:
        await _refuse(422, f"This {HEADER} was used with another request.")(scope, receive, send)
    elif answer["body"] is not None:
        headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in answer["headers"]]
        headers.append((b"idempotency-replayed", b"true"))
        await send({"type": "http.response.start", "status": answer["status"], "headers": headers})
        await send({"type": "http.response.body", "body": base64.b64decode(answer["body"])})
    elif not answer["headers"] and answer["status"] == 500:
        await _refuse(500, f"The first request with this {HEADER} failed.")(scope, receive, send)
    else:
        text = f"The request was carried out with status {answer['status']}; its answer was too long to keep."
        await _refuse(409, text)(scope, receive, send)


def _refuse(status: int, detail: str, headers: dict[str, str] | None = None) -> JSONResponse:
    content = {"title": HEADER, "status": status, "detail": detail}
    return JSONResponse(content, status, headers, media_type="application/problem+json")


def _digest(*parts: str | bytes) -> str:
    """Return the hash of texts; their lengths are part of it, so that no two lists have the same."""
    encoded = [part.encode("utf-8", "surrogateescape") if isinstance(part, str) else part for part in parts]
    lengths = json.dumps([len(part) for part in encoded]).encode()
    return hashlib.sha256(b"".join([lengths, *encoded])).hexdigest()


def _text(value: bytes) -> str:
    return value.decode("latin-1")
