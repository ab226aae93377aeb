"""A real worker and its schedules on the dashboard, and the actions on them."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest

from dashboard.browsing import aside, serving
from dashboard.conftest import said
from lockwork import Lockwork
from processes import Started, until, worker


@pytest.fixture
def office(own_url: str, apps: Path) -> Iterator[Started]:
    with worker("office:lw", "--concurrency", "4", url=own_url, folder=apps) as started:
        yield started


@pytest.fixture
async def browser(own_url: str) -> AsyncIterator[httpx.AsyncClient]:
    with serving(own_url, allow_actions=True) as address:
        async with httpx.AsyncClient(base_url=address, headers={"Accept": "text/html"}) as made:
            yield made


async def test_worker_is_shown_and_takes_orders(office: Started, browser: httpx.AsyncClient, own_url: str) -> None:
    with Lockwork(own_url) as lw:
        (found,) = until(lambda: aside(lw.workers), "the worker announces itself")
        aside(lambda: lw.task(queue="office", name="write")(lambda page: None).enqueue(60))
        until(lambda: aside(lambda: lw.queue("office").status().running), "the job runs")
        until(lambda: aside(lambda: lw.workers()[0].jobs), "the worker says so", 10)
        page = (await browser.get("/workers")).text
        assert "1 of 4 slots busy" in page
        assert f"/workers/{found.name}" in page
        assert ">write</a>" in page
        assert (await browser.get(f"/workers/{found.name}")).status_code == 200
        assert "No worker named nobody" in await said(browser, "/workers", "stop", name="nobody")
        assert "fetches no more jobs" in await said(browser, "/workers", "quiet", name=found.name)
        until(lambda: aside(lambda: lw.workers()[0].state == "quiet"), "it is quiet")
        assert "fetches jobs again" in await said(browser, "/workers", "resume", name=found.name)
        until(lambda: aside(lambda: lw.workers()[0].state == "running"), "it goes on")
        assert "stops when its jobs have ended" in await said(browser, "/workers", "stop", name=found.name)
        until(lambda: aside(lambda: lw.workers()[0].state) in ("stopping", "lost"), "it stops")


@pytest.mark.parametrize("own", [True, False])
async def test_version_of_the_app_is_shown_and_marked(
    own_url: str, apps: Path, browser: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch, own: bool
) -> None:
    if own:
        monkeypatch.setenv("LOCKWORK_APP_VERSION", "2026-11-24 <b>f00d</b>")
    with worker("office:lw", url=own_url, folder=apps), Lockwork(own_url) as lw:
        (found,) = until(lambda: aside(lw.workers), "the worker announces itself")
        assert found.app_version == ("2026-11-24 <b>f00d</b>" if own else "")
        shown = "2026-11-24 &lt;b&gt;f00d&lt;/b&gt;" if own else f"Lockwork {found.version}"
        assert f'title="Lockwork {found.version}">{shown}</td>' in (await browser.get("/workers")).text
        aside(lambda: lw.task(queue="office", name="write")(lambda page: None).enqueue(0))
        until(lambda: aside(lambda: lw.metrics().total.succeeded), "a chart is drawn")
        page = (await browser.get("/queues/office?range=15m")).text
        assert "the last 15 minutes; at most 1 in a bar" in page
        link = r'\s*<td [^>]*><a href="/jobs\?range=15m&amp;task=write&amp;queue=office">'
        assert re.search(rf'<tr id="task-office-write">{link}', page)
        page = (await browser.get("/")).text
        assert re.search(r"1 worker started(.*?)\s*<", page)[1] == (f", version {shown}" if own else "")  # type: ignore[index]


async def test_schedule_is_shown_run_paused_and_resumed(
    office: Started, browser: httpx.AsyncClient, own_url: str
) -> None:
    with Lockwork(own_url) as lw:
        schedule = lw.schedule("tidy", queue="office")
        # without a job, only the worker's announcement makes the queue known
        until(lambda: aside(schedule.inspect) and aside(lw.apps), "the worker declares it, and announces its app")
        page = (await browser.get("/schedules")).text
        assert "0 3 1 1 *" in page
        fields = {"name": "tidy", "queue": "office"}
        assert re.match(
            "Schedule tidy enqueued job .* in queue office", await said(browser, "/schedules", "run", **fields)
        )
        assert aside(lambda: lw.queue("office").status().enqueued) == 1
        until(lambda: aside(lambda: lw.queue("office").status().succeeded) == 1, "it ran")
        page = (await browser.get("/schedules")).text
        assert re.search(r'<a href="/job/tidy@[^"]+"[^>]*><span class="state s-done">', page), "its last job succeeded"
        assert re.search(r'<td class="right large took">[\d.]+ m?s</td>', page), "and took so long"
        assert "is paused" in await said(browser, "/schedules", "pause", **fields)
        status = aside(schedule.inspect)
        assert status is not None
        assert status.paused
        assert "continues" in await said(browser, "/schedules", "resume", **fields)
        assert "no schedule is named" in await said(browser, "/schedules", "run", name="x", queue="office")


async def test_stream_sends_a_page_when_it_has_changed(browser: httpx.AsyncClient, own_url: str) -> None:
    with Lockwork(own_url) as lw:
        send = lw.task(queue="mail", name="send")(lambda n: None)
        aside(lambda: send.enqueue(1))
        events: list[str] = []
        async with browser.stream("GET", "/queues", headers={"Accept": "text/event-stream"}) as answer:
            assert answer.headers["content-type"].startswith("text/event-stream")
            async for line in answer.aiter_lines():
                if line.startswith("data: "):
                    events.append(json.loads(line.removeprefix("data: ")))
                    if len(events) == 2:
                        break
                    aside(lambda: send.enqueue(2))
        assert "1 ready" in events[0]
        assert "2 ready" in events[1]
        assert "<html" not in events[0]


async def test_dead_jobs_are_grouped_run_again_and_deleted(
    office: Started, browser: httpx.AsyncClient, own_url: str
) -> None:
    with Lockwork(own_url) as lw:
        charge = lw.task(queue="office", name="charge", retries=0)(lambda card: None)
        aside(lambda: charge.enqueue_many([("<b>7</b>",), ("8",), ("9",)]))
        until(lambda: aside(lambda: lw.queue("office").status().dead) == 3, "they fail")
        page = (await browser.get("/dead")).text
        assert "ValueError" in page
        assert "was refused" in page
        assert "<b>7</b>" not in page
        assert "raise ValueError" in page
        assert "No dead job matches" in (await browser.get("/dead?text=nonsense")).text
        fields = {"queue": "office", "task": "charge", "error": "ValueError"}
        assert "3 jobs run again: ValueError in charge" in await said(browser, "/dead", "retry", **fields)
        until(lambda: aside(lambda: lw.queue("office").status().dead) == 3, "they fail again")
        assert "Deleted 3 dead jobs" in await said(browser, "/dead", "delete", **fields)
        assert "No dead jobs" in (await browser.get("/dead")).text


async def test_tasks_and_stocks_are_shown(office: Started, browser: httpx.AsyncClient, own_url: str) -> None:
    with Lockwork(own_url) as lw:
        assert "No task ended in this time" in (await browser.get("/tasks")).text
        assert "No stock is on this server" in (await browser.get("/stocks")).text
        aside(lambda: lw.task(queue="office", name="write")(lambda page: None).enqueue(0))
        until(lambda: aside(lambda: lw.queue("office").status().succeeded) == 1, "it ran")
        assert ">write</a>" in (await browser.get("/tasks?sort=run&down=1")).text
        phones = lw.stock("phones", 10, queue="office")
        aside(lambda: phones.confirm(phones.reserve("ada", 3)))
        page = (await browser.get("/stocks")).text
        assert "phones" in page
        assert "3 sold, 7 left" in page


async def test_jobs_are_found_and_one_is_shown(office: Started, browser: httpx.AsyncClient, own_url: str) -> None:
    with Lockwork(own_url) as lw:
        assert "No jobs" in (await browser.get("/jobs")).text
        write = lw.task(queue="office", name="write")(lambda page: None)
        charge = lw.task(queue="office", name="charge", retries=0)(lambda card: None)
        done = aside(lambda: write.enqueue(0))
        later = aside(lambda: write.options(delay="1h", key="book:7", tags=["draft"]).enqueue(7))
        failed = aside(lambda: charge.enqueue("<i>9</i>"))
        until(lambda: aside(lambda: lw.queue("office").status().dead) == 1, "it fails")
        until(lambda: aside(done.state) == "succeeded", "it ends")
        whole = (await browser.get("/jobs")).text
        assert all(job.id in whole for job in (done, later, failed))
        for query, job in (
            ("state=succeeded", done), ("tag=draft", later), ("arg=7", later), ("error=refused", failed),
            ("state=retrying", later), (f"q={failed.id}", failed), ("task=charge&queue=office", failed),
        ):  # fmt: skip
            page = (await browser.get(f"/jobs?{query}")).text
            assert [each.id for each in (done, later, failed) if f"job-{each.id}" in page] == [job.id], query
        assert "No job matches" in (await browser.get("/jobs?text=nothing&arg=none")).text
        assert "Since is an age such as 10m" in (await browser.get("/jobs?since=soon")).text
        page = (await browser.get(f"/job/{failed.id}")).text
        assert "card &lt;i&gt;9&lt;/i&gt; was refused" in page
        assert re.search(r'<svg class="span".*?<title>(waited .*?, )?ran ', page)
        assert "raise ValueError" in page
        assert "Nothing is known of job nobody" in (await browser.get("/job/nobody")).text
        assert "/jobs?queue=office&amp;key=book%3A7" in (await browser.get(f"/job/{later.id}")).text
        assert "The job is ready" in await said(browser, f"/job/{later.id}", "now")
        until(lambda: aside(later.state) == "running", "it runs")
        assert "The job is cancelled" in await said(browser, f"/job/{later.id}", "cancel")
        until(lambda: aside(later.state) == "cancelled", "it stops")
        assert "The job runs again" in await said(browser, f"/job/{failed.id}", "retry")
        until(lambda: aside(lambda: lw.queue("office").status().dead) == 1, "it fails again")
        assert "1 job runs again" in await said(browser, "/jobs/change?do=retry&state=dead", "run", count="1")
        until(lambda: aside(lambda: lw.queue("office").status().dead) == 1, "it fails a third time")
        assert "1 job is deleted." in await said(
            browser, "/jobs/change?do=delete&state=dead&task=charge", "run", count="1"
        )
        assert "The job is deleted" in await said(browser, f"/job/{later.id}", "delete")
