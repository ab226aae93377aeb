"""The pages of flows and limiters, and the neighbors and the flow that a job's page shows."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from dashboard.browsing import aside, serving
from dashboard.conftest import Client, said
from lockwork import Lockwork
from processes import Started, until, worker


@pytest.fixture
def office(own_url: str, apps: Path) -> Iterator[Started]:
    with worker("office:lw", "--concurrency", "20", url=own_url, folder=apps) as started:
        yield started


@pytest.fixture
async def browser(own_url: str) -> AsyncIterator[httpx.AsyncClient]:
    with serving(own_url, allow_actions=True) as address:
        async with httpx.AsyncClient(base_url=address, headers={"Accept": "text/html"}) as made:
            yield made


def tasks(lw: Lockwork) -> tuple[Any, Any]:
    """The tasks of the office's app, as another app enqueues them."""
    write = lw.task(queue="office", name="write")(lambda page: None)
    return write, lw.task(queue="office", name="charge", retries=0)(lambda card: None)


async def test_jobs_of_other_queues_are_drawn_with_their_queue(
    office: Started, browser: httpx.AsyncClient, own_url: str
) -> None:
    with Lockwork(own_url) as lw:
        write, _ = tasks(lw)
        send = lw.task(queue="mail", name="send")(lambda page: None)
        plan = lw.flow()
        first = plan.add(write.call(0))
        plan.add(send.call(1), after=[first])
        run = aside(plan.enqueue)
        until(lambda: aside(run.job(2).state) == "ready", "it may run")
        for queue in ("office", "mail"):
            page = (await browser.get(f"/flow/{run.id}?queue={queue}")).text
            assert "ready in mail</text>" in page
            assert "send in queue mail: ready" in page
            assert re.search(rf"/job/{run.id}.00002\?queue=mail", page)
            assert re.search(rf"/job/{run.id}.00001\?queue=office", page)
        page = (await browser.get(f"/job/{run.id}.00002?queue=mail")).text
        assert re.search(rf"/job/{run.id}.00001\?queue=office", page)
        assert "Open the flow" in page
        assert run.id in (await browser.get("/flows?queue=office")).text
        assert run.id not in (await browser.get("/flows?queue=mail")).text


async def test_flows_are_listed_by_state_with_their_first_and_last_task(
    office: Started, browser: httpx.AsyncClient, own_url: str
) -> None:
    with Lockwork(own_url) as lw:
        assert "No flow is on this server" in (await browser.get("/flows")).text
        write, charge = tasks(lw)
        plan = lw.flow()
        plan.add(write.call(0), after=[plan.add(charge.call("<b>7</b>"))])
        failed = aside(plan.enqueue)
        done = aside(lambda: lw.group([write.call(0) for _ in range(3)]).enqueue())
        runs = aside(lambda: lw.group([write.call(60)]).enqueue())
        until(lambda: aside(failed.inspect).state == "failed", "it fails")
        until(lambda: aside(done.inspect).state == "succeeded", "it ends")
        page = (await browser.get("/flows")).text
        assert re.search(rf"/flow/{failed.id}\?queue=office[^>]*>charge → write</a>", page)
        assert "1 failed, 1 cancelled" in page
        for state, run in (("failed", failed), ("succeeded", done), ("running", runs)):
            some = (await browser.get(f"/flows?state={state}")).text
            assert re.findall(r'id="flow-office-([^"]+)"', some) == [run.id], state
        assert "No flow matches" in (await browser.get("/flows?state=cancelled")).text
        assert "No flow matches" in (await browser.get("/flows?queue=other")).text
        assert len(re.findall(r'id="flow-office-', (await browser.get("/flows?queue=office")).text)) == 3


async def test_jobs_after_a_failure_are_drawn_with_dashed_lines(
    office: Started, browser: httpx.AsyncClient, own_url: str
) -> None:
    with Lockwork(own_url) as lw:
        write, charge = tasks(lw)
        plan = lw.flow()
        first = plan.add(write.call(0))
        plan.add(charge.call("7"), after_failure=first)
        run = aside(plan.enqueue)
        until(lambda: aside(run.inspect).state == "succeeded", "it ends")
        page = (await browser.get(f"/flow/{run.id}?queue=office")).text
        boxes = re.findall(r'<a href="[^"]+" aria-label="([^"]+)" class="box s-(\w+)', page)
        assert boxes == [("write: succeeded", "done"), ("charge: skipped", "skipped")]
        assert "<title>only after a failure</title>" in page
        assert "2 of 2 ended, 1 skipped" in page
        assert re.search(r"failure of 1\s*</td>", page)
        job = (await browser.get(f"/job/{run.id}.00002?queue=office")).text
        assert re.search(r'class="state s-skipped">.*?skipped</span>', job)
        assert "Skipped in flows" in (await browser.get("/queues/office")).text


