"""Who may read and who may act: token, users, the host app's own function, or this machine alone."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import inspect
import ipaddress
import re
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from starlette.requests import HTTPConnection, Request

from lockwork.errors import ConfigError
from lockwork.logs import Log

log: Log = Log("lockwork.dashboard")

SHORTEST_TOKEN = 16
SESSION = "lockwork_session"
MOST_FAILURES = 20
"""Wrong tokens or passwords of one address in FAILURE_SECONDS, before its next are not even compared."""
FAILURE_SECONDS = 60.0
_MOST_ADDRESSES = 10_000
_LASTS = 12 * 3600
_SCRYPT = {"n": 2**14, "r": 8, "p": 1, "maxmem": 64 * 1024 * 1024}


@dataclass(frozen=True, slots=True)
class User:
    """A person who may read; with `actions`, also one who may act, if the dashboard allows actions at all."""

    name: str
    actions: bool = True


Verdict = User | str | bool | None
"""What `authorize` says of a request: a user, a user's name, or whether it may pass."""
Authorize = Callable[[Request], Verdict | Awaitable[Verdict]]


class Access:
    """Decides about each request, and makes the cookies of those who log in.

    A cookie is the user's name, its end, and a signature with the token or the user's password hash, so a changed token
    or password ends all of its sessions. This process remembers the sessions that were logged out.
    """

    def __init__(
        self,
        token: str | None,
        users: Mapping[str, str] | None,
        authorize: Authorize | None,
        allowed_hosts: Sequence[str],
    ) -> None:
        if token is not None and len(token.strip()) < SHORTEST_TOKEN:
            raise ConfigError(f"the token must have at least {SHORTEST_TOKEN} characters, so that it cannot be guessed")
        if isinstance(allowed_hosts, str):
            raise ConfigError(f"allowed_hosts is a list of host names, such as [{allowed_hosts!r}]")
        self._token = token
        self._users = dict(users or {})
        self._authorize = authorize
        if wrong := [host for host in allowed_hosts if _host_name(host) != host.lower().rstrip(".") or not host]:
            raise ConfigError(f"allowed_hosts has names alone, such as 'board.example', not {wrong[0]!r}")
        self._hosts = {host.lower().rstrip(".") for host in allowed_hosts}
        self._hashing = asyncio.Semaphore(2)
        self._logged_out: dict[str, int] = {}
        self._failures: dict[str, tuple[float, int]] = {}
        """By address: when the first of its failures was, and how many there are since."""

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
        """True if nobody has to log in; then only this machine is served."""
        return not self.has_login and self._authorize is None

    def serves_host(self, host: str) -> bool:
        """Return True for a Host header that names this server: an address, this machine, or an allowed host.

        A web page can point a name of its own at this address; it cannot do so with an address or "localhost".
        """
        name = _host_name(host)
        if name in self._hosts or name == "localhost" or name.endswith(".localhost") or _is_address(name):
            return True
        # the host app has its own names, and its own session, whose cookies another name does not get
        return self._authorize is not None and not self._hosts

    def serves_client(self, connection: HTTPConnection) -> bool:
        """Return True unless nobody has to log in and the client is on another machine."""
        if not self.is_open:
            return True
        if self.is_forwarded(connection):
            return False
        if connection.client is None:  # a Unix socket
            return True
        host = connection.client.host.partition("%")[0]
        return host == "testclient" or (_is_address(host) and _is_loopback(host))

    def is_forwarded(self, connection: HTTPConnection) -> bool:
        """Return True if a proxy says that it passes on the request of another machine."""
        headers = connection.headers
        clients = f"{headers.get('x-forwarded-for', '')},{headers.get('x-real-ip', '')}".split(",")
        return "forwarded" in headers or not all(is_loopback(each.strip()) for each in clients if each.strip())

    def has_to_wait(self, request: Request) -> bool:
        """Return True if too many wrong tokens or passwords came from this address."""
        since, count = self._failures.get(_address(request), (0.0, 0))
        return count >= MOST_FAILURES and time.monotonic() < since + FAILURE_SECONDS

    def _failed(self, request: Request, count: int = 1) -> None:
        """Note a failure; an attempt is one until it has succeeded, so that many at once count."""
        address, now = _address(request), time.monotonic()
        since, before = self._failures.pop(address, (now, 0))
        if len(self._failures) >= _MOST_ADDRESSES:
            del self._failures[next(iter(self._failures))]
        fresh = now < since + FAILURE_SECONDS
        self._failures[address] = (since, before + count) if fresh else (now, max(0, count))
        if fresh and before + count == MOST_FAILURES and count > 0:
            log.warning("%s has to wait: it sent %d wrong tokens or passwords", address or "a client", MOST_FAILURES)

    async def user(self, request: Request) -> User | None:
        """Return who asks; None: nobody who may read."""
        if self._authorize is not None:
            verdict = self._authorize(request)
            if inspect.isawaitable(verdict):
                verdict = await verdict
            if isinstance(verdict, User):
                return verdict
            return User(verdict if isinstance(verdict, str) else "authorized") if verdict else None
        if self.is_open:
            return User("local")
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        if self._token is not None and scheme.lower() == "bearer" and not self.has_to_wait(request):
            if _same(given.strip(), self._token):
                return User("token")
            self._failed(request)
        return self._of_cookie(request.cookies.get(SESSION, ""))

    async def log_in(self, request: Request, name: str, secret: str) -> str | None:
        """Return the cookie for a token, or for a user's password; None if it is wrong. First ask `has_to_wait`."""
        self._failed(request)
        if self._token is not None and not name:
            key, right = self._token, _same(secret, self._token)
        else:
            key = self._users.get(name, _NOBODY)
            async with self._hashing:  # each takes 16 MiB and a twentieth of a second
                right = await asyncio.to_thread(password_matches, secret, key) and name in self._users
        if not right:
            return None
        self._failed(request, -1)
        return self._cookie(name, key)

    def log_out(self, cookie: str) -> None:
        """End a session before its time, also for who has a copy of its cookie."""
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
        name = _unpacked(parts[0])
        if not name and self._token is not None:
            key = self._token
        elif name in self._users:
            key = self._users[name]
        else:
            return None
        if not _same(_signature(key, "~".join(parts[:3])), parts[3]):
            return None
        return User(name, actions=not self._users[name].endswith(":view")) if name else User("token")

    def _cookie(self, name: str, key: str) -> str:
        text = f"{_packed(name)}~{int(time.time()) + _LASTS}~{secrets.token_hex(8)}"
        return f"{text}~{_signature(key, text)}"


