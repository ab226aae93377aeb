"""What lists cost beside other programs' keys: each of them beside none, and beside millions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import perf_counter
from typing import NamedTuple

import httpx
import redis

from benchmarks.figures import Bench, Figure
from lockwork import Lockwork
from lockwork.dashboard import app
from lockwork.doctor.findings import examine, findings
from lockwork.telemetry.cluster import ClusterFamilies

FOREIGN = 5_000_000
_BATCH = 10_000
_QUEUES = 20
_PAGES = (
    "/",
    "/queues",
    "/jobs",
    "/tasks",
    "/flows",
    "/schedules",
    "/workers",
    "/dead",
    "/locks",
    "/limiters",
    "/stocks",
)
_MOST = 1.1
"""How many times as many commands a list may cost beside the foreign keys: what runs beside it, and no walk."""


class Cost(NamedTuple):
    """What a list costs: the time of the fastest call, and the commands of the one with the fewest."""

    ms: float
    commands: int


def listing(bench: Bench) -> list[Figure]:
    """Measure each list, then write foreign keys, and measure it again."""
    with redis.Redis.from_url(bench.url) as client, Lockwork(bench.url) as lw:
        client.flushall()
        _fill(lw)
        lists = _lists(lw, bench.url)
        with lw.lock("held"):
            alone = {name: _cost(bench, client, read) for name, read in lists.items()}
            foreign = bench.count(FOREIGN)
            for at in range(0, foreign, _BATCH):
                client.mset({f"session:{number}": "x" for number in range(at, min(foreign, at + _BATCH))})
            beside = {name: _cost(bench, client, read) for name, read in lists.items()}
        client.flushall()
    return [_figure(name, foreign, alone[name], beside[name]) for name in lists]


def _figure(name: str, foreign: int, alone: Cost, beside: Cost) -> Figure:
    times = (("ms beside none", alone.ms), (f"ms beside {foreign:,}", beside.ms))
    floor, names = "without foreign keys", f"{name}, {foreign:,} foreign keys"
    return Figure(names, "commands", beside.commands, alone.commands, floor, _MOST, True, True, times)


def _fill(lw: Lockwork) -> None:
    for number in range(_QUEUES):

        @lw.task(name=f"send{number}", queue=f"queue{number}")
        def send(user: int) -> None: ...

        send.enqueue_many([(user,) for user in range(10)])
        lw.stock(f"stock{number}", 10, queue=f"queue{number}").reserve("ann")
        lw.limiter(f"limiter{number}", "1/h").acquire()
        lw.group([send.call(1), send.call(2)]).enqueue()


def _lists(lw: Lockwork, url: str) -> dict[str, Callable[[], object]]:
    return {
        "status's findings": lambda: findings(lw),
        "lw.queues()": lw.queues,
        "lw.schedules()": lw.schedules,
        "lw.flows()": lw.flows,
        "lw.stocks()": lw.stocks,
        "lw.limiters()": lw.limiters,
        "lw.locks()": lw.locks,
        "doctor": lambda: examine(lw),
        "exporter": lambda: ClusterFamilies(lw.runtime, "lw").read(),
        **{f"page {path}": page(path, url) for path in _PAGES},
    }


def page(path: str, url: str) -> Callable[[], object]:
    """Return a function that reads a page of the dashboard."""
    return lambda: asyncio.run(_page(url, path))


async def _page(url: str, path: str) -> None:
    async with Lockwork(url) as lw:
        transport = httpx.ASGITransport(app(lw), client=("127.0.0.1", 5000))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8787") as browser:
            (await browser.get(path)).raise_for_status()


def _cost(bench: Bench, client: redis.Redis, read: Callable[[], object]) -> Cost:
    times, commands = list[float](), list[int]()
    for _ in range(max(3, bench.rounds)):
        before = _commands(client)
        began = perf_counter()
        read()
        times.append(1000 * (perf_counter() - began))
        commands.append(_commands(client) - before)
    return Cost(min(times), min(commands))


def _commands(client: redis.Redis) -> int:
    """How many commands the server has run, those of scripts, too."""
    return sum(int(each["calls"]) for each in client.info("commandstats").values())
