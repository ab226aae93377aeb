"""A Cluster whose slots move and whose primaries fail."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import redis.asyncio.cluster
import redis.cluster

from clusters import Cluster, begin_move, clustered, end_move, names_everywhere
from lockwork import ConfigError, Lockwork, ServerRefused, ServerUnavailable, ServerUnsuitable
from lockwork.protocol import slots
from ports import free_port
from processes import until, worker
from sentinels import Node, start_server, watched


@pytest.fixture(scope="module")
def still(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three primaries whose slots do not move."""
    with clustered(tmp_path_factory.mktemp("still")) as found:
        yield found


@pytest.fixture
def moving(tmp_path: Path) -> Iterator[Cluster]:
    """Three primaries with a replica each, for one test only."""
    with clustered(tmp_path / "nodes", replicas=1) as found:
        yield found


def test_locks_of_all_shards(still: Cluster) -> None:
    with Lockwork(still.url) as app:
        names = names_everywhere(still)
        grants = [app.lock(name).acquire() for name in names]
        for name, node in zip(names, still.nodes, strict=False):
            assert node.client.exists(f"lw:{{lock:{name}}}")
        assert {each.name for each in app.locks().locks} == set(names)
        for grant in grants:
            grant.release()
        with app.multilock(*names):
            assert all(app.lock(name).locked() for name in names)
        assert app.locks().locks == ()
        assert repr(app) == f"<Lockwork on the Cluster at {still.url.partition('://')[2]}>"
        assert app.runtime.found == "the Cluster has 3 shards"


async def test_async_locks_of_all_shards(still: Cluster) -> None:
    async with Lockwork(still.url) as app:
        names = names_everywhere(still)
        await asyncio.gather(*(app.lock(name).aacquire() for name in names))
        assert {each.name for each in (await app.alocks()).locks} == set(names)
        await app.arelease_all()
        async with app.multilock(*names):
            assert await app.lock(names[0]).alocked()


def test_waiters_of_all_shards_are_woken(still: Cluster) -> None:
    with Lockwork(still.url) as holder, Lockwork(still.url) as other:
        names = names_everywhere(still)
        grants = [holder.lock(name).acquire() for name in names]
        waiting = [threading.Thread(target=other.lock(name).acquire) for name in names]
        for each in waiting:
            each.start()
        for name in names:
            until(lambda name=name: holder.lock(name).inspect().waiters == 1, "it waits")  # type: ignore[misc]
        for grant in grants:
            grant.release()
        for each in waiting:
            each.join(3)
            assert not each.is_alive()


def test_partitions_spread_over_the_shards(still: Cluster) -> None:
    with Lockwork(still.url, partitions={"mail": 6}) as app:

        @app.task(queue="mail")
        def send(number: int) -> None: ...

        for number in range(60):
            send.options(key=f"user:{number}").enqueue(number)
        homes = Counter(still.owner(slots.slot(slots.tag(f"mail/{number}"))).port for number in range(6))
        assert sorted(homes.values()) == [2, 2, 2]
        status = app.queue("mail").status()
        assert status.ready + status.scheduled == 60
        assert len(app.queues()) == 6
        assert all(node.client.dbsize() for node in still.nodes)
        assert app.queue("mail").clear() == 60


def test_clients_of_redis_py(still: Cluster) -> None:
    node: Any = redis.cluster.ClusterNode
    place = node("127.0.0.1", still.nodes[0].port)
    with redis.RedisCluster(startup_nodes=[place]) as client, Lockwork(client=client) as app:
        app.lock("client").acquire()
        app.lock("client").release()


async def test_asyncio_clients_of_redis_py(still: Cluster) -> None:
    client: Any = redis.asyncio.RedisCluster(host="127.0.0.1", port=still.nodes[0].port)
    async with Lockwork(client=client) as app:
        await app.lock("client").aacquire()
        await app.lock("client").arelease()
    await client.aclose()


