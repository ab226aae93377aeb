"""Server cost of each page with many jobs; LOCKWORK_DASHBOARD_JOBS=1000000 makes them a million."""

from __future__ import annotations

import gzip
import os
import re
import time
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

import httpx
import pytest
import redis
import redis.asyncio

from commandstats import script_calls
from dashboard.browsing import aside
from lockwork import Lockwork
from lockwork.dashboard import app
from lockwork.dashboard.pages import jobs
from lockwork.ids import new_ids
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queue import enqueue, leases
from lockwork.protocol.queue.enqueue import NewJob
from lockwork.protocol.queue.leases import Outcome

JOBS = int(os.environ.get("LOCKWORK_DASHBOARD_JOBS", "20000"))
PAGE_MS = 50
CALL_MS = 5
PAGES = (
    "/", "/?range=7d", "/queues", "/queues/bulk", "/dead", "/tasks", "/workers", "/locks", "/jobs", "/jobs?state=ready",
    "/jobs?state=dead&queue=bulk", "/jobs?key=user:7", "/jobs?since=1h", "/jobs?task=send&state=scheduled",
    "/jobs?state=succeeded", "/jobs?arg=none", "/jobs?arg=424242x", "/jobs?arg=none&oldest=1", "/jobs?error=nothing",
    "/jobs?error=nothing&state=dead", "/jobs?q=nowhere", "/jobs?tag=none", "/jobs/change?do=delete&state=ready",
    "/flows", "/flows?state=failed", "/flow/{flow}?queue=plans", "/job/{flow}.01500?queue=plans", "/job/{keyed}",
    "/limiters", "/stocks", "/schedules",
)  # fmt: skip
ERROR = b'{"type":"ValueError","message":"no such order","traceback":"%s"}' % (b"  File x\\n" * 60)


def fill(lw: Lockwork, count: int) -> None:
    """Enqueue most jobs, schedule some, let some die and others succeed."""
    keys, run = QueueKeys("lw", "bulk"), lw.runtime.run
    run(leases.beat(keys, {"host/1/a": True}, 600_000, 60))
    for kind in "ds":
        for _ in range(count // 20 // 500):
            run(enqueue.push(keys, [NewJob(id, record(at), 0) for at, id in enumerate(new_ids(500))]))
            held = run(leases.reserve(keys, "host/1/a", 500, new_ids(1)[0], "")).jobs
            value = ERROR if kind == "d" else b"1"
            ends = [Outcome(job.id, job.token, kind, value, 0) for job in held]  # type: ignore[arg-type]
            run(leases.settle(keys, "host/1/a", ends, 600_000))
    for start in range(0, count * 9 // 10, 1000):
        delay = 3_600_000 if start % 10_000 == 0 else 0
        run(enqueue.push(keys, [NewJob(id, record(start + at), delay) for at, id in enumerate(new_ids(1000))]))


def furnish(lw: Lockwork) -> dict[str, str]:
    """Fill the other pages: flows, including a large one, jobs of a key, limiters, semaphores, stocks."""
    step = lw.task(name="step", queue="plans")(print)
    for _ in range(200):
        lw.chord([step.call(at) for at in range(10)], step).enqueue()
    flow = lw.flow()
    first = flow.add(step.call(0))
    parts = [flow.add(step.call(at), after=[first]) for at in range(3000)]
    flow.add(step.call(0), after=parts)
    keyed = [step.options(key="user:7").enqueue(at) for at in range(300)]
    for at in range(100):
        lw.semaphore(f"gpu:{at}", 4, lease=600).acquire()
    for at in range(300):
        lw.limiter(f"user:{at}", "100/h").acquire(at % 100 + 1)
        phones = lw.stock(f"phones:{at}", 100, queue="plans")
        phones.confirm(phones.reserve("ada", 3))
    return {"{flow}": flow.enqueue().id, "{keyed}": keyed[200].id}


def record(at: int) -> bytes:
    """A record of about 120 bytes."""
    return b'1,4,,;["send",[%d,"user%d@example.com","Your order %d was sent, thank you for it"]]' % (at, at, at)


@pytest.fixture
def names(own_url: str) -> dict[str, str]:
    """Values for the ids in PAGES."""
    with Lockwork(own_url) as lw:
        return aside(lambda: furnish(lw))


@pytest.fixture
async def board(own_url: str) -> AsyncIterator[httpx.AsyncClient]:
    with Lockwork(own_url) as lw:
        aside(lambda: fill(lw, JOBS))
    async with Lockwork(own_url) as lw:
        transport = httpx.ASGITransport(app(lw, allow_actions=True), client=("127.0.0.1", 5000))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost", timeout=60) as browser:
            yield browser


class Used(NamedTuple):
    """The server's total work: milliseconds of CPU time, independent of other programs, and calls."""

    ms: float
    calls: int

    @classmethod
    def of(cls, admin: redis.Redis) -> Used:
        """Read it."""
        cpu: dict[str, Any] = admin.info("cpu")
        return cls((cpu["used_cpu_user"] + cpu["used_cpu_sys"]) * 1000, script_calls(admin))


@pytest.mark.timeout(600)
async def test_page_costs_the_server_little(
    board: httpx.AsyncClient, names: dict[str, str], own_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    admin = redis.Redis.from_url(own_url)
    lines: list[str] = []
    dear: list[str] = []
    for shown in PAGES:
        path = re.sub(r"\{\w+\}", lambda found: names[found[0]], shown)
        await board.get(path)  # scripts are loaded, connections open
        before, started = Used.of(admin), time.perf_counter()
        answer = await board.get(path, headers={"Accept-Encoding": "identity"})
        first_byte = time.perf_counter() - started
        after = Used.of(admin)
        assert answer.status_code == 200, answer.text[-500:]
        size, cost, calls = len(gzip.compress(answer.content, 6)), after.ms - before.ms, after.calls - before.calls
        said = re.search(r"searched ([\d,]+) of", answer.text)
        records = int(said[1].replace(",", "")) if said else 0
        lines.append(
            f"{shown:36} {cost:5.1f} ms of the server in {calls:3} calls, {records:5,} jobs searched, "
            f"first byte after {first_byte * 1000:5.1f} ms, {size / 1000:3.1f} kB"
        )
        each = cost / max(1, calls)
        if cost > PAGE_MS or each > CALL_MS or records > 1000 * calls or size > 100_000:
            dear.append(lines[-1])
    admin.close()
    with capsys.disabled():
        print("", f"{JOBS:,} jobs", *lines, sep="\n")
    assert not dear, "\n".join(dear)


async def test_search_says_how_far_it_is_and_goes_on(board: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "_LONG", 0.0)
    page = (await board.get("/jobs?arg=none&state=ready")).text
    assert "searched 2,000 of" in page
    link = page.partition('rel="next" href="')[2].partition('"')[0].replace("&amp;", "&")
    assert "Go on" in page
    page = (await board.get(link)).text
    assert "searched 4,000 of" in page
