"""Groups of dead jobs: a page shows how much it has read, reads the rest in steps, and follows changes."""

from __future__ import annotations

import asyncio
import html
import random
import re
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeVar, cast

import httpx
import pytest
import redis

from dashboard.conftest import Client, said
from lockwork import Lockwork
from lockwork.dashboard.dead_groups import DeadGroups
from lockwork.ids import new_id, new_ids
from lockwork.protocol.dead import dead
from lockwork.protocol.effects import Protocol
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queue import enqueue, leases
from lockwork.protocol.queue.enqueue import NewJob
from lockwork.protocol.queue.leases import Outcome

SESSION = "host/1/a"
KINDS = [("send", "ValueError"), ("send", "TimeoutError"), ("send", "ValueError"), ("charge", "OSError")]
Kind = tuple[str, str, str]
T = TypeVar("T")


async def bury(lw: Lockwork, partition: str, count: int, kinds: list[tuple[str, str]] = KINDS) -> list[str]:
    """Let jobs of these tasks die of these errors, in turns; returns their ids."""
    if count > 500:
        return await bury(lw, partition, 500, kinds) + await bury(lw, partition, count - 500, kinds)
    keys, run = QueueKeys("lw", partition), lw.runtime.arun
    by_id = dict(zip(new_ids(count), (kinds[at % len(kinds)] for at in range(count)), strict=True))
    await run(leases.beat(keys, {SESSION: True}, 60_000, 1))
    await run(enqueue.push(keys, [NewJob(id, b'1,1,,;["%s",[1]]' % by_id[id][0].encode()) for id in by_id]))
    batch = await run(leases.reserve(keys, SESSION, count, new_id(), ""))
    errors = {job.id: b'{"type":"%s","message":"no"}' % by_id[job.id][1].encode() for job in batch.jobs}
    ends = [Outcome(job.id, job.token, "d", errors[job.id]) for job in batch.jobs]
    assert all(await run(leases.settle(keys, SESSION, ends, 600_000)))
    assert len(ends) == count
    return [*by_id]


@dataclass(frozen=True)
class Shown:
    """The groups of dead jobs on a page."""

    total: int
    newest: int | None
    """Number of newest jobs in the groups; None: all jobs."""
    counts: dict[Kind, int]
    at_most: bool
    last: list[str]
    first: list[str]
    left: int
    next: str | None
    text: str


async def look(browser: httpx.AsyncClient, path: str = "/dead") -> Shown:
    """Read the page once."""
    page = (await browser.get(path)).text
    text = " ".join(html.unescape(re.sub("<[^>]*>", " ", page.partition("<main")[2])).split())
    counts: dict[Kind, int] = {}
    newest: set[str | None] = set()
    last: list[str] = []
    first: list[str] = []
    for section in page.split('<section class="death" id="death-')[1:]:
        names = section[: section.index('"')].split("-")
        found = re.search(r'class="count">(?:at most )?([\d,]+)(?: of the newest ([\d,]+))?</span>', section)
        assert found, section[:1000]
        counts[names[0], names[1], names[2]] = number(found[1])
        newest.add(found[2])
        last += re.findall(r' last <time datetime="([^"]*)"', section)
        first += re.findall(r' first <time datetime="([^"]*)"', section)
    assert len(newest) <= 1
    assert (None in newest) == bool(first)
    total = re.search(r'<h1>Dead <span class="count">([\d,]+)<', page)
    link = re.search(r'rel="next" href="([^"]*)"', page)
    left = re.search(r"Since all were counted .*?, ([\d,]+) of these jobs w", text)
    return Shown(
        number(total[1]) if total else 0,
        next((number(each) for each in newest if each is not None), None),
        counts,
        'class="count">at most ' in page,
        last,
        first,
        number(left[1]) if left else 0,
        html.unescape(link[1]) if link else None,
        text,
    )


def number(text: str) -> int:
    return int(text.replace(",", ""))


