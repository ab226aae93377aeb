"""Notes on job pages: the number of displayed or searched jobs, and the undecided jobs."""

from __future__ import annotations

import html
import re
from collections.abc import AsyncIterator

import httpx
import pytest

from dashboard.conftest import Client
from lockwork import Lockwork


@pytest.fixture
async def board(client: Client, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[httpx.AsyncClient]:
    """Ask a dashboard whose pages search as little as possible."""
    monkeypatch.setattr("lockwork.dashboard.pages.jobs._LONG", 0.0)
    async with client() as texts:
        yield texts


async def pages(browser: httpx.AsyncClient, path: str) -> list[str]:
    """Return a page and all following pages."""
    texts = []
    link: str | None = path
    while link is not None:
        texts.append((await browser.get(link)).text)
        link = next_of(texts[-1])
    return texts


def next_of(page: str) -> str | None:
    match = re.search(r'rel="next" href="([^"]*)"', page)
    return None if match is None else html.unescape(match[1])


async def test_pages_of_many_queues_count_each_shown_job_once(board: httpx.AsyncClient, alw: Lockwork) -> None:
    for number in range(20):
        send = alw.task(queue=f"q{number}", name=f"send{number}")(lambda n: None)
        await send.aenqueue_many([(n,) for n in range(8)])
    said = [re.findall(r"[\d,]+ of [\d,]+", page.partition('class="pager"')[2]) for page in await pages(board, "/jobs")]
    assert said == [["50 of 160"], ["100 of 160"], ["150 of 160"], ["160 of 160"]]


async def test_search_of_many_queues_never_searches_more_than_all(board: httpx.AsyncClient, alw: Lockwork) -> None:
    for number in range(20):
        send = alw.task(queue=f"q{number}", name=f"send{number}")(lambda n: None)
        await send.aenqueue_many([("mail",)] * 8)
    for page in await pages(board, "/jobs?arg=mail"):
        (said,) = re.findall(r"searched ([\d,]+) of 160", page)
        assert int(said) <= 160


async def test_other_filters_begin_with_whole_values_again(board: httpx.AsyncClient, alw: Lockwork) -> None:
    """A link that keeps the part of the search would leave out the exact matches."""

    @alw.task(queue="mail")
    async def send(user: int) -> None: ...

    await send.aenqueue_many([(42,), *((1042,) for _ in range(60))])
    page = (await board.get("/jobs?q=42")).text
    after = next_of(page)
    assert after is not None
    assert "parts=1" in after
    second = (await board.get(f"{after}&task=send")).text
    links = [html.unescape(link) for link in re.findall(r'<a[^>]* href="(/jobs\?[^"]*)"', second) if "rel=" not in link]
    kept = {"after=", "parts=", "searched=", "shown=", "undecided="}
    assert len([link for link in links if "q=42" in link]) > 5
    assert [link for link in links if any(name in link for name in kept)] == []


async def test_last_page_without_jobs_does_not_say_that_none_matches(board: httpx.AsyncClient, alw: Lockwork) -> None:
    @alw.task(queue="mail")
    async def send(user: int) -> None: ...

    await send.aenqueue_many([(user,) for user in range(5000)])
    first, *_, last = await pages(board, "/jobs?arg=4999")
    assert '<tr id="job-' in first
    assert '<tr id="job-' not in last
    assert "No job matches" not in last
    assert "No further job matches" in last
    *_, last = await pages(board, "/jobs?arg=none")
    assert "No job matches" in last


async def test_undecided_jobs_of_all_steps_are_told(
    board: httpx.AsyncClient, alw: Lockwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lockwork.dashboard.pages.jobs._BUDGET", 50)

    @alw.task(queue="mail")
    async def send(text: str, order: int) -> None: ...

    for job in await send.aenqueue_many([*(("x" * 3000, order) for order in range(3)), *[("x", 0)] * 200]):
        await job.acancel()
    steps = await pages(board, "/jobs?arg=order%3D7&oldest=1")
    assert len(steps) > 1
    assert "Of 3 more jobs, history has only the beginning" in steps[-1]
    assert "No job matches" not in steps[-1]
    assert "No job surely matches" in steps[-1]
