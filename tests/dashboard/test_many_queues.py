"""Pages beside many queues: links stay short enough for any proxy."""

from __future__ import annotations

import html
import re

import pytest

from dashboard.conftest import Client
from lockwork import Lockwork
from lockwork.ids import new_id
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queue import enqueue, leases
from lockwork.protocol.queue.enqueue import NewJob
from lockwork.protocol.queue.leases import Outcome

QUEUES = 60
ERROR = b'{"type":"ValueError","message":"no"}'


@pytest.fixture
async def many(alw: Lockwork) -> int:
    """Queues with a long name each, a dead job and a waiting one."""
    for number in range(QUEUES):
        queue, session = QueueKeys("lw", f"a-long-name-of-a-queue-of-tenant-{number:04}"), f"host/{number}/a"
        record = b'1,4,,;["send",[1]]'
        await alw.runtime.arun(leases.beat(queue, {session: True}, 600_000, 5))
        await alw.runtime.arun(enqueue.push(queue, [NewJob(new_id(), record, 0) for _ in range(2)]))
        (job,) = (await alw.runtime.arun(leases.reserve(queue, session, 1, new_id(), ""))).jobs
        ends = [Outcome(job.id, job.token, "d", ERROR, 0)]
        assert all(await alw.runtime.arun(leases.settle(queue, session, ends, 600_000)))
    return QUEUES


@pytest.mark.parametrize("path", ["/jobs?state=ready", "/jobs?state=dead", "/dead"])
async def test_link_to_the_next_page_is_short_and_shows_each_job_once(
    client: Client, many: int, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    monkeypatch.setattr("lockwork.dashboard.pages.jobs._ROWS", 25)
    monkeypatch.setattr("lockwork.dashboard.pages.dead._GROUPS", 1000)
    shown: list[str] = []
    async with client() as browser:
        link: str | None = path
        while link is not None:
            page = (await browser.get(link)).text
            shown += re.findall(r"/queues/(a-long-name-of-a-queue-of-tenant-\d+)\W", page.partition("<main")[2])
            found = re.search(r'rel="next" href="([^"]*)"', page)
            link = None if found is None else html.unescape(found[1])
            assert len(link or "") < 300
    assert len(set(shown)) == many