async def deaths(lw: Lockwork, *partitions: str) -> list[tuple[float, Kind]]:
    """Read all dead jobs, the newest first: when each died, and its group."""
    found: list[tuple[float, bytes, Kind]] = []
    for partition in partitions:
        after: str | None = ""
        while after is not None:
            keys = QueueKeys("lw", partition)
            page = await lw.runtime.arun(dead.page(keys, dead.Filter(), after, 1000, newest=True))
            queue = partition.partition("/")[0]
            found += [
                (float(job.died), job.id.encode(), (queue, str(job.call.task), job.error.type)) for job in page.jobs
            ]
            after = page.next
    return [(died, kind) for died, _, kind in sorted(found, reverse=True)]


@pytest.fixture
async def asked(client: Client, alw: Lockwork, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[httpx.AsyncClient]:
    """Ask a dashboard whose pages read as little as possible at a time."""
    monkeypatch.setattr("lockwork.dashboard.pages.dead._LONG", 0.0)
    monkeypatch.setattr("lockwork.dashboard.dead_groups._REST", 0)
    async with client(allow_actions=True) as found:
        yield found


async def test_groups_are_of_the_newest_jobs_until_all_are_read(asked: httpx.AsyncClient, alw: Lockwork) -> None:
    partitions = ("mail/0", "mail/1", "mail/2", "bill")
    for count in (700, 30, 500, 1):
        for at, partition in enumerate(partitions):
            await bury(alw, partition, count, KINDS[at:] + KINDS[:at])
    await bury(alw, "bill", 1, [("rare", "KeyError")])
    true = await deaths(alw, *partitions)
    steps = 0
    while (page := await look(asked)).next:
        steps += 1
        assert page.total == len(true)
        assert page.newest is not None
        newest = true[: page.newest]
        # jobs of one millisecond are in the order of their ids
        assert page.counts == Counter(kind for _, kind in newest) or newest[-1][0] == true[page.newest][0]
        assert sum(page.counts.values()) == page.newest
        assert page.last == sorted(page.last, reverse=True)
        assert f"grouped {page.newest:,} of {len(true):,}, the newest first" in page.text
    assert steps > 5
    assert page.counts == Counter(kind for _, kind in true)
    assert [*page.counts] == [*dict.fromkeys(kind for _, kind in true)], "the last death comes first"
    assert page.last == sorted(page.last, reverse=True)
    firsts = {kind: died for died, kind in true}
    assert page.first == [iso(firsts[kind]) for kind in page.counts]
    assert "newest" not in page.text
    again = await look(asked)
    assert again.counts == page.counts
    assert again.next is None


def iso(moment: float | datetime) -> str:
    """Write a moment, or milliseconds since 1970, as a page does."""
    if not isinstance(moment, datetime):
        moment = datetime.fromtimestamp(moment / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


async def whole(browser: httpx.AsyncClient, path: str = "/dead") -> Shown:
    """Look until all is read."""
    while (page := await look(browser, path)).next:
        pass
    return page


async def test_later_deaths_are_added_without_reading_all_again(asked: httpx.AsyncClient, alw: Lockwork) -> None:
    await bury(alw, "mail", 2000)
    before = await whole(asked)
    await bury(alw, "mail", 3, [("send", "OSError")])
    await bury(alw, "bill", 1, [("charge", "OSError")])
    await alw.runtime.arun(leases.beat(QueueKeys("lw", "mail"), {SESSION: True}, 60_000, 1))
    page = await look(asked)
    assert page.next is None
    assert page.counts == {("bill", "charge", "OSError"): 1, ("mail", "send", "OSError"): 3, **before.counts}
    assert [*page.counts][:2] == [("bill", "charge", "OSError"), ("mail", "send", "OSError")]
    assert page.total == 2004


async def test_counts_are_upper_bounds_after_jobs_have_left(asked: httpx.AsyncClient, alw: Lockwork) -> None:
    """Until all are read again, the page says that a group may be smaller."""
    ids = await bury(alw, "mail", 2000)
    page = await look(asked)
    assert page.next is not None
    for id in ids[-30:]:
        assert await alw.queue("mail").dead.aretry(id)
    while (page := await look(asked)).newest is not None:
        assert sum(page.counts.values()) == page.newest
    assert page.total == 1970
    assert (page.left, page.at_most, sum(page.counts.values())) == (30, True, 2000)
    for id in ids[:20]:
        assert await alw.queue("mail").dead.adelete(id)
    page = await look(asked)
    assert page.left in (30, 50)  # it may be reading again
    page = await settled(asked)
    true = await deaths(alw, "mail")
    assert page.counts == Counter(kind for _, kind in true)
    assert len(true) == page.total == 1950


async def settled(browser: httpx.AsyncClient, path: str = "/dead") -> Shown:
    """Look until the page is exact."""
    for _ in range(10_000):
        page = await look(browser, path)
        if page.next is None and not page.at_most and "not in a group yet" not in page.text:
            return page
    raise AssertionError(page)


async def test_job_that_dies_again_while_all_are_read_is_not_counted_twice_for_good(
    asked: httpx.AsyncClient, alw: Lockwork
) -> None:
    ids = await bury(alw, "mail", 1500)
    await look(asked)
    keys, run = QueueKeys("lw", "mail"), alw.runtime.arun
    for id in (ids[0], ids[-1]):
        assert await alw.queue("mail").dead.aretry(id)
    again = (await run(leases.reserve(keys, SESSION, 2, new_id(), ""))).jobs
    ends = [Outcome(job.id, job.token, "d", b'{"type":"KeyError","message":"x"}') for job in again]
    assert all(await run(leases.settle(keys, SESSION, ends, 600_000)))
    page = await settled(asked)
    assert sum(page.counts.values()) == page.total == 1500
    assert page.counts["mail", "send", "KeyError"] == 1


async def test_group_that_was_changed_on_the_page_is_gone_and_the_others_stay_whole(
    asked: httpx.AsyncClient, alw: Lockwork
) -> None:
    await bury(alw, "mail/0", 1500)
    await bury(alw, "mail/1", 500)
    page = await whole(asked)
    kind = ("mail", "charge", "OSError")
    assert page.counts.pop(kind) == 500
    group = {"queue": "mail", "task": "charge", "error": "OSError", "count": "500"}
    assert await said(asked, "/dead", "retry", **group) == "500 jobs run again: OSError in charge."
    after = await look(asked)
    assert (after.counts, after.next, after.at_most, after.total) == (page.counts, None, False, 1500)


async def test_at_most_the_confirmed_number_is_changed(asked: httpx.AsyncClient, alw: Lockwork) -> None:
    await bury(alw, "mail", 5, [("send", "OSError")])
    await whole(asked)
    group = {"queue": "mail", "task": "send", "error": "OSError", "count": "3"}
    assert await said(asked, "/dead", "delete", **group) == "Deleted 3 dead jobs: OSError in send."
    page = await settled(asked)
    assert page.counts == {("mail", "send", "OSError"): 2}


async def test_groups_of_one_queue_and_of_matching_errors(asked: httpx.AsyncClient, alw: Lockwork) -> None:
    await bury(alw, "mail", 600)
    await bury(alw, "bill", 300)
    assert (await whole(asked, "/dead?queue=bill&task=send&text=Timeout")).counts == {
        ("bill", "send", "TimeoutError"): 75
    }
    assert (await whole(asked, "/dead?queue=mail")).total == 600
    assert "No dead job matches" in (await whole(asked, "/dead?text=nonsense")).text


async def test_further_groups_are_on_further_pages(
    asked: httpx.AsyncClient, alw: Lockwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lockwork.dashboard.pages.dead._GROUPS", 2)
    for number in range(5):
        await bury(alw, "mail", 1, [(f"task{number}", "KeyError")])
    found: list[Kind] = []
    link: str | None = "/dead"
    while link is not None:
        page = await look(asked, link)
        found += page.counts
        link = page.next
    assert found == [("mail", f"task{number}", "KeyError") for number in range(4, -1, -1)]
    assert "groups 5 to 5 of 5" in page.text


async def test_times_that_no_calendar_has_are_shown(
    asked: httpx.AsyncClient, alw: Lockwork, admin: redis.Redis
) -> None:
    ids = await bury(alw, "mail", 2)
    admin.zadd(QueueKeys("lw", "mail").dead, {ids[0]: float("-inf"), ids[1]: float("inf")})
    page = await look(asked)
    assert page.total == 2
    assert page.counts == {("mail", "send", "ValueError"): 1}


class Meddled:
    """An app whose server changes before each call of a count, a number of times."""

    partitions = ("mail/0", "mail/1", "bill")

    def __init__(self, lw: Lockwork, chosen: random.Random) -> None:
        self.config = lw.config
        self.runtime = self
        self.ever = Counter[Kind]()
        """Number of jobs of each group that ever died."""
        self.left = 60
        self._lw = lw
        self._chosen = chosen
        self._alone = asyncio.Lock()

    async def arun(self, steps: Protocol[T]) -> T:
        async with self._alone:
            if self.left:
                self.left -= 1
                await self._meddle(self._chosen.choice(self.partitions))
        return await self._lw.runtime.arun(steps)

    async def die(self, partition: str, most: int) -> None:
        kinds = self._chosen.choices(KINDS, k=self._chosen.randint(1, most))
        self.ever.update((partition.partition("/")[0], *kind) for kind in kinds)
        await bury(self._lw, partition, len(kinds), kinds)

    async def _meddle(self, partition: str) -> None:
        held = self._lw.queue(partition).dead
        match self._chosen.choice(("die", "die", "retry", "delete", "nothing")):
            case "die":
                await self.die(partition, 4)
            case "retry":
                for job in (await held.asearch(limit=20)).jobs[-1:]:
                    await held.aretry(job.id)
                await self._lw.queue(partition).aclear()
            case "delete":
                await held.adelete_all(limit=self._chosen.randint(1, 3))
            case _:
                pass


@pytest.mark.parametrize("seed", range(8))
async def test_counts_become_exact_whatever_happens_meanwhile(
    alw: Lockwork, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    for name, value in (("_REST", 0), ("PAGE", 3), ("_STEP", 5), ("_LEAST", 2), ("_AT_ONCE", 2)):
        monkeypatch.setattr(f"lockwork.dashboard.dead_groups.{name}", value)
    chosen = random.Random(seed)
    meddled = Meddled(alw, chosen)
    for partition in meddled.partitions[: chosen.randint(1, 3)]:
        await meddled.die(partition, 20)
    found, app = DeadGroups(), cast("Lockwork", meddled)
    while meddled.left or not found.exact:
        await found.read_on(app, meddled.partitions, lambda _: True, 0.0)
        assert all(group.count <= meddled.ever[group.kind] for group in found.groups)
        assert all(list(group.deaths) == sorted(group.deaths) for group in found.groups)
    true = await deaths(alw, *meddled.partitions)
    while found.counted < len(true):  # of the current millisecond, none is counted
        await found.read_on(app, meddled.partitions, lambda _: True, 0.0)
    groups = {group.kind: group for group in found.groups}
    assert {kind: group.count for kind, group in groups.items()} == Counter(kind for _, kind in true)
    assert {kind: iso(died) for died, kind in true} == {kind: iso(group.first) for kind, group in groups.items()}
    assert {kind: iso(died) for died, kind in reversed(true)} == {
        kind: iso(group.last) for kind, group in groups.items()
    }
    assert all(
        sum(each or 0 for each in group.spark(group.first, group.last)) == group.count for group in groups.values()
    )
