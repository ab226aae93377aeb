"""Lockwork's function libraries on a server, or on each primary of a Cluster, for administrators."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

import hiredis

from lockwork.errors import ServerRefused
from lockwork.protocol.functions import PREFIX, library
from lockwork.runtime.clock import now
from lockwork.runtime.endpoint import TIMEOUT, Endpoint
from lockwork.runtime.reconnect import dial
from lockwork.runtime.replies import Retry, gone, raise_error
from lockwork.runtime.resp import pack
from lockwork.runtime.sync_connection import Wire

_UNKNOWN = "unknown command"


class _Primary:
    """One server and a connection to it."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.shown: str = endpoint.shown
        began = now()
        try:
            self.wire: Wire = dial(endpoint, TIMEOUT, allow_eviction=True)
        except Retry as why:
            raise gone(self.shown, why, now() - began) from why

    def function(self, command: str, *words: str) -> Any:
        """Send a FUNCTION command; raises ServerRefused or ServerUnavailable."""
        began = now()
        try:
            reply = self.wire.request(pack("FUNCTION", command, *words))
            if isinstance(reply, hiredis.ReplyError):
                if _UNKNOWN in str(reply):
                    raise ServerRefused(
                        f"the server at {self.shown} has no functions: they need Redis 7 or later, or Valkey; set the "
                        "rules that `lockwork acl viewer --eval` prints"
                    )
                raise_error(str(reply), self.shown, f"FUNCTION {command}")
        except Retry as why:
            raise gone(self.shown, why, now() - began) from why
        return reply

    def libraries(self) -> dict[str, int]:
        """Return Lockwork's libraries, with the number of functions in each."""
        facts = [dict(zip(each[::2], each[1::2], strict=True)) for each in self.function("LIST")]
        counts = {each[b"library_name"].decode(): len(each[b"functions"]) for each in facts}
        return {name: count for name, count in sorted(counts.items()) if name.startswith(PREFIX)}


def load(endpoint: Endpoint) -> list[str]:
    """Load this version's library on each primary, and return their addresses; the libraries of other versions stay.

    Raises ServerRefused if the server has no functions or the user may not load them, and ServerUnavailable.
    """
    servers = []
    for primary in _primaries(endpoint):
        primary.function("LOAD", "REPLACE", library().code)
        servers.append(primary.shown)
    return servers


def loaded(endpoint: Endpoint) -> dict[str, dict[str, int]]:
    """Return the libraries and function counts by address of each primary; raises as `load`."""
    return {primary.shown: primary.libraries() for primary in _primaries(endpoint)}


def delete(endpoint: Endpoint, names: Collection[str]) -> None:
    """Delete libraries on each primary; raises as `load`."""
    for primary in _primaries(endpoint):
        for name in primary.libraries().keys() & names:
            primary.function("DELETE", name)


def _primaries(endpoint: Endpoint) -> Iterator[_Primary]:
    """Connect to one primary after the other."""
    nodes = [endpoint]
    cluster = endpoint.as_cluster
    if cluster is not None:
        try:
            cluster.refresh(anyway=True)
        except Retry as why:
            raise gone(endpoint.shown, why, 0) from why
        nodes = cluster.primaries()
    for node in nodes:
        primary = _Primary(node)
        try:
            yield primary
        finally:
            primary.wire.close()
