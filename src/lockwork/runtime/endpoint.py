"""The address of the server and its connections, for all drivers."""

from __future__ import annotations

import codecs
import contextlib
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote, urlsplit

from lockwork.errors import ConfigError, ServerUnsuitable
from lockwork.logs import Log
from lockwork.runtime.handshake import PlainAsyncConnection, PlainConnection, is_plain
from lockwork.runtime.replies import Demoted, Moved, Retry, foreseen, passing, raise_error, read_only
from lockwork.runtime.resp import pack

if TYPE_CHECKING:
    from lockwork.runtime.cluster import ClusterEndpoint

_NO_CONNECTION = 2**63 - 1
"""An unused connection number. Never 0: Redis 6.2 applies `CLIENT KILL ID 0` to all connections."""
COMMANDS: tuple[tuple[str, ...], ...] = (("INFO",), ("CLIENT", "ID"), ("CLIENT", "KILL", "ID", str(_NO_CONNECTION)))
"""Commands on a new connection. The last one ends no connection; it shows if this user may end connections."""
ASK: bytes = b"".join(pack(*command) for command in COMMANDS)
_RUN = re.compile(rb"^run_id:(\w+)", re.MULTILINE)


class Identity(NamedTuple):
    """Number of a connection, with the run id of the server: a restarted server counts from 1 again."""

    run: bytes
    number: int


def identify(replies: Sequence[object]) -> Identity | None:
    """Parse the replies to ASK; return None if this user cannot end the connection later."""
    info, number, ended = replies
    match = _RUN.search(info) if isinstance(info, bytes) else None
    if match is None or not isinstance(number, int) or not isinstance(ended, int):
        return None
    return Identity(match[1], number)


def end(gone: Identity) -> bytes:
    """Return the command that ends a connection; an error reply means that it has already ended."""
    return pack("CLIENT", "KILL", "ID", gone.number)


log: Log = Log("lockwork")

OLDEST = (6, 2)
_warned: set[str] = set()
"""Servers with a logged warning: each connection of this process would repeat it."""


def check(replies: Sequence[object], endpoint: Endpoint, *, allow_eviction: bool) -> Identity | None:
    """Return the connection's identity from the replies to ASK; None, with a warning, if this user cannot end it later.

    Raises ServerUnsuitable unless INFO shows a server of at least 6.2 that evicts no keys, Demoted for a read-only
    replica, Retry if the server cannot serve now, and ServerRefused if a password is missing. A user without permission
    for INFO is not checked.
    """
    where = endpoint.shown
    for reply, command in zip(replies, COMMANDS, strict=True):
        if passing(str(reply)) or str(reply).startswith("NOAUTH"):
            raise_error(str(reply), where, command[0])
    if isinstance(replies[0], bytes):
        _check_info(replies[0], endpoint, allow_eviction=allow_eviction)
    identity = identify(replies)
    if identity is None:
        _warn(replies, where)
    return identity


def _check_info(info: bytes, endpoint: Endpoint, *, allow_eviction: bool) -> None:
    where = endpoint.shown
    facts = dict(line.split(":", 1) for line in info.decode(errors="replace").splitlines() if ":" in line)
    if "sentinel" in (facts.get("redis_mode"), facts.get("server_mode")):  # the field names of Redis and Valkey
        raise ServerUnsuitable(
            f"the server at {where} is a Sentinel: give the URL redis+sentinel://host:port/NAME, with the name of the "
            "primary that it watches"
        )
    if facts.get("cluster_enabled") == "1" and not endpoint.cluster:
        raise ServerUnsuitable(f"the server at {where} is a node of a Cluster: use the URL {endpoint.of_cluster()}")
    version = facts.get("redis_version", "")
    numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
    if numbers and numbers < OLDEST:
        raise ServerUnsuitable(f"the server at {where} is version {version}: use Redis 6.2 or later, or Valkey")
    if facts.get("role") == "slave" and facts.get("slave_read_only", "1") == "1":
        raise Demoted(read_only(where))
    policy = facts.get("maxmemory_policy", "noeviction")
    if policy != "noeviction" and not allow_eviction:
        raise ServerUnsuitable(
            f"the server at {where} may evict locks and jobs (maxmemory-policy {policy}): set it to noeviction, "
            "or pass allow_eviction=True if you accept lost locks and jobs"
        )


