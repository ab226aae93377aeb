"""Bulk changes: a count and preview first, changes in steps, a report, and undo where possible."""

from __future__ import annotations

import asyncio
import html
import re
from types import SimpleNamespace

import httpx
import pytest

from dashboard.conftest import Client, said
from lockwork import Lockwork
from lockwork.dashboard.pages import change


async def asked(browser: httpx.AsyncClient, query: str) -> str:
    """Read the question of a page of changes."""
    page = (await browser.get(f"/jobs/change?{query}")).text
    found = re.search(r'class="ask-many".*?>(.*?)</p>|<div class="empty">(.*?)</div>', page, re.DOTALL)
    assert found, page[-3000:]
    return " ".join(html.unescape(re.sub(r"<[^>]+>", "", found[1] or found[2])).split())


async def test_matching_jobs_are_counted_shown_cancelled_and_revived(
    client: Client, alw: Lockwork, mail: list[str]
) -> None:
    later = alw.task(queue="later", name="later")(lambda n: None)
    await later.options(delay="1h").aenqueue_many([(n,) for n in range(120)])
    async with client(allow_actions=True) as browser:
        page = (await browser.get("/jobs?queue=later")).text
        link = re.search(r'href="(/jobs/change\?do=cancel[^"]+)"', page)
        assert link
        query = html.unescape(link[1]).partition("?")[2]
        question = await asked(browser, query)
        assert question.startswith("Cancel all 120 jobs?")
        shown = (await browser.get(f"/jobs/change?{query}")).text
        assert "The first 10 of 120" in shown
        assert len(re.findall(r'<tr id="job-', shown)) == 10
        assert "Cancel 120 jobs</button>" in shown
        assert (await alw.queue("later").astatus()).scheduled == 120  # nothing has happened
        assert await said(browser, f"/jobs/change?{query}", "run", count="120") == "120 jobs are cancelled."
        assert (await alw.queue("later").astatus()).scheduled == 0
        assert (await alw.queue("mail").astatus()).ready == len(mail)
        ended = (await browser.get(f"/jobs/change?{query}")).text
        assert "Undo: run 120 jobs again" in ended
        assert await said(browser, f"/jobs/change?{query}", "undo") == "120 jobs run again."
        assert (await alw.queue("later").astatus()).ready == 120
        assert "Undo" not in (await browser.get(f"/jobs/change?{query}")).text


async def test_jobs_whose_kept_part_does_not_decide_are_left_out(client: Client, alw: Lockwork) -> None:
    send = alw.task(name="long")(lambda text, n: None)
    for job in [await send.aenqueue("x" * 5000, 77), await send.aenqueue("x", 77)]:
        await job.acancel()
    left_out = "1 job is left out: history has only the beginning of a long record"
    async with client(allow_actions=True) as browser:
        query = "do=delete&arg=77&state=cancelled"
        assert (await asked(browser, query)).startswith("Delete this 1 job?")
        assert left_out in (await browser.get(f"/jobs/change?{query}")).text
        done = await said(browser, f"/jobs/change?{query}", "run", count="1")
        assert done.startswith(f"1 job is deleted. {left_out}")
        for page in ("/jobs?q=77", "/jobs?arg=77", "/jobs?q=7777"):
            assert "Of 1 more job, history has only the beginning" in (await browser.get(page)).text, page
        assert "No job to delete" in await asked(browser, query + "&key=k")
    assert (await alw.ajobs(state="cancelled")).total == 1


async def test_oldest_jobs_are_changed_up_to_the_confirmed_count(
    client: Client, alw: Lockwork, mail: list[str]
) -> None:
    async with client(allow_actions=True) as browser:
        query = "do=delete&queue=mail&state=ready"
        assert (await asked(browser, query)).startswith("Delete these 3 jobs? This cannot be undone.")
        new = await alw.task(queue="mail", name="new")(lambda n: None).aenqueue(9)
        assert await said(browser, f"/jobs/change?{query}", "run", count="3") == "3 jobs are deleted."
        assert await new.astate() == "ready"
        assert "Undo" not in (await browser.get(f"/jobs/change?{query}")).text


@pytest.mark.parametrize(
    ("query", "count"),
    [
        ("task=send", 3), ("arg=2", 1), ("q=send", 3), ("key=user:1", 1), ("tag=draft", 1), ("arg=none", 0),
        ("since=1h", 5), ("until=1h", 0), ("queue=mail", 5), ("state=scheduled", 1), ("state=ready", 4), ("error=x", 0),
    ],
)  # fmt: skip
async def test_count_is_exact_for_every_filter(
    client: Client, alw: Lockwork, mail: list[str], query: str, count: int
) -> None:
    write = alw.task(queue="mail", name="write")(lambda n: None)
    await write.options(key="user:1").aenqueue(7)
    await write.options(tags=["draft"], delay="1h").aenqueue(8)
    async with client() as browser:
        question = await asked(browser, f"do=cancel&{query}")
        if count:
            assert f" {count} job" in question
        else:
            assert question.startswith("No job to cancel")