@pytest.mark.parametrize(
    ("url", "error", "message"),
    [
        (
            "redis://127.0.0.1:{node}",
            ServerUnsuitable,
            r"is a node of a Cluster: use the URL redis\+cluster://127.0.0.1:\d+$",
        ),
        (
            "redis://127.0.0.1:{node}/3",
            ServerRefused,
            "/3 has no such database .*: correct the number .*; a Cluster usually has database 0 alone",
        ),
        ("redis+cluster://127.0.0.1:{node}/3", ServerRefused, "/3 has no such database .*: correct the number"),
        ("redis+cluster://127.0.0.1:{free}", ServerUnavailable, "no node of the Cluster at .* answers"),
        ("redis+cluster://127.0.0.1:{free},127.0.0.1:{single}", ServerUnsuitable, "is no node of a Cluster: use a"),
        ("redis+cluster://127.0.0.1:{empty}", ServerUnavailable, "knows of no node that serves slots: create"),
        ("redis+cluster://127.0.0.1:{sentinel}", ServerUnsuitable, r"it is a Sentinel \(use redis\+sentinel://\)"),
    ],
)
def test_unusable_cluster_address_is_one_clear_error(
    still: Cluster, ports: dict[str, int], url: str, error: type[Exception], message: str
) -> None:
    with Lockwork(url.format(node=still.nodes[0].port, **ports), patience=0.5) as app:
        for ask in (app.lock("x").acquire, app.locks, app.queues):
            with pytest.raises(error, match=message):
                ask()

        async def other_world() -> None:
            for ask in (app.lock("x").aacquire, app.alocks, app.aqueues):
                with pytest.raises(error, match=message):
                    await ask()
            await app.aclose()

        asyncio.run(other_world())


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, int]]:
    """Ports without a usable Cluster: a free port, a single server, a node without slots, and a Sentinel."""
    folder = tmp_path_factory.mktemp("ports")
    with ExitStack() as stack:
        single = start_server(stack, folder / "single", {"save": ""})
        empty = start_server(stack, folder / "empty", {"save": "", "cluster-enabled": "yes"})
        (sentinel,) = stack.enter_context(watched(folder / "sentinel", replicas=0, sentinels=1)).sentinels
        yield {"free": free_port(), "single": single.port, "empty": empty.port, "sentinel": sentinel.port}


@pytest.mark.parametrize("url", ["redis+cluster://", "redis+cluster://a,,b", "redis+cluster://a:1/x"])
def test_malformed_cluster_url_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="of a Cluster"):
        Lockwork(url)


def test_unserved_slot_is_one_clear_error(moving: Cluster) -> None:
    slot = slots.slot("lock:x")
    other = next(name for name in map(str, range(100)) if slots.slot(f"lock:{name}") != slot)
    with Lockwork(moving.url, patience=1) as app:
        app.lock("x").acquire()
        app.lock("x").release()
        for node in moving.primaries():
            node.client.execute_command("CLUSTER", "DELSLOTS", slot)
        with pytest.raises(ServerUnavailable, match=f"'CLUSTERDOWN .*'; no node serves slot {slot}$"):
            app.lock(other).acquire()
        for node in moving.nodes:
            node.client.config_set("cluster-require-full-coverage", "no")
        until(lambda: all(_serves(node) for node in moving.nodes), "the other slots are served")
        app.lock(other).acquire()
        with pytest.raises(ServerUnavailable, match=f"serves slot {slot}"):
            app.lock("x").acquire()
        app.release_all()


def _serves(node: Node) -> bool:
    return bool(node.client.execute_command("CLUSTER INFO")["cluster_state"] == "ok")


async def test_lock_is_usable_while_its_slot_moves(moving: Cluster) -> None:
    slot = slots.slot("lock:x")
    async with Lockwork(moving.url, lock_lease=3) as app:
        grant = await app.lock("x").aacquire()
        await asyncio.to_thread(app.lock("x").inspect)
        for to in moving.nodes[:3]:
            await asyncio.to_thread(moving.move, slot, to)
            assert (await app.lock("x").ainspect()).owner is not None
            assert (await asyncio.to_thread(app.lock("x").inspect)).fence == grant.fence
        home = moving.owner(slot).client
        ends = home.hget("lw:{lock:x}", "d")
        await asyncio.to_thread(until, lambda: home.hget("lw:{lock:x}", "d") != ends, "the lease is renewed there")
        assert not grant.lost
        await grant.arelease()


