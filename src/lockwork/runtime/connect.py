"""Opens an app's server at first use: by URL, like an existing client, or as an embedded server."""

from __future__ import annotations

import os
from collections.abc import Callable

from lockwork.errors import ConfigError
from lockwork.runtime import cluster, sentinel
from lockwork.runtime.endpoint import Endpoint, usual_scheme
from lockwork.runtime.runtime import Opened


def opener(url: str | None, client: object) -> Callable[[], Opened]:
    """Return the function that opens the server at first use; raises ConfigError if the settings name no server."""
    if url is not None and client is not None:
        raise ConfigError("pass a URL or a client, not both")
    if client is not None:
        if several := sentinel.from_client(client) or cluster.from_client(client):
            return several
        endpoint = Endpoint.from_client(client)
        return lambda: (endpoint, _nothing)
    if url is not None and not url:
        raise ConfigError("the server's URL is empty: omit it to use LOCKWORK_URL or the embedded server")
    address = url or os.environ.get("LOCKWORK_URL")
    if address:
        address = usual_scheme(address)
        if several := sentinel.from_url(address) or cluster.from_url(address):
            return several
        endpoint = Endpoint.from_url(address)
        return lambda: (endpoint, _nothing)
    return _open_embedded


def _open_embedded() -> Opened:
    from lockwork.runtime import embedded  # noqa: PLC0415 - most apps give a URL and never need it

    server = embedded.open_shared()
    endpoint = Endpoint.from_url(server.url)
    endpoint.described = f"an embedded server (LOCKWORK_URL is not set) at {endpoint.shown}"
    return endpoint, server.close


def _nothing() -> None:
    return None
