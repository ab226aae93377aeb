"""Script calls of each reader of an overview: they grow with the queues, not with the parts that are shown."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import httpx
import pytest
from click.testing import CliRunner

from clients import client_of
from commandstats import script_calls
from lockwork import Lockwork, ServerRefused
from lockwork.cli.commands import cli
from lockwork.cli.top_watcher import Watcher
from lockwork.dashboard import app
from lockwork.inspection.overview import OverviewReader, Part
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queue import leases
from lockwork.telemetry.cluster import ClusterFamilies

QUEUES = 40


@pytest.fixture
def shop(own_url: str) -> Iterator[Lockwork]:
    """Queues with a ready job each."""
    with Lockwork(own_url) as lw:
        for number in range(QUEUES):
            lw.task(queue=f"mail{number:02}", name=f"send{number}")(print).enqueue()
        yield lw


def calls(lw: Lockwork, url: str, read: Callable[[], object]) -> int:
    """Return the fewest script calls of three uses of a reader: its first use may make more, and so may a slow one."""
    lw.queues()
    counts = []
    with client_of(url) as admin:
        for _ in range(3):
            before = script_calls(admin)
            read()
            counts.append(script_calls(admin) - before)
    return min(counts)


def run(url: str, *words: str) -> Callable[[], object]:
    def command() -> None:
        found = CliRunner().invoke(cli, [*words, "--url", url])
        assert found.exit_code in (0, 1), found.output

    return command


def page(url: str, path: str) -> Callable[[], object]:
    async def read() -> None:
        async with Lockwork(url) as other:
            transport = httpx.ASGITransport(app(other), client=("127.0.0.1", 5000))
            async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as browser:
                (await browser.get(path)).raise_for_status()

    return lambda: asyncio.run(read())


def readers(lw: Lockwork, url: str) -> dict[str, tuple[Callable[[], object], int]]:
    """Each reader, and its most script calls: three for each queue if it shows metrics and ages, else fewer."""
    return {
        "status": (run(url, "status"), 130),
        "doctor": (run(url, "doctor"), 100),
        "queue": (run(url, "queue"), 46),
        "top": (Watcher(lw).read, 130),
        "exporter": (ClusterFamilies(lw.runtime, "lw").read, 130),
        "/": (page(url, "/"), 180),
        "/queues": (page(url, "/queues"), 132),
        "/workers": (page(url, "/workers"), 2),
    }


def serve_all(lw: Lockwork) -> None:
    """Let one worker process serve all queues."""
    for number in range(QUEUES):
        lw.runtime.run(leases.beat(QueueKeys("lw", f"mail{number:02}"), {"host/1/a": True}, 600_000, 1.0))


@pytest.mark.parametrize("served", [False, True])
def test_each_reader_makes_few_calls(shop: Lockwork, own_url: str, served: bool) -> None:
    if served:
        serve_all(shop)
    counts = {name: (calls(shop, own_url, read), most) for name, (read, most) in readers(shop, own_url).items()}
    assert not {name: each for name, each in counts.items() if each[0] > each[1]}


def test_partitions_of_one_overview_know_their_own_ages(own_url: str) -> None:
    with Lockwork(own_url, partitions={"mail": 2}) as lw:
        lw.task(queue="mail", name="send")(print).options(key="ada").enqueue()
        ready = [queue.name for queue in lw.queue("mail").partitions if queue.status().ready]
        overview = OverviewReader().read(lw.runtime, Part.QUEUES | Part.AGES)
    assert [each.name for each in overview.partitions if each.oldest.seconds] == ready


def test_workers_of_several_queues_are_read_in_one_call_each(shop: Lockwork, own_url: str) -> None:
    serve_all(shop)
    reader = OverviewReader()
    overview = reader.read(shop.runtime, Part.QUEUES)
    assert {worker.session for queue in overview.partitions for worker in queue.workers} == {"host/1/a"}
    shop.runtime.run(leases.beat(QueueKeys("lw", "mail07"), {"host/2/b": True}, 600_000, 1.0))
    (changed,) = reader.read(shop.runtime, Part.QUEUES, names=["mail07"]).partitions
    assert changed.sessions == ["host/1/a", "host/2/b"]


def test_refused_queue_is_left_out_only_on_request(shop: Lockwork, own_url: str) -> None:
    with client_of(own_url) as admin:
        key = QueueKeys("lw", "mail03").stats
        admin.delete(key)
        admin.set(key, "of another program")
        with pytest.raises(ServerRefused):
            OverviewReader().read(shop.runtime, Part.QUEUES)
        overview = OverviewReader().read(shop.runtime, Part.QUEUES, skip_refused=True)
        assert len(overview.partitions) == QUEUES - 1
        admin.delete(key)