async def test_key_in_migration_is_found_by_ask(moving: Cluster) -> None:
    slot = slots.slot("lock:x")
    source = moving.owner(slot)
    target = next(node for node in moving.nodes[:3] if node is not source)
    async with Lockwork(moving.url) as app:
        await app.lock("x").aacquire()
        begin_move(source, target, slot)
        source.client.execute_command("MIGRATE", "127.0.0.1", target.port, "", 0, 5000, "KEYS", "lw:{lock:x}")
        assert (await app.lock("x").ainspect()).owner is not None
        assert (await asyncio.to_thread(app.lock("x").inspect)).owner is not None
        end_move(moving, target, slot)
        await app.lock("x").arelease()


@pytest.mark.parametrize("way", ["blocking", "in a loop"])
def test_call_for_several_keys_waits_until_its_slot_has_moved(moving: Cluster, way: str) -> None:
    """While a slot's keys are on two nodes, both nodes answer TRYAGAIN."""
    slot = slots.slot("q:default")
    source = moving.owner(slot)
    target = next(node for node in moving.nodes[:3] if node is not source)
    with Lockwork(moving.url, patience=0.5) as hasty, Lockwork(moving.url, patience=20) as app:

        @app.task
        def send(number: int) -> None: ...

        send.enqueue(1)
        begin_move(source, target, slot)
        first, *others = source.client.execute_command("CLUSTER", "GETKEYSINSLOT", slot, 100)
        assert others
        migrate = ("MIGRATE", "127.0.0.1", target.port, "", 0, 5000, "KEYS")
        source.client.execute_command(*migrate, first)
        with pytest.raises(ServerUnavailable, match="TRYAGAIN"):
            hasty.queue().clear()

        def finish() -> None:
            source.client.execute_command(*migrate, *others)
            end_move(moving, target, slot)

        later = threading.Timer(0.5, finish)
        later.start()
        if way == "blocking":
            send.enqueue(2)
        else:
            asyncio.run(send.aenqueue(2))
        later.join()
        assert app.queue().status().ready == 2


async def test_calls_of_a_loop_share_one_connection_to_each_shard(still: Cluster) -> None:
    def connections() -> list[int]:
        return [len(node.client.client_list(_type="normal")) for node in still.nodes]

    before = connections()
    async with Lockwork(still.url) as app:
        await asyncio.gather(*(app.lock(f"many-{number}").aacquire() for number in range(300)))
        more = [now - then for now, then in zip(connections(), before, strict=True)]
        assert max(more) <= 2, "the loop's, and the engine's that renews the leases"
        await app.arelease_all()


def test_calls_and_leases_follow_a_killed_primary(moving: Cluster) -> None:
    names = names_everywhere(moving)
    with Lockwork(moving.url, patience=30, lock_lease=15) as app:
        grants = [app.lock(name).acquire() for name in names]
        killed = moving.nodes[0]
        replica = moving.nodes[3]
        until(lambda: replica.client.info("replication")["master_link_status"] == "up", "it follows")
        killed.client.incr(f"{{lock:{names[0]}}}written")
        assert killed.client.wait(1, 5000) == 1
        killed.signal(signal.SIGKILL)
        killed.process.wait()
        app.lock(names[0]).inspect()
        assert replica.client.role()[0] == "master"
        for grant in grants:
            assert not grant.lost
            grant.release()


def test_worker_continues_while_slots_move_and_a_primary_dies(moving: Cluster, apps: Path, tmp_path: Path) -> None:
    started, gate = tmp_path / "started", tmp_path / "gate"
    with (
        Lockwork(moving.url, patience=30) as app,
        worker("good:lw", "--lease", "10s", url=moving.url, folder=apps) as process,
    ):

        @app.task(retries=0)
        async def gated(started: str, gate: str) -> str: ...  # type: ignore[empty-body]

        job = gated.enqueue(str(started), str(gate))
        until(started.exists, "it runs", 20)
        slot = slots.slot("q:default")
        home = moving.owner(slot)
        moving.move(slot, next(node for node in moving.nodes[:3] if node is not home))
        gate.touch()
        assert job.result(30) == "done"
        primary = moving.owner(slot)
        primary.signal(signal.SIGKILL)
        primary.process.wait()
        assert gated.enqueue(str(started), str(gate)).result(60) == "done"
        assert process.process.poll() is None