def _warn(replies: Sequence[object], where: str) -> None:
    if where in _warned:
        return
    _warned.add(where)
    refused = " and ".join(
        " ".join(command[:2]) for reply, command in zip(replies, COMMANDS, strict=True) if isinstance(reply, Exception)
    )
    log.warning(
        "this user may not run %s at %s, so a call that the network delivers late still takes effect, and may leave "
        "a lock or a job without an owner. Grant the user +info +client|id +client|kill (ACL "
        "SETUSER; see docs/security.md)",
        refused or "INFO and CLIENT KILL",
        where,
    )


_SCHEMES = ("redis", "rediss", "unix")
_ALIASES = {"valkey": "redis", "valkeys": "rediss"}
"""Schemes of other clients, with any suffix such as +cluster."""
_OBJECTS = frozenset(
    {
        "command_packer", "credential_provider", "driver_info", "encoder_class", "event_dispatcher",
        "maint_notifications_config", "parser_class", "redis_connect_func", "ssl_ocsp_context",
    }
)  # fmt: skip
"""Connection options whose values are not text."""
_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
"""A percent sign without an escape sequence."""
_TAKEN_OVER = ("host", "port", "path", "db", "username", "password", "credential_provider")
TIMEOUT: float = 5.0
"""Seconds that a healthy server may take for a call; then the connection is abandoned and the call is retried."""


YOUNG: float = 1.0
"""Seconds that a new connection is not replaced, unless its server is a replica."""
SHORTEST: float = 0.05
"""Minimum seconds for the last try of a call."""


