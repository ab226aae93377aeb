"""Server addresses from URLs and clients, displayed without passwords."""

from __future__ import annotations

from typing import Any

import pytest
import redis
import redis.asyncio

from lockwork import ConfigError, Lockwork
from lockwork.runtime.endpoint import Endpoint

SECRET = "s3cr3t"


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("redis://db.example:7000/3", "redis://db.example:7000/3"),
        ("redis://", "redis://localhost:6379/0"),
        (f"redis://user:{SECRET}@db.example", "redis://db.example:6379/0"),
        (f"rediss://:{SECRET}@db.example:6380/1", "rediss://db.example:6380/1"),
        ("unix:///run/valkey.sock", "unix:///run/valkey.sock"),
        (f"unix://:{SECRET}@/run/valkey.sock", "unix:///run/valkey.sock"),
        ("redis://[::1]:7000", "redis://::1:7000/0"),
    ],
)
def test_address_is_shown_without_the_password(url: str, address: str) -> None:
    assert Endpoint.from_url(url).shown == address


@pytest.mark.parametrize(
    "url",
    [
        f"http://:{SECRET}@db",
        f"redis+cluster://:{SECRET}@db",
        SECRET,
        "",
        f":{SECRET}@db:6379",
        f"redis://:{SECRET}@db:port",
        f"redis://:{SECRET}@db:99999",
        f"redis://:{SECRET}/x@db",
        f"redis://:{SECRET}@[::1",
        f"redis://:{SECRET}@db/zero",
        f"redis://:{SECRET}@db?socket_timeout=soon",
        f"redis://:{SECRET}@db?colour=blue",
    ],
)
def test_unusable_url_is_refused_without_the_password(url: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Endpoint.from_url(url)
    assert "URL" in str(caught.value)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("url", [5, object(), redis.Redis(), b"redis://db"])
def test_values_that_are_no_url_are_refused(url: Any) -> None:
    with pytest.raises(ConfigError, match=r"redis://localhost:6379.*client="):
        Lockwork(url)


def test_address_without_a_scheme_gets_an_example() -> None:
    with pytest.raises(ConfigError, match=r"as redis://localhost:6379 does; this URL begins with none of them"):
        Lockwork("localhost:6379")


@pytest.mark.parametrize("url", [f"redis://u:{SECRET}@a,b:7000", f"redis://:{SECRET}@a:7000,b:7000/0"])
def test_several_hosts_are_told_the_url_of_a_cluster_or_of_sentinels(url: str) -> None:
    with pytest.raises(ConfigError, match=r"redis\+cluster:// for nodes .* redis\+sentinel://") as caught:
        Lockwork(url)
    assert SECRET not in str(caught.value)


def test_empty_url_is_not_taken_for_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LOCKWORK_URL", raising=False)
    with pytest.raises(ConfigError, match="URL"):
        Lockwork("")


def test_environment_is_the_fallback_for_the_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCKWORK_URL", "carrier-pigeon://coop")
    with pytest.raises(ConfigError, match="redis://, rediss://, unix://"):
        Lockwork()
    Lockwork("redis://localhost")


async def test_client_provides_its_address() -> None:
    options = {"host": "db.example", "port": 7000, "db": 2, "password": SECRET}
    for client in (redis.Redis(**options), redis.asyncio.Redis(**options)):  # type: ignore[arg-type]
        assert Endpoint.from_client(client).shown == "redis://db.example:7000/2"
    tls = redis.Redis(host="db.example", ssl=True, ssl_cert_reqs="none")
    assert Endpoint.from_client(tls).shown == "rediss://db.example:6379/0"
    socket = redis.Redis(unix_socket_path="/run/valkey.sock")
    assert Endpoint.from_client(socket).shown == "unix:///run/valkey.sock"


@pytest.mark.parametrize("client", ["redis://localhost", 5, object()])
def test_values_that_are_no_client_are_refused(client: object) -> None:
    with pytest.raises(ConfigError, match=r"client must be a redis\.Redis"):
        Lockwork(client=client)


async def test_client_that_cannot_connect_is_refused() -> None:
    """redis-py notices it when it first connects; its own error then came out of a lock."""
    provider = redis.UsernamePasswordCredentialProvider("ada", SECRET)
    for kind in (redis.Redis, redis.asyncio.Redis):
        with pytest.raises(ConfigError, match="as this client's settings say: .*username") as refused:
            Lockwork(client=kind(username="ada", credential_provider=provider))
        assert SECRET not in str(refused.value)


def test_url_and_client_together_are_refused() -> None:
    with pytest.raises(ConfigError, match="not both"):
        Lockwork("redis://localhost", client=redis.Redis())
