"""Opens an app's server at first use: by URL, like an existing client, or as an embedded server.

redis-py takes longer to import than the rest of Lockwork, so this module imports it when it is needed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from functools import partial

from lockwork.errors import ConfigError
from lockwork.runtime.runtime import Opened

EMBEDDED = "LOCKWORK_EMBEDDED"
_WORDS = {"on": True, "true": True, "yes": True, "1": True, "off": False, "false": False, "no": False, "0": False}
"""Values of LOCKWORK_EMBEDDED: YAML turns on and off into other words."""
_PLAIN = re.compile(
    r"(?:redis|valkey)s?://([\w.~-]*(:[\w.~-]*)?@)?[A-Za-z0-9.-]+(:[0-9]{1,4})?(/[0-9]{0,5})?", re.IGNORECASE | re.ASCII
)
"""URLs that need no check: a server's address without options or escapes."""


def opener(url: str | None, client: object) -> Callable[[], Opened]:
    """Return the function that opens the server at first use; raises ConfigError if the settings name no server."""
    if url is not None and client is not None:
        raise ConfigError("pass a URL or a client, not both")
    if client is not None:
        return _from_client(client)
    if url is not None and not url:
        raise ConfigError("the server's URL is empty: omit it to use LOCKWORK_URL or the embedded server")
    address = url or os.environ.get("LOCKWORK_URL")
    if not address:
        return _open_embedded
    return partial(_open, _from_url, address) if _plain(address) else _from_url(address)


def embedded_setting() -> bool | None:
    """Return the value of LOCKWORK_EMBEDDED, None if it is not set; raises ConfigError."""
    value = os.environ.get(EMBEDDED, "").strip()
    if not value:
        return None
    if value.lower() not in _WORDS:
        raise ConfigError(
            f"{EMBEDDED} must be on or off, not {value!r:.60}: off forbids the embedded server, and on says that it is "
            "intended"
        )
    return _WORDS[value.lower()]


def one_server(url: str) -> Callable[[], Opened]:
    """Return the function that opens the server at a redis://, rediss:// or unix:// URL; raises ConfigError."""
    return partial(_open, _one, url) if _plain(url) else _one(url)


def _plain(url: object) -> bool:
    return isinstance(url, str) and _PLAIN.fullmatch(url) is not None


def _open(parse: Callable[[str], Callable[[], Opened]], url: str) -> Opened:
    return parse(url)()


def _one(url: str) -> Callable[[], Opened]:
    from lockwork.runtime.endpoint import Endpoint  # noqa: PLC0415 - see above

    endpoint = Endpoint.from_url(url)
    return lambda: (endpoint, _nothing)


def _from_url(url: str) -> Callable[[], Opened]:
    from lockwork.runtime.endpoint import usual_scheme  # noqa: PLC0415 - see above

    address = usual_scheme(url)
    if isinstance(address, str) and "+" not in address.partition("://")[0]:
        return _one(address)
    from lockwork.runtime import cluster, sentinel  # noqa: PLC0415 - see above

    return sentinel.from_url(address) or cluster.from_url(address) or _one(address)


def _from_client(client: object) -> Callable[[], Opened]:
    from lockwork.runtime import cluster, sentinel  # noqa: PLC0415 - see above
    from lockwork.runtime.endpoint import Endpoint  # noqa: PLC0415 - see above

    if several := sentinel.from_client(client) or cluster.from_client(client):
        return several
    endpoint = Endpoint.from_client(client)
    return lambda: (endpoint, _nothing)


def _open_embedded() -> Opened:
    if embedded_setting() is False:
        raise ConfigError(
            f"no server is configured, and {EMBEDDED}=off forbids the embedded server: set LOCKWORK_URL to the URL of "
            "your server, such as redis://host:6379/0, or pass url"
        )
    from lockwork.runtime import embedded  # noqa: PLC0415 - most apps give a URL and never need it
    from lockwork.runtime.endpoint import Endpoint  # noqa: PLC0415 - see above

    server = embedded.open_shared()
    endpoint = Endpoint.from_url(server.url)
    endpoint.embedded = True
    endpoint.described = f"an embedded server (LOCKWORK_URL is not set) at {endpoint.shown}"
    return endpoint, server.close


def _nothing() -> None:
    return None
