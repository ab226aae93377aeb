"""Calls to all shards of a Cluster: one parallel round trip per shard."""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from clusters import Cluster, clustered, count_calls, names_everywhere
from hanging import frozen
from lockwork import Lockwork, ServerUnavailable
from lockwork.protocol import slots
from lockwork.protocol.effects import Call, Calls, Effect, Protocol, script_call
from lockwork.runtime.sync_connection import Wire
from lockwork.runtime.sync_driver import SyncDriver
from processes import until


@pytest.fixture(scope="module")
def still(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three primaries whose slots do not move."""
    with clustered(tmp_path_factory.mktemp("still")) as found:
        yield found


class Writes:
    """Counts the writes of blocking connections."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ports: list[int] = []
        send = Wire.send

        def counted(wire: Wire, packed: bytes) -> None:
            self.ports.append(wire._endpoint.options["port"])
            send(wire, packed)

        monkeypatch.setattr(Wire, "send", counted)


@pytest.mark.parametrize("partitions", [6, 48])
def test_status_of_a_queue_is_one_round_trip_per_shard(
    still: Cluster, monkeypatch: pytest.MonkeyPatch, partitions: int
) -> None:
    with Lockwork(still.url, partitions={"mail": partitions}) as app:
        send = app.task(queue="mail", name="send")(lambda: None)
        for number in range(60):
            send.options(key=f"user:{number}").enqueue()
        app.queue("mail").status()  # open the connection, and load the script
        before = count_calls(still, "evalsha")
        writes = Writes(monkeypatch)
        status = app.queue("mail").status()
        assert status.ready + status.scheduled == 60
        assert sorted(writes.ports) == sorted(node.port for node in still.nodes)
        assert count_calls(still, "evalsha") - before == partitions, "one script for each partition"
        assert app.queue("mail").clear() == 60


@pytest.fixture
def turns(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the number of calls in each round trip of this thread: engines call at any time."""
    sizes: list[int] = []
    perform, caller = SyncDriver.perform, threading.get_ident()

    def counted(driver: SyncDriver, effect: Effect) -> Any:
        if isinstance(effect, Call | Calls) and threading.get_ident() == caller:
            sizes.append(len(effect.calls) if isinstance(effect, Calls) else 1)
        return perform(driver, effect)

    monkeypatch.setattr(SyncDriver, "perform", counted)
    return sizes


def test_overviews_read_all_shards_at_once(still: Cluster, turns: list[int]) -> None:
    with Lockwork(still.url) as app:
        names = names_everywhere(still, "lock")
        grants = [app.lock(name).acquire() for name in names]
        queues = [f"walked-{number}" for number in range(12)]
        for queue in queues:
            app.task(queue=queue, name=queue)(lambda: None).enqueue()
        limiters = [f"walked-{number}" for number in range(12)]
        for limiter in limiters:
            app.limiter(limiter, "5/s").acquire()

        del turns[:]
        assert {lock.name for lock in app.locks().locks} >= set(names)
        assert len(turns) == 2, "the index, then all locks at once"
        del turns[:]
        assert set(app.queues()) >= set(queues)
        assert len(turns) == 2
        del turns[:]
        assert {one.name for one in app.limiters().limiters} >= set(limiters)
        assert len(turns) == 2
        for grant in grants:
            grant.release()


async def test_overviews_in_a_loop(still: Cluster) -> None:
    async with Lockwork(still.url) as app:
        names = names_everywhere(still, "lock")
        grants = [await app.lock(name).aacquire() for name in names]
        assert {lock.name for lock in (await app.alocks()).locks} >= set(names)
        for grant in grants:
            await grant.arelease()


def test_partitions_are_asked_together(still: Cluster, turns: list[int]) -> None:
    """Schedules, job counts, limits and pauses of all partitions take one round trip per shard."""
    with Lockwork(still.url, partitions={"asked": 6}) as app:
        task = app.task(queue="asked", name="asked", cron="0 3 * * *")(lambda: None)
        for number in range(30):
            task.options(key=f"user:{number}").enqueue()
        queue = app.queue("asked")
        for ask in (app.schedules, queue.peek, queue.limits, queue.pause, queue.resume):
            del turns[:]
            ask()
            assert set(turns) == {6}, ask
        assert queue.clear() == 30


async def test_status_in_a_loop(still: Cluster) -> None:
    async with Lockwork(still.url, partitions={"mail": 48}) as app:
        send = app.task(queue="mail", name="send")(lambda: None)
        for number in range(60):
            await send.options(key=f"user:{number}").aenqueue()
        status = await app.queue("mail").astatus()
        assert status.ready + status.scheduled == 60
        assert await app.queue("mail").aclear() == 60


def test_leases_are_renewed_with_one_round_trip_per_shard(still: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    with Lockwork(still.url, lock_lease=3) as app:
        grants = [app.lock(f"many-{number}").acquire() for number in range(200)]
        shards = {still.owner(slots.slot(f"lock:many-{number}")).port for number in range(200)}
        assert len(shards) == 3
        time.sleep(1.5)  # every lease was renewed once
        before = count_calls(still, "evalsha")
        writes = Writes(monkeypatch)
        time.sleep(3)
        assert len(writes.ports) < (count_calls(still, "evalsha") - before) / 4, "leases that are due travel together"
        assert not any(grant.lost for grant in grants)
        app.release_all()


def test_hung_shard_keeps_no_other_lease_from_being_renewed(tmp_path: Path) -> None:
    with clustered(tmp_path / "nodes") as cluster, Lockwork(cluster.url, lock_lease=3, patience=1) as app:
        for node in cluster.nodes:
            node.client.config_set("cluster-node-timeout", 60_000)
            node.client.config_set("cluster-require-full-coverage", "no")
        names = names_everywhere(cluster, "lock")
        grants = [app.lock(name).acquire() for name in names]
        with frozen(cluster.nodes[0].process.pid):
            until(lambda: grants[0].lost, "the lease on the hung shard has ended", 10)
            time.sleep(4)
            assert not grants[1].lost
            assert not grants[2].lost
        grants[1].release()
        grants[2].release()


def states(names: list[str]) -> Protocol[list[Any]]:
    """Inspect the locks with these names in one group of calls."""
    found: list[Any] = yield Calls([script_call("locks/state", f"lw:{{lock:{name}}}", [0]) for name in names])
    return found


def fences(found: list[Any]) -> list[int]:
    """Return the fences in the replies."""
    return [reply[2] for reply in found]


def test_calls_together_follow_a_slot(still: Cluster) -> None:
    """Each call handles a moved slot and an unknown script separately."""
    with Lockwork(still.url) as app:
        names = names_everywhere(still, "lock")
        grants = [app.lock(name).acquire() for name in names]
        for node in still.nodes:
            node.client.script_flush()
        slot = slots.slot(f"lock:{names[0]}")
        still.move(slot, still.nodes[1])

        assert fences(app.runtime.run(states(names))) == [grant.fence for grant in grants]
        assert asyncio.run(_elsewhere(still, names)) == [grant.fence for grant in grants]
        still.move(slot, still.nodes[0])
        app.release_all()


async def _elsewhere(cluster: Cluster, names: list[str]) -> list[int]:
    async with Lockwork(cluster.url) as app:
        return fences(await app.runtime.arun(states(names)))


def test_call_that_fails_is_an_error_in_its_place(tmp_path: Path) -> None:
    with clustered(tmp_path / "nodes") as cluster, Lockwork(cluster.url, patience=0.5) as app:
        for node in cluster.nodes:
            node.client.config_set("cluster-require-full-coverage", "no")
        names = names_everywhere(cluster, "lock")
        grants = [app.lock(name).acquire() for name in names]
        cluster.nodes[0].signal(signal.SIGKILL)
        cluster.nodes[0].process.wait()

        first, *others = app.runtime.run(states(names))
        assert isinstance(first, ServerUnavailable)
        assert fences(others) == [grant.fence for grant in grants[1:]]