async def test_flow_is_drawn_folded_and_cancelled(office: Started, browser: httpx.AsyncClient, own_url: str) -> None:
    with Lockwork(own_url) as lw:
        write, charge = tasks(lw)
        plan = lw.flow()
        first = plan.add(write.call(0))
        many = [plan.add(write.call(60), after=[first]) for _ in range(30)]
        plan.add(charge.call(""), after=many)
        run = aside(plan.enqueue)
        until(lambda: aside(run.job(1).state) == "succeeded", "the first job ends")
        until(lambda: len([node for node in aside(run.graph) if node.state == "running"]) == 20, "the others run")
        path = f"/flow/{run.id}?queue=office"
        page = (await browser.get(path)).text
        assert "write → charge" in page
        boxes = re.findall(r'<a href="([^"]+)" aria-label="([^"]+)" class="box', page)
        assert [words for _, words in boxes] == ["write: succeeded", "write: 20 running, 10 ready", "charge: blocked"]
        assert boxes[0][0].startswith(f"/job/{run.id}.00001")
        assert boxes[1][0] == f"/flow/{run.id}?queue=office&amp;box=2#jobs"
        assert len(re.findall('<path class="arrow"', page)) == 2
        folded = (await browser.get(f"{path}&box=2")).text
        assert len(re.findall(r'<tr id="node-', folded)) == 30
        assert "Jobs of task write" in folded
        assert f"/flow/{run.id}" in (await browser.get(f"/flow/{run.id}")).text, "without its queue it is found, too"
        assert "with its 31 jobs that had not ended" in await said(browser, path, "cancel")
        until(lambda: aside(run.inspect).state == "cancelled", "it is cancelled")
        assert "Cancel this flow?" not in (await browser.get(path)).text
        for path, told in (
            ("/flow/nothing", "Nothing is known of flow nothing"),
            ("/flow/a b", "a flow&#39;s id must be"),
        ):
            answer = await browser.get(path)
            assert answer.status_code == 404
            assert told in answer.text


async def test_job_shows_its_flow_with_itself_marked(alw: Lockwork, client: Client) -> None:
    task = alw.task(name="step", queue="steps")(print)
    run = await alw.chord([task.call(at) for at in range(9)], task).aenqueue()
    async with client() as browser:
        page = (await browser.get(f"/job/{run.job(4).id}?queue=steps")).text
    boxes = re.findall(r'<a href="([^"]+)" aria-label="([^"]+)" class="box ([^"]+)"', page)
    assert [(words, "chosen" in kind) for _, words, kind in boxes] == [
        ("step: 8 ready", False),
        ("step: ready", True),
        ("step: blocked", False),
    ]
    assert f"/flow/{run.id}?queue=steps" in page


async def test_job_shows_what_it_waits_behind(office: Started, browser: httpx.AsyncClient, own_url: str) -> None:
    with Lockwork(own_url) as lw:
        write, _ = tasks(lw)
        keyed = write.options(key="book:7")
        done = aside(lambda: keyed.enqueue(0))
        until(lambda: aside(done.state) == "succeeded", "it ends")
        jobs = aside(lambda: [keyed.enqueue(60) for _ in range(6)])
        alone = aside(lambda: write.enqueue(60))
        until(lambda: aside(jobs[0].state) == "running", "the first one runs")
        page = (await browser.get(f"/job/{jobs[4].id}")).text
        assert "Waits behind 4 jobs of its key" in page
        rows = re.findall(r'<tr id="neighbor-([^"]+)"( class="here")?', page)
        assert [id for id, _ in rows] == [job.id for job in jobs[1:]]
        assert [id for id, here in rows if here] == [jobs[4].id]
        assert "2 earlier jobs" in page
        first = (await browser.get(f"/job/{jobs[0].id}")).text
        assert "Waits behind" not in first
        assert f'id="neighbor-{done.id}"' in first
        assert 'id="neighbors"' not in (await browser.get(f"/job/{alone.id}")).text
        grouped = aside(lambda: [write.options(group="tenant").enqueue(60) for _ in range(3)])
        assert "Jobs of group tenant" in (await browser.get(f"/job/{grouped[1].id}")).text
        aside(lambda: lw.cancel_jobs("office"))


async def test_limiters_semaphores_and_limits_show_their_room(alw: Lockwork, client: Client) -> None:
    async with client() as browser:
        assert "Nothing is limited" in (await browser.get("/limiters")).text
        await alw.limiter("api", "20/h", burst=5).aacquire(3)
        semaphore = alw.semaphore("gpu", 4, units=3)
        await semaphore.aacquire()
        await alw.task(queue="mail")(print).aenqueue()
        await alw.queue("mail").alimit(rate="5/s", concurrency=2, size=10)
        page = (await browser.get("/limiters")).text
        assert "20/h" in page
        assert "2 of 5 left" in page
        assert "1 of 4 left" in page
        assert "9 of 10 left" in page
        assert "5/s" in page
        some = (await browser.get("/limiters?name=ap")).text
        assert 'id="limiter-api"' in some
        assert 'id="semaphore-gpu"' not in some
        assert "No limiter matches" in (await browser.get("/limiters?name=nobody")).text
        await semaphore.arelease()
