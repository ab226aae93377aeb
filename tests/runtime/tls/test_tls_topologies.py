"""rediss+cluster:// and rediss+sentinel://: a node and a Sentinel that only accept TLS."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
import redis
import redis.asyncio
import redis.asyncio.sentinel
import redis.cluster
import redis.sentinel

from app_modules import Load
from lockwork import Lockwork, ServerRefused, ServerUnavailable
from processes import until, worker
from tls_servers import Certificates, program, tls_process

pytestmark = pytest.mark.skipif(
    program() is None, reason="no server with TLS is installed; on Debian: apt-get install redis-server"
)
HOST = "127.0.0.1"


class Places:
    """TLS ports, and the client options for them."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        own = Certificates.made(folder / "good", HOST)
        self.options = {
            "ssl_ca_certs": str(own.authority),
            "ssl_certfile": str(own.client),
            "ssl_keyfile": str(own.client),
        }
        self.node = stack.enter_context(tls_process(folder, "node", own, {"cluster-enabled": "yes"}))
        with self.client(self.node) as client:
            client.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
            until(lambda: client.execute_command("CLUSTER INFO")["cluster_state"] == "ok", "it serves all slots")
        self.server = stack.enter_context(tls_process(folder, "server", own))
        config = f"sentinel monitor shop {HOST} {self.server} 1\n"
        self.sentinel = stack.enter_context(tls_process(folder, "sentinel", own, sentinel=config))

    def client(self, port: int) -> Any:
        """Return a redis-py client for a port."""
        return redis.Redis(HOST, port, ssl=True, decode_responses=True, **self.options)  # type: ignore[arg-type]

    @property
    def query(self) -> str:
        return urlencode(self.options)

    @property
    def urls(self) -> dict[str, str]:
        return {
            "cluster": f"rediss+cluster://{HOST}:{self.node}?{self.query}",
            "sentinel": f"rediss+sentinel://{HOST}:{self.sentinel}/shop/0?{self.query}",
        }


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Places]:
    with ExitStack() as stack:
        yield Places(tmp_path_factory.mktemp("tls"), stack)


@pytest.mark.parametrize("topology", ["cluster", "sentinel"])
def test_locks_and_workers_connect_with_tls(places: Places, topology: str, apps: Path, load: Load) -> None:
    url = places.urls[topology]
    with Lockwork(url) as app, Lockwork(url) as other:
        grant = app.lock("x").acquire()

        async def both_worlds() -> None:
            waiting = asyncio.create_task(other.lock("x", wait=30).aacquire())
            while not (await app.lock("x").ainspect()).waiters:
                await asyncio.sleep(0)
            await grant.arelease()
            await (await waiting).arelease()
            await app.aclose()
            await other.aclose()

        asyncio.run(asyncio.wait_for(both_worlds(), 60))
        shop: Any = load(url, "shop")
        with shop.lw, worker("shop:lw", "--lease", "5", url=url, folder=apps):
            assert shop.add.enqueue(1, 2).result(60) == 3


def test_tls_settings_of_redis_py_clients_are_used(places: Places) -> None:
    options: Any = places.options
    several: Any = redis.cluster.RedisCluster(host=HOST, port=places.node, ssl=True, **options)
    other: Any = redis.asyncio.RedisCluster(host=HOST, port=places.node, ssl=True, **options)
    own = {"ssl": True, **options}
    sentinels: Any = redis.sentinel.Sentinel(  # type: ignore[no-untyped-call]
        [(HOST, places.sentinel)], sentinel_kwargs=own, **own
    )
    others: Any = redis.asyncio.sentinel.Sentinel(  # type: ignore[no-untyped-call]
        [(HOST, places.sentinel)], sentinel_kwargs=own, **own
    )
    for client in (several, other, sentinels.master_for("shop"), others.master_for("shop")):
        with Lockwork(client=client) as app, app.lock("client"):
            pass
    several.close()


def test_missing_client_certificate_is_reported(places: Places) -> None:
    trusting = urlencode({"ssl_ca_certs": places.options["ssl_ca_certs"]})
    for url in places.urls.values():
        with Lockwork(url.replace(places.query, trusting), patience=1) as app:
            with pytest.raises((ServerRefused, ServerUnavailable), match="certificate"):
                app.lock("x").acquire()