class Endpoint:
    """One server, or an address that leads to several.

    `shown` is its address without the password; `described` names the kind of server.
    """

    cluster: bool = False
    """True for a Cluster, or a node of one."""
    embedded: bool = False
    """True for the server that Lockwork started because it has no URL."""

    def __init__(self, kind: str, options: dict[str, Any]) -> None:
        self._kind = kind
        self._is_plain = is_plain(kind, options)
        self.options: dict[str, Any] = {
            **options,
            "protocol": 2,
            "decode_responses": False,
            "health_check_interval": 0,
            "socket_connect_timeout": TIMEOUT,
            "socket_timeout": TIMEOUT,
            "socket_keepalive": True,
        }
        if kind == "unix":
            del self.options["socket_keepalive"]
            place = str(options.get("path"))
        else:
            place = f"{options.get('host', 'localhost')}:{options.get('port', 6379)}/{options.get('db', 0)}"
        self.shown: str = f"{kind}://{place}"
        self.described: str = f"the server at {self.shown}"
        self.era: int = 0
        """Number that rises when the server changes; a connection of an earlier era is closed, and not used again."""
        self.observers: set[Callable[[], object]] = set()
        """Functions that `moved` calls, on any thread."""
        self.by_function: bool = False
        """True if reads are sent as function calls, because the user may not run scripts (call_errors.py)."""
        self._run: bytes | None = None

    @property
    def as_cluster(self) -> ClusterEndpoint | None:
        """This endpoint, if it is a whole Cluster."""
        return None

    @property
    def tls(self) -> bool:
        """True if its connections use TLS."""
        return self._kind == "rediss"

    def of_cluster(self) -> str:
        """Return the URL of this node's Cluster."""
        if self._kind == "unix":
            return "redis+cluster://host:port"
        return f"{self._kind}+cluster://{self.options.get('host', 'localhost')}:{self.options.get('port', 6379)}"

    @property
    def found(self) -> str:
        """Describe the reached server in a sentence, if that adds to its address."""
        return ""

    def shards(self) -> int:
        """Return the known number of servers that share the keys."""
        return 1

    def slot(self, key: str) -> int:  # noqa: ARG002 - a Cluster's
        """Return a number that is equal for keys that may be in one call."""
        return 0

    def reached(self, run: bytes | None) -> int:
        """Record the server of a new connection, by its run id if known; return the connection's era."""
        if run is not None and run != self._run:
            before, self._run = self._run, run
            if before is not None:
                self.era += 1
        return self.era

    def demoted(self, era: int) -> None:
        """Record that the server of this era's connections is now a read-only replica."""
        if era == self.era:
            self.era += 1

    def failed(self, error: Retry) -> Moved | None:  # noqa: ARG002 - a Cluster's
        """Record the reason of a failed call; return its redirection, if any."""
        return None

    def moved(self) -> None:
        """Record that the address now leads to another server."""
        self._run = None
        self.era += 1
        for notify in list(self.observers):
            with contextlib.suppress(RuntimeError):  # the observer's event loop is closed
                notify()

    def locate(self) -> None:
        """Find the address for the next connection, if it can change; raises Retry or a LockworkError."""

    async def alocate(self) -> None:
        """Async version of `locate`."""

    def after_fork(self) -> None:
        """Replace the locks in a forked child: a thread that exists only in the parent may hold one."""

    @classmethod
    def from_url(cls, url: str) -> Endpoint:
        """Parse a redis://, rediss:// or unix:// URL; raises ConfigError."""
        if not isinstance(url, str):
            raise ConfigError(
                f"a server's URL is text such as redis://localhost:6379, not {type(url)}; a client is given as client="
            )
        url = usual_scheme(url)
        scheme = url.partition("://")[0].lower() if "://" in url else ""
        if scheme not in _SCHEMES:
            schemes = ", ".join(f"{name}://" for name in (*_SCHEMES, *_ALIASES, "redis+sentinel", "redis+cluster"))
            raise ConfigError(
                f"a server's URL begins with {schemes}, as redis://localhost:6379 does; {_scheme_shown(url)}"
            )
        if scheme != "unix" and "," in url.partition("://")[2].partition("/")[0].rpartition("@")[2]:
            raise ConfigError(
                f"a {scheme}:// URL names one server: begin it with {scheme}+cluster:// for nodes of a Cluster, or "
                f"with {scheme}+sentinel:// for Sentinels"
            )
        if _ESCAPE.search(url.partition("://")[2].partition("?")[0]):
            raise ConfigError(
                f"the {scheme}:// URL of the server has a % that begins no escape: write %25 for a % in the password"
            )
        try:
            options = _parsed(scheme, url)
            path = urlsplit(url).path.strip("/")
        except ValueError:
            # the error's text may quote the password
            raise ConfigError(
                f"the {scheme}:// URL of the server cannot be read: are signs like / @ : # in the password escaped "
                "(%2F for a slash), and is the port a number up to 65535?"
            ) from None
        if scheme != "unix" and path and not path.isdecimal():
            raise ConfigError("the database in the server's URL, after the last slash, must be a number")
        options.pop("connection_class", None)
        endpoint = cls(scheme, options)
        try:
            endpoint.check_options()
        except TypeError as error:
            unknown = str(error).rpartition("argument ")[2]
            raise ConfigError(f"the server's URL has an option that connections do not know: {unknown}") from None
        except Exception as error:
            if not isinstance(error, (ValueError, LookupError, *foreseen())):
                raise
            raise ConfigError(
                f"no connection can be made with the options in the server's URL: {_without_secrets(error, options)}"
            ) from None
        return endpoint

    def check_options(self) -> None:
        """Check the connection options without connecting; raises the errors of redis-py and Python's TLS."""
        if objects := _OBJECTS & self.options.keys():
            raise ValueError(f"{min(objects)}= is an object: pass a client with it as client=")
        codecs.lookup(str(self.options.get("encoding", "utf-8")))
        int(self.options.get("port", 0))
        size = self.options.get("socket_read_size", 1)
        if not isinstance(size, int) or size < 1:
            raise ValueError(f"socket_read_size must be a positive number, not {size!r:.20}")
        connection = self.connection()
        self.async_connection()
        if self._kind == "rediss":
            import ssl  # noqa: PLC0415 - see lazy.py

            tls = ssl.create_default_context()
            if connection.ssl_min_version is not None:
                tls.minimum_version = connection.ssl_min_version
            if connection.ca_data is not None:
                tls.load_verify_locations(cadata=connection.ca_data)
            if connection.ssl_ciphers:
                tls.set_ciphers(connection.ssl_ciphers)

    @classmethod
    def from_client(cls, client: object) -> Endpoint:
        """Connect to the server of a sync or asyncio redis-py client; does not use the client's connections.

        Raises ConfigError for an object that is not a client of one server, and for unsupported settings.
        """
        import redis.asyncio  # noqa: PLC0415 - the client's library is loaded

        if not isinstance(client, redis.Redis | redis.asyncio.Redis):
            raise ConfigError(f"client must be a redis.Redis or redis.asyncio.Redis for one server, not {type(client)}")
        pool = client.connection_pool
        for kind in _SCHEMES:
            # the TLS class is a subclass of the TCP one, so the class must match exactly
            if pool.connection_class in (_class_of(kind), _async_class_of(kind)):
                endpoint = cls(kind, taken_over(pool.connection_kwargs))
                try:
                    endpoint.connection()
                except redis.DataError as error:
                    text = " ".join(str(error).split())
                    raise ConfigError(f"no connection can be made as this client's settings say: {text}") from None
                return endpoint
        raise ConfigError(f"connections of {pool.connection_class} are not supported: give a URL instead")

    def connection(self, timeout: float = TIMEOUT) -> Any:
        """Return a new, unconnected connection without automatic retries, with the methods of redis-py's."""
        if self._is_plain:
            return PlainConnection(self._plain_options, timeout, lambda: self._full(timeout))
        return self._full(timeout)

    def _full(self, timeout: float) -> Any:
        from redis.backoff import NoBackoff  # noqa: PLC0415 - see handshake.py
        from redis.retry import Retry as NoRetry  # noqa: PLC0415 - see handshake.py

        # a name may have two addresses with one unreachable: leave time for the other
        limits = {"socket_connect_timeout": timeout / 2, "socket_timeout": timeout}
        return _class_of(self._kind)(**{**self.options, **limits}, retry=NoRetry(NoBackoff(), 0))

    def async_connection(self) -> Any:
        """Async version of `connection`."""
        return PlainAsyncConnection(self._plain_options, self._async_full) if self._is_plain else self._async_full()

    def _async_full(self) -> Any:
        from redis.asyncio.retry import Retry as AsyncRetry  # noqa: PLC0415 - see handshake.py
        from redis.backoff import NoBackoff  # noqa: PLC0415 - see handshake.py

        return _async_class_of(self._kind)(**self.options, retry=AsyncRetry(NoBackoff(), 0))

    @property
    def _plain_options(self) -> dict[str, Any]:
        """The options that lead to the server and its database."""
        return {name: self.options[name] for name in _TAKEN_OVER if name in self.options}