def csrf_token(session: str) -> str:
    """Make a token for the forms of this session; it differs every time, so that compression does not reveal it."""
    nonce = secrets.token_hex(8)
    return f"{nonce}.{_signature(session, nonce)}"


def csrf_matches(session: str, token: str) -> bool:
    """Return True if the token was made for this session."""
    nonce, _, signature = token.partition(".")
    return bool(session) and _same(_signature(session, nonce), signature)


def same_origin(request: Request) -> bool:
    """Return True if a page of this server sent the request, as the browser says."""
    site = request.headers.get("sec-fetch-site")
    if site is not None and site != "same-origin":
        return False
    origin = request.headers.get("origin")
    if origin is None:
        return site == "same-origin" or "authorization" in request.headers
    return origin.partition("://")[2].lower() == request.headers.get("host", "").lower()


def why_foreign(request: Request) -> str:
    """Say why a form was refused: where it came from, or that a proxy hides it."""
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


def hash_password(password: str) -> str:
    """Hash a password for a file of users."""
    salt = secrets.token_bytes(16)
    key = hashlib.scrypt(password.encode(), salt=salt, n=_SCRYPT["n"], r=_SCRYPT["r"], p=_SCRYPT["p"])
    return f"scrypt${salt.hex()}${key.hex()}"


def password_matches(password: str, stored: str) -> bool:
    """Compare a password with its hash, in the same time for all."""
    _, salt, key = stored.partition(":")[0].split("$")
    found = hashlib.scrypt(password.encode(), salt=bytes.fromhex(salt), n=_SCRYPT["n"], r=_SCRYPT["r"], p=_SCRYPT["p"])
    return hmac.compare_digest(found, bytes.fromhex(key))


def read_users(path: str | Path) -> dict[str, str]:
    """Read a file of users, one a line: `name:hash`, or `name:hash:view` for one who may only read.

    Raises ConfigError.
    """
    try:
        lines = Path(path).read_text().splitlines()
    except (OSError, UnicodeError) as error:
        raise ConfigError(f"the file of users {str(path)!r} cannot be read: {error}") from None
    users = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        name, _, stored = line.strip().partition(":")
        parts = stored.partition(":")[0].split("$")
        if not name or len(parts) != 3 or parts[0] != "scrypt" or stored.partition(":")[2] not in ("", "view"):
            raise ConfigError(
                f"line {number} of {str(path)!r} is not NAME:HASH or NAME:HASH:view; "
                "make one with: lockwork dashboard --add-user NAME --users FILE"
            )
        users[name] = stored
    if not users:
        raise ConfigError(f"the file of users {str(path)!r} is empty")
    return users


def add_user(path: Path, name: str, password: str, *, view: bool) -> None:
    """Write a user to a file, which only its owner may read; a user of that name is replaced. Raises ConfigError."""
    if not name.isprintable() or ":" in name or name.startswith("#") or name != name.strip() or not name:
        raise ConfigError(f"a user's name must be text without colons, not {name!r}")
    users = read_users(path) if path.exists() and path.stat().st_size else {}
    users[name] = hash_password(password) + (":view" if view else "")
    path.touch(0o600)
    path.write_text("".join(f"{each}:{stored}\n" for each, stored in users.items()))


def is_loopback(host: str) -> bool:
    """Return True for a host to bind to that only this machine reaches."""
    return host == "localhost" or (_is_address(host) and _is_loopback(host))


_HOST = re.compile(r"(?:\[([0-9a-fA-F:.]+)\]|([^\s:,@/\[\]]+))(?::\d*)?")
_NOBODY = f"scrypt${'00' * 16}${'00' * 64}"
"""What the password of an unknown user is compared with, so that names cannot be found out by time."""


def _signature(key: str, text: str) -> str:
    return hmac.new(key.encode(), text.encode(), hashlib.sha256).hexdigest()


def _same(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode(), other.encode())


def _packed(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _unpacked(text: str) -> str:
    try:
        return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode()
    except ValueError:
        return ""


def _host_name(host: str) -> str:
    """Return the name in a Host header, without its port; "" if it is none."""
    found = _HOST.fullmatch(host)
    return (found[1] or found[2]).lower().rstrip(".") if found else ""


def _address(request: Request) -> str:
    """Return whose failures count together: an address, or the network of one IPv6 customer."""
    host = request.client.host.partition("%")[0] if request.client else ""
    wide = ":" in host and not host.startswith("::ffff:") and _is_address(host)
    return str(ipaddress.ip_network((host, 64), strict=False)) if wide else host


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _is_loopback(host: str) -> bool:
    address = ipaddress.ip_address(host)
    mapped = getattr(address, "ipv4_mapped", None)
    return address.is_loopback or (mapped is not None and mapped.is_loopback)
