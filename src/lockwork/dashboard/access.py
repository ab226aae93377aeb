"""Access control: token, users, the host app's own function, or this machine alone."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import inspect
import re
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct
from starlette.requests import HTTPConnection, Request

from lockwork.dashboard.addresses import Failures, Proxies, counted_address, is_address, is_loopback
from lockwork.dashboard.users import NOBODY, SCRYPT, Users, password_matches
from lockwork.errors import ConfigError

SHORTEST_TOKEN = 16
SESSION = "lockwork_session"
_LASTS = 12 * 3600


class User(Struct, frozen=True):
    """A person who may read; with `actions`, the person may also act, if the dashboard allows actions."""

    name: str
    actions: bool = True


Verdict = User | str | bool | None
"""Result of `authorize`: a user, a user's name, or True to allow the request; False, None or "" to refuse it."""
Authorize = Callable[[Request], Verdict | Awaitable[Verdict]]


class Access:
    """Authorizes each request, and creates the cookies of sessions.

    A cookie is the user's name, its end, and a signature. The key of the signature is derived from the token or from
    the user's password hash, so a change of either ends all of its sessions. This process remembers the sessions that
    were logged out.
    """

    def __init__(
        self,
        token: str | None,
        users: Mapping[str, str] | str | Path | None,
        authorize: Authorize | None,
        allowed_hosts: Sequence[str],
        trust_proxies: Sequence[str] = (),
    ) -> None:
        if token is not None and len(token.strip()) < SHORTEST_TOKEN:
            raise ConfigError(f"the token must have at least {SHORTEST_TOKEN} characters, so that it cannot be guessed")
        if isinstance(allowed_hosts, str):
            raise ConfigError(f"allowed_hosts is a list of host names, such as [{allowed_hosts!r}]")
        self._token = None if token is None else token.strip()
        self._token_key = "" if self._token is None else _stretched(self._token)
        self._users = Users(users)
        self._authorize = authorize
        if wrong := [host for host in allowed_hosts if _host_name(host) != host.lower().rstrip(".") or not host]:
            raise ConfigError(f"allowed_hosts has names alone, such as 'board.example', not {wrong[0]!r}")
        self._hosts = {host.lower().rstrip(".") for host in allowed_hosts}
        self._hashing = asyncio.Semaphore(2)
        self._logged_out: dict[str, int] = {}
        self._proxies = Proxies(trust_proxies)
        self._failures = Failures()

    @property
    def by_password(self) -> bool:
        """True if people log in with a name and a password."""
        return bool(self._users)

    @property
    def has_login(self) -> bool:
        """True if there is a login page."""
        return self._token is not None or self.by_password

    @property
    def is_open(self) -> bool:
        """True if no login is required; then only this machine is served."""
        return not self.has_login and self._authorize is None

    def serves_host(self, host: str) -> bool:
        """Return True for a Host header that names this server: an address, this machine, or an allowed host.

        A web page can resolve its own name to this address; it cannot do so with an address or "localhost".
        """
        name = _host_name(host)
        if name in self._hosts or name == "localhost" or name.endswith(".localhost") or is_address(name):
            return True
        # the host app has its own names and session, and a browser sends its cookies to no other name
        return self._authorize is not None and not self._hosts

    def serves_client(self, connection: HTTPConnection) -> bool:
        """Return True unless no login is required and the client is on another machine."""
        if not self.is_open:
            return True
        if self.is_forwarded(connection):
            return False
        if connection.client is None:  # a Unix socket has no client address
            return True
        host = self._proxies.client(connection)
        return host == "testclient" or (is_address(host) and is_loopback(host))

    def is_forwarded(self, connection: HTTPConnection) -> bool:
        """Return True if a proxy reports that it forwards a request of another machine."""
        headers = connection.headers
        if self._proxies.trusts_peer(connection) and "x-forwarded-for" in headers:
            return not is_loopback(self._proxies.client(connection))
        clients = f"{headers.get('x-forwarded-for', '')},{headers.get('x-real-ip', '')}".split(",")
        return "forwarded" in headers or not all(is_loopback(each.strip()) for each in clients if each.strip())

    def client(self, connection: HTTPConnection) -> str:
        """Return the address of the client, from a trusted proxy if there is one; "-" without an address."""
        return self._proxies.client(connection) or "-"

    def has_to_wait(self, request: Request, name: str = "") -> bool:
        """Return True after too many wrong tokens from this address, or wrong passwords of this user from there."""
        return self._failures.are_many(*self._who(request, name))

    def _who(self, request: Request, name: str = "") -> tuple[str, ...]:
        address = counted_address(self._proxies.client(request))
        return (address, name) if name else (address,)

    async def user(self, request: Request) -> User | None:
        """Return the user of a request; None without permission to read."""
        if self._authorize is not None:
            verdict = self._authorize(request)
            if inspect.isawaitable(verdict):
                verdict = await verdict
            if isinstance(verdict, User):
                return verdict
            return User(verdict if isinstance(verdict, str) else "authorized") if verdict else None
        if self.is_open:
            return User("local")
        scheme, _, credentials = request.headers.get("authorization", "").partition(" ")
        if self._token is not None and scheme.lower() == "bearer":
            if _same(credentials.strip(), self._token):
                return User("token")
            self._failures.add(*self._who(request))
        return self._of_cookie(request.cookies.get(SESSION, ""))

    async def log_in(self, request: Request, name: str, secret: str) -> str | None:
        """Return the cookie for a token, or for a user's password; None if it is wrong.

        A right token always passes: it cannot be guessed, and comparing is cheap. A password counts as wrong until it
        has been compared, so that concurrent attempts count; first call `has_to_wait` for its user.
        """
        if self._token is not None and not name:
            if _same(secret.strip(), self._token):
                return self._cookie(name, self._token_key)
            self._failures.add(*self._who(request))
            return None
        who = self._who(request, name)
        self._failures.add(*who)
        users = self._users.current()
        stored = users.get(name, NOBODY)
        async with self._hashing:  # each hash takes 16 MiB and 50 ms
            right = await asyncio.to_thread(password_matches, secret, stored) and name in users
        if not right:
            return None
        self._failures.add(*who, count=-1)
        return self._cookie(name, _derived(stored))

    def log_out(self, cookie: str) -> None:
        """End a session early, including copies of its cookie."""
        if self._of_cookie(cookie) is None:
            return
        now = time.time()
        self._logged_out = {each: end for each, end in self._logged_out.items() if end > now}
        self._logged_out[cookie] = int(cookie.split("~")[1])

    def _of_cookie(self, cookie: str) -> User | None:
        parts = cookie.split("~")
        if (
            cookie in self._logged_out
            or len(parts) != 4
            or not parts[1].isdecimal()
            or int(parts[1][:15]) < time.time()
        ):
            return None
        name, users = _unpacked(parts[0]), self._users.current()
        if not name and self._token is not None:
            key = self._token_key
        elif name in users:
            key = _derived(users[name])
        else:
            return None
        if not _same(_signature(key, "~".join(parts[:3])), parts[3]):
            return None
        return User(name, actions=not users[name].endswith(":view")) if name else User("token")

    def _cookie(self, name: str, key: str) -> str:
        text = f"{_packed(name)}~{int(time.time()) + _LASTS}~{secrets.token_hex(8)}"
        return f"{text}~{_signature(key, text)}"


