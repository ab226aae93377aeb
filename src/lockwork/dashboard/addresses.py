"""Client addresses, as trusted proxies name them, and the limit of failed logins for each address."""

from __future__ import annotations

import hashlib
import ipaddress
import time
from collections.abc import Sequence

from starlette.requests import HTTPConnection

from lockwork.errors import ConfigError
from lockwork.logs import Log

log: Log = Log("lockwork.dashboard")

MOST_FAILURES = 20
"""Wrong tokens of one address, or wrong passwords of one user from there, allowed within FAILURE_SECONDS."""
FAILURE_SECONDS = 60.0
_MOST_COUNTED = 10_000
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class Proxies:
    """Proxies that are trusted to name the address of a client. Raises ConfigError for an invalid address."""

    def __init__(self, trusted: Sequence[str]) -> None:
        if isinstance(trusted, str):
            raise ConfigError(f"trust_proxies is a list of addresses, such as [{trusted!r}]")
        self._networks: list[Network] = []
        for each in trusted:
            try:
                self._networks.append(ipaddress.ip_network(each))
            except ValueError:
                raise ConfigError(
                    f"a trusted proxy is an address or a network, such as 10.0.0.7 or 10.0.0.0/24, not {each!r}"
                ) from None

    def client(self, connection: HTTPConnection) -> str:
        """Return the address of the client, "" if there is none.

        A proxy appends the address that it sees to `X-Forwarded-For`, so the client's address is the last address
        except trusted proxies. A client can forge the addresses before it.
        """
        address = _plain(connection.client.host) if connection.client else ""
        named = ",".join(connection.headers.getlist("x-forwarded-for")).split(",")
        while named and self._trusts(address):
            last = _without_port(named.pop().strip())
            if not is_address(last):
                break
            address = _plain(last)
        return address

    def trusts_peer(self, connection: HTTPConnection) -> bool:
        """Return True if the request comes from a trusted proxy."""
        return connection.client is not None and self._trusts(_plain(connection.client.host))

    def _trusts(self, address: str) -> bool:
        if not self._networks or not is_address(address):
            return False
        ip = ipaddress.ip_address(address)
        return any(ip in network for network in self._networks)


class Failures:
    """Counts wrong tokens and passwords by sender, for FAILURE_SECONDS after the first."""

    def __init__(self) -> None:
        self._counts: dict[bytes, tuple[float, int]] = {}
        """Time of the first failure, and the number of failures since."""

    def are_many(self, *who: str) -> bool:
        """Return True after too many failures of this sender."""
        since, count = self._counts.get(_key(who), (0.0, 0))
        return count >= MOST_FAILURES and time.monotonic() < since + FAILURE_SECONDS

    def add(self, *who: str, count: int = 1) -> None:
        """Count a failure; -1 takes back an attempt that succeeded."""
        key, now = _key(who), time.monotonic()
        since, before = self._counts.pop(key, (now, 0))
        if len(self._counts) >= _MOST_COUNTED:
            del self._counts[next(iter(self._counts))]
        fresh = now < since + FAILURE_SECONDS
        self._counts[key] = (since, before + count) if fresh else (now, max(0, count))
        if fresh and before + count == MOST_FAILURES and count > 0:
            address, *names = who
            log.warning(
                "%s%s has to wait: %d wrong tokens or passwords came from there",
                address or "a client",
                f" as {names[0][:80]!r}" if names else "",
                MOST_FAILURES,
            )


def counted_address(address: str) -> str:
    """Return the key under which failures count together: an address, or the network of one IPv6 customer."""
    wide = ":" in address and is_address(address)
    return str(ipaddress.ip_network((address, 64), strict=False)) if wide else address


def is_loopback(host: str) -> bool:
    """Return True for a host that only this machine reaches."""
    if host == "localhost":
        return True
    return is_address(host) and ipaddress.ip_address(_plain(host)).is_loopback


def is_address(name: str) -> bool:
    """Return True for an IP address."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _key(who: Sequence[str]) -> bytes:
    return hashlib.blake2b("\0".join(who).encode("utf-8", "replace"), digest_size=16).digest()


def _plain(host: str) -> str:
    """Return an address without its zone, and an IPv4-mapped IPv6 address as IPv4."""
    host = host.partition("%")[0]
    mapped = getattr(ipaddress.ip_address(host), "ipv4_mapped", None) if is_address(host) else None
    return host if mapped is None else str(mapped)


def _without_port(named: str) -> str:
    if named.startswith("["):
        return named[1:].partition("]")[0]
    return named.partition(":")[0] if named.count(":") == 1 else named
