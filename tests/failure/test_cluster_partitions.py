"""A partitioned queue on a Cluster: each shard serves its share, and a hanging shard does not delay the others."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from clusters import Cluster, clustered
from hanging import frozen
from history import History
from lockwork import Lockwork
from lockwork.errors import QueueFull
from lockwork.protocol import slots
from processes import until, worker


@pytest.fixture
def still(tmp_path: Path) -> Iterator[Cluster]:
    """Three primaries that never declare a silent node failed, and serve their own slots without it."""
    with clustered(tmp_path / "nodes") as numbers:
        for node in numbers.nodes:
            node.client.config_set("cluster-node-timeout", 60_000)
            node.client.config_set("cluster-require-full-coverage", "no")
        yield numbers


def shard(cluster: Cluster, queue: str) -> int:
    """Return the number of the node with a partition."""
    return cluster.nodes.index(cluster.owner(slots.slot(slots.tag(queue))))


def tasks(app: Lockwork) -> Any:
    """Define the workers' task, to enqueue it here."""

    @app.task(queue="mail", key="{name}", name="mark")
    async def mark(path: str, name: str, number: int) -> None: ...

    return mark


def per_name(history: History) -> dict[str, list[int]]:
    """Return the numbers of each key's jobs, in the order of their runs."""
    numbers: dict[str, list[int]] = {}
    for line in history.lines("ran"):
        numbers.setdefault(line["name"], []).append(line["number"])
    return numbers


def test_worker_drains_all_shards_evenly(still: Cluster, apps: Path, history: History) -> None:
    with Lockwork(still.url, partitions={"mail": 6}) as app:
        mark = tasks(app)
        names = [f"user:{number}" for number in range(300)]
        mark.enqueue_many([(history.path, name, number) for number in range(3) for name in names])
        homes = [app.config.partitions.place("mail", name) for name in names]
        assert sorted(Counter(shard(still, f"mail/{number}") for number in range(6)).values()) == [2, 2, 2]
        with worker("spread:lw", "-q", "mail", "-c", "6", "--burst", url=still.url, folder=apps) as one:
            assert one.wait() == 0
        lines = history.lines("ran")
        assert len(lines) == 900
        assert per_name(history) == {key: [0, 1, 2] for key in names}
        half = Counter(line["queue"] for line in lines[:450])
        whole = Counter(homes)
        for queue, count in whole.items():
            assert half[queue] > count / 2, "at half-time each has had at least a third of its share"


def test_hung_shard_holds_up_only_its_own_partitions(still: Cluster, apps: Path, history: History) -> None:
    with Lockwork(still.url, partitions={"mail": 6}, patience=2) as app:
        mark = tasks(app)
        names = [f"user:{number}" for number in range(60)]
        hung = {name for name in names if shard(still, app.config.partitions.place("mail", name)) == 0}
        assert 5 < len(hung) < 55
        with worker("spread:lw", "-q", "mail", "--lease", "30s", url=still.url, folder=apps) as process:
            mark.enqueue_many([(history.path, name, 0) for name in names])
            history.wait(len(names))
            with frozen(still.nodes[0].process.pid):
                for number in (1, 2):
                    for name in sorted(set(names) - hung):
                        mark.enqueue(history.path, name, number)
                history.wait(len(names) + 2 * (len(names) - len(hung)))
            for number in (1, 2):
                for name in sorted(hung):
                    mark.enqueue(history.path, name, number)
            history.wait(3 * len(names))
            assert process.process.poll() is None
        assert per_name(history) == {key: [0, 1, 2] for key in names}


def test_growth_keeps_every_job_and_the_order_of_every_key(
    still: Cluster, apps: Path, history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The steps from docs/queues.md: stop enqueuing, drain, and restart all processes with the new number."""
    names = [f"user:{number}" for number in range(100)]
    monkeypatch.setenv("PARTITIONS", "8")
    with (
        Lockwork(still.url, partitions={"mail": 8}) as app,
        worker("spread:lw", "-q", "mail", url=still.url, folder=apps),
    ):
        mark = tasks(app)
        mark.enqueue_many([(history.path, name, number) for number in range(5) for name in names])
        app.queue("mail").limit(size=0)
        with pytest.raises(QueueFull):
            mark.enqueue(history.path, names[0], 5)
        app.queue("mail").drain(30, delayed=True)
        app.queue("mail").limit(size=None)
    monkeypatch.setenv("PARTITIONS", "16")
    with (
        Lockwork(still.url, partitions={"mail": 16}) as app,
        worker("spread:lw", "-q", "mail", url=still.url, folder=apps),
    ):
        mark = tasks(app)
        mark.enqueue_many([(history.path, name, number) for number in range(5, 10) for name in names])
        until(lambda: len(history.lines("ran")) >= 1000, "all have run")
        assert per_name(history) == {key: list(range(10)) for key in names}
        moved = [name for name in names if len({line["queue"] for line in history.lines() if line["name"] == name}) > 1]
        assert moved, "keys have gone to other partitions"


async def test_wake_ups_reach_a_worker_on_every_shard(still: Cluster, apps: Path, history: History) -> None:
    """Run one job at a time on each partition, so that the worker sleeps in between."""
    async with Lockwork(still.url, partitions={"mail": 6}) as app:
        mark = tasks(app)
        names = {app.config.partitions.place("mail", f"user:{number}"): f"user:{number}" for number in range(100)}
        assert len(names) == 6
        with worker("spread:lw", "-q", "mail", url=still.url, folder=apps):
            loop = asyncio.get_running_loop()
            late: list[float] = []
            for number in range(4):
                for name in names.values():
                    count = len(history.lines("ran"))
                    since = loop.time()
                    await mark.aenqueue(history.path, name, number)
                    await asyncio.to_thread(history.wait, count + 1)
                    late.append(loop.time() - since)
            assert sorted(late[6:])[len(late[6:]) // 2] < 0.1