def csrf_token(session: str) -> str:
    """Return a token for the forms of this session; it differs every time, so that compression does not reveal it."""
    nonce = secrets.token_hex(8)
    return f"{nonce}.{_signature(session, nonce)}"


def csrf_matches(session: str, token: str) -> bool:
    """Return True if the token belongs to this session."""
    nonce, _, signature = token.partition(".")
    return bool(session) and _same(_signature(session, nonce), signature)


def same_origin(request: Request) -> bool:
    """Return True if the browser reports that a page of this server sent the request."""
    site = request.headers.get("sec-fetch-site")
    if site is not None and site != "same-origin":
        return False
    origin = request.headers.get("origin")
    if origin is None:
        return site == "same-origin" or "authorization" in request.headers
    return origin.partition("://")[2].lower() == request.headers.get("host", "").lower()


def why_foreign(request: Request) -> str:
    """Explain why a form was refused: its origin, or a proxy that hides it."""
    origin, host = request.headers.get("origin", ""), request.headers.get("host", "")
    if request.headers.get("sec-fetch-site") == "same-origin" and not same_origin(request):
        return (
            f"The browser shows {origin[:200]!r}, but the request names the host {host[:200]!r}: "
            "let the proxy pass the Host header, and allow it by --allowed-host NAME or allowed_hosts=[NAME]."
        )
    return "The form was not sent by a page of this dashboard: reload it."


def seal(session: str, text: str) -> str:
    """Sign a text that travels in a cookie."""
    return f"{_packed(text)}.{_signature(session, text)}"


def unseal(session: str, sealed: str) -> str | None:
    """Return the text that `seal` signed for this session, else None."""
    packed, _, signature = sealed.partition(".")
    text = _unpacked(packed)
    return text if session and _same(_signature(session, text), signature) else None


_HOST = re.compile(r"(?:\[([0-9a-fA-F:.]+)\]|([^\s:,@/\[\]]+))(?::\d*)?")


def _stretched(token: str) -> str:
    """Return the cookie key for a token, stretched to prevent a cookie from being a quick check of token guesses."""
    key = hashlib.scrypt(
        token.encode(), salt=b"lockwork dashboard session", n=SCRYPT["n"], r=SCRYPT["r"], p=SCRYPT["p"]
    )
    return key.hex()


def _derived(stored: str) -> str:
    """Return the cookie key for a user, whose hash is already hard to guess."""
    return hmac.new(stored.encode(), b"lockwork dashboard session", hashlib.sha256).hexdigest()


def _signature(key: str, text: str) -> str:
    return hmac.new(key.encode(), text.encode(), hashlib.sha256).hexdigest()


def _same(one: str, other: str) -> bool:
    """Compare in a time that reveals neither a common prefix nor the length."""
    first, second = (hashlib.sha256(each.encode("utf-8", "replace")).digest() for each in (one, other))
    return hmac.compare_digest(first, second)


def _packed(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _unpacked(text: str) -> str:
    try:
        return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode()
    except ValueError:
        return ""


def _host_name(host: str) -> str:
    """Return the name in a Host header, without its port; "" if it is invalid."""
    match = _HOST.fullmatch(host)
    return (match[1] or match[2]).lower().rstrip(".") if match else ""