async def test_selected_jobs_are_changed_and_those_that_cannot_be_stay(
    client: Client, alw: Lockwork, mail: list[str]
) -> None:
    await alw.job(mail[0], "mail").acancel()
    picked = "picked=1&" + "&".join(f"pick=mail+{id}" for id in mail[:2])
    async with client(allow_actions=True) as browser:
        page = (await browser.get(f"/jobs/change?do=cancel&{picked}")).text
        assert "1 more job was selected, and stays as it is" in page
        assert "Only waiting or running jobs can be cancelled" in page
        assert (await asked(browser, f"do=cancel&{picked}")).startswith("Cancel this 1 job?")
        assert await said(browser, f"/jobs/change?do=cancel&{picked}", "run", count="1") == "1 job is cancelled."
        assert [await alw.job(id, "mail").astate() for id in mail] == ["cancelled", "cancelled", "ready"]
        assert (await asked(browser, f"do=retry&{picked}")).startswith("Retry these 2 jobs?")
        assert "No job was selected" in (await browser.get("/jobs/change?do=cancel&picked=1")).text


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("do=cancel&state=dead", "Only waiting or running jobs can be cancelled."),
        ("do=retry&state=succeeded", "Enqueue a successful job anew."),
        ("do=retry&state=ready", "Only dead, cancelled and expired jobs can run again."),
        ("do=delete&state=running", "A running job cannot be deleted: cancel it first."),
        ("do=cancel&since=soon", "Since is an age such as 10m"),
        ("do=burn", "Select jobs, or filter them"),
    ],
)
async def test_action_that_cannot_apply_says_why(client: Client, mail: list[str], query: str, why: str) -> None:
    async with client(allow_actions=True) as browser:
        page = (await browser.get(f"/jobs/change?{query}")).text
        assert why in page
        assert 'value="run"' not in page


async def test_jobs_that_ended_meanwhile_are_reported(client: Client, alw: Lockwork, mail: list[str]) -> None:
    picked = "do=cancel&picked=1&" + "&".join(f"pick=mail+{id}" for id in mail)
    async with client(allow_actions=True) as browser:
        assert (await asked(browser, picked)).startswith("Cancel these 3 jobs?")
        await alw.job(mail[0], "mail").adelete()
        report = await said(browser, f"/jobs/change?{picked}", "run", count="3")
        assert report == "2 jobs are cancelled. 1 job could not be changed: it has ended."


async def test_progress_is_shown_while_it_runs_and_it_can_be_stopped(
    client: Client, alw: Lockwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    later = alw.task(queue="later", name="later")(lambda n: None)
    await later.options(delay="1h").aenqueue_many([(n,) for n in range(300)])
    slow = asyncio.Event()

    async def held(*calls: object) -> object:
        done = await asyncio.gather(*calls)  # type: ignore[call-overload]
        await slow.wait()
        return done

    only_there = SimpleNamespace(**{**vars(asyncio), "gather": held})  # the calls of the app itself are not held
    monkeypatch.setattr("lockwork.dashboard.bulk.asyncio", only_there)
    async with client(allow_actions=True) as browser:
        query = "do=cancel&queue=later"
        assert (await asked(browser, query)).startswith("Cancel all 300 jobs?")
        for limit in ("_SOON", "_BRIEF"):
            monkeypatch.setattr(change, limit, 0.1)
        assert await said(browser, f"/jobs/change?{query}", "run", count="300") == "It has begun, for 300 jobs."
        page = (await browser.get(f"/jobs/change?{query}")).text
        assert "0 of 300 jobs…" in page
        assert '<progress class="progress" max="300" value="0"' in page
        assert "Refresh</a>" in page
        assert (await said(browser, f"/jobs/change?{query}", "stop")).startswith("Stopped.")
        slow.set()
        assert "50 jobs are cancelled." in (await browser.get(f"/jobs/change?{query}")).text
        assert (await alw.queue("later").astatus()).scheduled == 250


async def test_end_of_a_long_change_is_logged(
    client: Client, mail: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "lockwork.dashboard")
    async with client(allow_actions=True) as browser:
        await said(browser, "/jobs/change?do=cancel&queue=mail", "run", count="3")
    lines = [each.getMessage() for each in caplog.records if each.name == "lockwork.dashboard"]
    assert any("action jobs.cancel of many by 'local' has ended: '3 jobs are cancelled.'" in line for line in lines)
