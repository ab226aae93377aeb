"""Overviews, multilocks and late calls across several shards of a Cluster."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator

import pytest

from clusters import Cluster, clustered, names_everywhere
from lockwork import Lockwork
from lockwork.protocol import slots
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.schedules.schedules import Ticker
from lockwork.protocol.scripts import on_cluster
from lockwork.runtime.cluster import ClusterEndpoint
from lockwork.runtime.endpoint import Endpoint
from processes import until
from proxy import proxied


@pytest.fixture(scope="module")
def still(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three primaries whose slots do not move."""
    with clustered(tmp_path_factory.mktemp("still")) as found:
        yield found


@pytest.fixture(autouse=True)
def empty(still: Cluster) -> Iterator[None]:
    yield
    for node in still.nodes:
        node.client.flushall()


def test_overviews_walk_all_shards(still: Cluster) -> None:
    with Lockwork(still.url) as app:
        queues = [f"shop-{number}" for number in range(12)]
        for queue in queues:
            task = app.task(queue=queue, name=f"send-{queue}", every="1h")(lambda: None)
            task.enqueue()
            app.runtime.run(Ticker(QueueKeys("lw", queue), list(app.plans[queue].values())).turn())
            app.stock(f"stock-{queue}", 5, queue=queue).restock(1)
            app.lock(queue).acquire()
        assert len({still.owner(slots.slot(f"q:{queue}")).port for queue in queues}) == 3
        assert app.queues() == sorted(queues)
        assert {each.name for each in app.locks().locks} == set(queues)
        assert {each.queue for each in app.stocks()} == set(queues)
        assert {each.queue for each in app.schedules()} == set(queues)
        app.release_all()


def test_multilocks_over_slots_never_deadlock(still: Cluster) -> None:
    """The callers name their locks in different orders, but each multilock acquires them in order of slots."""
    names = [*names_everywhere(still), "x", "y"]
    owners: dict[str, int] = {}
    rounds = 15
    done: list[int] = []

    def work(seed: int) -> None:
        order = random.Random(seed)
        with Lockwork(still.url) as app:
            for _ in range(rounds):
                mine = order.sample(names, 3)
                with app.multilock(*mine, wait=30):
                    for name in mine:
                        assert owners.setdefault(name, seed) == seed, "nobody else has it"
                    for name in mine:
                        del owners[name]
                done.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(done) == 4 * rounds


def test_multilock_collects_in_the_order_of_the_slots(still: Cluster) -> None:
    names = names_everywhere(still)
    by_slot = sorted(names, key=lambda name: slots.slot(f"lock:{name}"))
    with Lockwork(still.url) as holder, Lockwork(still.url) as app:
        grant = holder.lock(by_slot[1]).acquire()
        waiting = threading.Thread(target=app.multilock(*reversed(by_slot)).acquire)
        waiting.start()
        until(lambda: holder.lock(by_slot[1]).inspect().waiters == 1, "it waits for the second")
        assert holder.lock(by_slot[0]).locked(), "it has the first"
        assert not holder.lock(by_slot[2]).locked(), "and has not asked for the third"
        grant.release()
        waiting.join(10)
        assert not waiting.is_alive()


@pytest.mark.parametrize("number", [0, 1, 2])
def test_call_that_comes_late_is_ended_at_its_own_node(
    still: Cluster, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """A request is delayed on its way to one node; when its caller gives up, that node closes the connection."""
    node = still.nodes[number]
    name = names_everywhere(still)[number]
    with proxied(f"127.0.0.1:{node.port}") as proxy:
        port = int(proxy.url.rpartition(":")[2].partition("/")[0])
        made = ClusterEndpoint._node

        def through(cluster: ClusterEndpoint, place: tuple[str, int]) -> Endpoint:
            found = made(cluster, place)
            if place[1] == node.port:
                found.options = {**found.options, "port": port}
            return found

        monkeypatch.setattr(ClusterEndpoint, "_node", through)
        with Lockwork(still.url, patience=0.3) as app:
            for each in names_everywhere(still):
                with app.lock(each):  # the servers have the scripts, and the connections are open
                    pass
            proxy.lose(on_cluster("locks/acquire").sha, "late")
            grant = app.lock(name, wait=5).acquire()
            fence = grant.fence
            grant.release()
            proxy.deliver_late()
            assert not app.lock(name).locked(), "the first request took no effect"
            assert app.lock(name).acquire().fence > fence
            app.release_all()