Opener = Callable[[], tuple[Endpoint, Callable[[], None]]]
"""Opens an endpoint at first use; its second result is called at the end."""


def taken_over(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a client's connections that Lockwork's connections use."""
    return {
        key: value
        for key, value in settings.items()
        if value is not None and (key in _TAKEN_OVER or key.startswith("ssl_"))
    }


def _parsed(scheme: str, url: str) -> dict[str, Any]:
    """Return the connection options in a URL; raises ValueError."""
    if scheme == "rediss" or "?" in url:
        from redis.connection import parse_url  # noqa: PLC0415 - see handshake.py

        return dict(parse_url(url))  # type: ignore[no-untyped-call]
    parts = urlsplit(url)
    options: dict[str, Any] = {"username": parts.username, "password": parts.password}
    if scheme == "unix":
        options["path"] = parts.path
    else:
        options["host"] = parts.hostname
        database = unquote(parts.path).replace("/", "")
        if parts.port:
            options["port"] = parts.port
        if database.isdecimal():
            options["db"] = int(database)
    return {name: unquote(value) if isinstance(value, str) else value for name, value in options.items() if value}


def _class_of(kind: str) -> Any:
    """Return redis-py's class of connections."""
    from redis import connection  # noqa: PLC0415 - see handshake.py

    classes = (connection.Connection, connection.SSLConnection, connection.UnixDomainSocketConnection)
    return classes[_SCHEMES.index(kind)]


def _async_class_of(kind: str) -> Any:
    """Async version of `_class_of`."""
    from redis.asyncio import connection  # noqa: PLC0415 - see handshake.py

    classes = (connection.Connection, connection.SSLConnection, connection.UnixDomainSocketConnection)
    return classes[_SCHEMES.index(kind)]


def usual_scheme(url: Any) -> Any:
    """Return the URL with redis:// or rediss:// in place of valkey:// or valkeys://, also before a + in the scheme."""
    if not isinstance(url, str):
        return url
    head, separator, rest = url.partition("://")
    name, plus, suffix = head.partition("+")
    return f"{_ALIASES.get(name.lower(), name)}{plus}{suffix}{separator}{rest}" if separator else url


def _without_secrets(error: Exception, options: Mapping[str, Any]) -> str:
    text = " ".join(str(error).split())
    for name in ("password", "ssl_password"):
        secret = options.get(name)
        if secret and str(secret) in text:
            return type(error).__name__
    return text


def _scheme_shown(url: str) -> str:
    # never the whole URL: it may contain a password
    head, separator, _ = url.partition("://")
    is_scheme = re.fullmatch(r"[A-Za-z][A-Za-z0-9+.-]*", head) is not None
    return (
        f"this one begins with {head + separator!r}" if separator and is_scheme else "this URL begins with none of them"
    )
