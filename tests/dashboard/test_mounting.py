"""The dashboard below a prefix of another app, and its responses."""

from __future__ import annotations

import gzip
import hashlib
import re
from collections.abc import Callable
from importlib import resources
from typing import Any

import httpx
import msgspec
import pytest
from django.conf import settings
from django.core.asgi import get_asgi_application
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.types import ASGIApp

from dashboard.conftest import SAME, Client
from lockwork import Lockwork
from lockwork.dashboard import Hidden, app
from lockwork.protocol.announcements import announcements
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queue import job_control as control
from lockwork.protocol.queue import leases
from lockwork.protocol.queue.leases import Outcome
from lockwork.workers import AnnouncedTask, App

VENDORED = {
    # htmx.org 4.0.1 and uplot 1.6.32, as the npm registry has them
    "htmx.min.js": "a0abb04f2f45a1f89d1d4844023245537e5e6014c87b144553e0607b4cc32130",
    "htmx.LICENSE": "d3d2456f76414f2456104660ebd65aff1c04cd7966b942bdabd63f3cdb316a38",
    "uplot.min.js": "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
    "uplot.min.css": "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
    "uplot.LICENSE": "8f989229699b4fe2f1a0432d0e9edc338a8a911e250e2d1b01ecd770a5f5b1bd",
}


def in_fastapi(board: ASGIApp) -> ASGIApp:
    site = FastAPI()
    site.mount("/ops/lockwork", board)
    return site


def in_starlette(board: ASGIApp) -> ASGIApp:
    return Starlette(routes=[Mount("/ops/lockwork", board)])


def beside_django(board: ASGIApp) -> ASGIApp:
    if not settings.configured:
        settings.configure(ROOT_URLCONF="dashboard.conftest", SECRET_KEY="x", ALLOWED_HOSTS=["*"])
    django: Any = get_asgi_application()
    return Starlette(routes=[Mount("/ops/lockwork", board), Mount("/", django)])


@pytest.mark.parametrize("mounted", [in_fastapi, in_starlette, beside_django])
async def test_links_forms_and_cookies_stay_below_the_prefix(
    alw: Lockwork, mail: list[str], mounted: Callable[[ASGIApp], ASGIApp]
) -> None:
    site = mounted(app(alw, allow_actions=True))
    transport = httpx.ASGITransport(site, client=("127.0.0.1", 5000))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as browser:
        for path in ("/", "/queues?sort=dead", "/queues/mail", "/locks"):
            page = await browser.get(f"/ops/lockwork{path}")
            assert page.status_code == 200
            links = re.findall(r'(?:href|src|action)="([^"]*)"', page.text)
            assert all(link.startswith(("/ops/lockwork/", "#")) for link in links), links
        assert 'href="/ops/lockwork/queues?sort=dead&amp;down=1"' not in page.text
        found = re.search(r'name="csrf" value="([^"]+)"', (await browser.get("/ops/lockwork/queues/mail")).text)
        assert found
        form = {"action": "pause", "csrf": found[1], "next": "/elsewhere"}
        done = await browser.post("/ops/lockwork/queues/mail", data=form, headers=SAME)
        assert done.headers["location"] == "/ops/lockwork/queues/mail"
        assert "Path=/ops/lockwork;" in done.headers["set-cookie"]
        assert "is paused" in (await browser.get(done.headers["location"])).text
        assert (await alw.queue("mail").astatus()).paused


def test_vendored_scripts_are_those_that_were_published() -> None:
    folder = resources.files("lockwork.dashboard").joinpath("static", "vendor")
    found = {each.name: hashlib.sha256(each.read_bytes()).hexdigest() for each in folder.iterdir()}
    assert found == VENDORED


async def test_page_with_its_assets_is_small(client: Client, mail: list[str]) -> None:
    async with client(allow_actions=True) as browser:
        page = await browser.get("/")
        bytes = len(gzip.compress(page.content, 6))
        for link in re.findall(r'(?:src|href)="(/-/assets/[^"]+)"', page.text):
            answer = await browser.get(link)
            assert "immutable" in answer.headers["cache-control"]
            assert answer.headers["content-encoding"] == "gzip"
            bytes += int(answer.headers["content-length"])
    assert bytes < 100_000


async def test_values_are_hidden_by_the_hook_and_by_its_errors(client: Client, mail: list[str]) -> None:
    def redact(task: str | None, name: str, value: object) -> object:
        return Hidden("no numbers") if (task, name) == ("send", "0") else value

    async with client() as browser:
        assert "<code>2</code>" in (await browser.get("/queues/mail")).text
    async with client(redact=redact) as browser:
        for path in ("/queues/mail", "/jobs", "/jobs/change?do=cancel"):
            page = (await browser.get(path)).text
            assert '<code title="Hidden by no numbers">•••</code>' in page, path
            assert "<code>2</code>" not in page
        page = (await browser.get(f"/job/{mail[2]}")).text
        assert '<code>•••</code> <span class="note">hidden by no numbers</span>' in page
        assert "<code>2</code>" not in page
    calls: list[tuple[str | None, str, object]] = []

    def note(task: str | None, name: str, value: object) -> object:
        calls.append((task, name, value))
        return value

    async with client(redact=note) as browser:
        assert "<dt><code>n</code></dt>" in (await browser.get(f"/job/{mail[2]}")).text
    assert calls[:2] == [("send", "0", 2), ("send", "n", 2)]
    async with client(redact=lambda task, name, value: Hidden("no n") if name == "n" else value) as browser:
        for path in ("/queues/mail", "/jobs", f"/job/{mail[2]}"):
            page = (await browser.get(path)).text
            assert "idden by no n" in page, path
            assert "<code>2</code>" not in page
    async with client(redact=lambda task, name, value: 1 / 0) as browser:
        page = (await browser.get("/queues/mail")).text
        assert '<code title="Hidden by the redact hook raised ZeroDivisionError">•••</code>' in page


async def test_arguments_are_hidden_by_the_task(client: Client, mail: list[str], alw: Lockwork) -> None:
    shop = App("shop:lw", [AnnouncedTask("send", "mail", "async", None, 3, hidden=True)], {}, [], "1")
    await alw.runtime.arun(announcements.put("lw", announcements.APPS, shop.name, msgspec.msgpack.encode(shop)))
    async with client() as browser:
        for path in ("/queues/mail", "/jobs", "/jobs/change?do=cancel"):
            page = (await browser.get(path)).text
            assert '<code title="Hidden by hide_arguments of the task">•••</code>' in page, path
            assert "<code>2</code>" not in page
        page = (await browser.get(f"/job/{mail[2]}")).text
        assert "hidden by hide_arguments of the task" in page
        assert "<code>2</code>" not in page


async def test_job_says_itself_that_its_arguments_are_hidden(client: Client, alw: Lockwork, url: str) -> None:
    """No app has announced its task, and a page that was read before does not know it."""
    keys, run = QueueKeys("lw", "mail"), alw.runtime.arun
    options: dict[str, str] = {"key": "card:{card}", "group": "all:{card}"}
    async with client(allow_actions=True) as browser, Lockwork(url) as other:
        await browser.get("/jobs")
        send = other.task(queue="mail", hide_arguments=True, name="pay", **options)  # type: ignore[call-overload]
        jobs = [await send(lambda card: None).aenqueue("4111") for _ in range(3)]
        await run(leases.beat(keys, {"host/1/a": True}, 600_000, 60))
        (dead,) = (await run(leases.reserve(keys, "host/1/a", 1, "x", ""))).jobs
        error = b'{"type":"ValueError","message":"declined","traceback":"x"}'
        assert all(await run(leases.settle(keys, "host/1/a", [Outcome(dead.id, dead.token, "d", error)], 600_000)))
        await jobs[-1].acancel()
        paths = [
            "/queues/mail",
            "/jobs",
            "/jobs?state=dead",
            "/jobs?state=cancelled",
            "/jobs/change?do=delete",
            "/dead",
        ]
        for path in [*paths, *(f"/job/{job.id}" for job in jobs)]:
            page = (await browser.get(path)).text
            assert "idden by hide_arguments of the task" in page, path
            assert "4111" not in page, path
        for query in ("q=4111", "q=card:", "arg=4111", "arg=card%3D4111", "q=5222", "arg=5222"):
            page = (await browser.get(f"/jobs?{query}&queue=mail")).text
            assert '<tr id="job-' not in page, query
            assert "No job to delete" in (await browser.get(f"/jobs/change?do=delete&{query}")).text, query
        for query in ("key=card%3A4111", "group=all%3A4111", "q=pay"):
            assert len(re.findall('<tr id="job-', (await browser.get(f"/jobs?{query}")).text)) == 3, query


async def test_page_does_not_depend_on_redacted_values(client: Client, alw: Lockwork) -> None:
    send = alw.task(queue="mail", name="pay")(lambda card, note="": None)
    await send.aenqueue_many([(f"secret7 {number}", "x" * (number % 2) * 5000) for number in range(120)])
    for job in (await alw.ajobs(limit=60)).jobs:
        await alw.job(job.id).acancel()

    def redact(task: str | None, name: str, value: object) -> object:
        return Hidden("the rule") if name in ("0", "card") else value

    async with client(redact=redact) as browser:
        for query in ("q=secret{}", "arg=secret{} 3", "q=secret{}&state=ready", "q=secret{}&state=cancelled&oldest=1"):
            pages = [(await browser.get(f"/jobs?{query.format(guess)}")).text for guess in "79"]
            right, wrong = (re.sub(r"secret[79]|[-\w]{80,}|n=\w{8}", "", page) for page in pages)
            assert '<tr id="job-' not in right
            counts = [re.findall(r"searched [\d,]+ of [\d,]+|Of \d+ more job", page) for page in (right, wrong)]
            assert counts[0] == counts[1]
            assert len(right) == len(wrong)


async def test_hidden_values_cannot_be_searched(client: Client, alw: Lockwork, mail: list[str]) -> None:
    keys, run = QueueKeys("lw", "mail"), alw.runtime.arun
    error = b'{"type":"ValueError","message":"card 4111 refused","traceback":"x"}'
    await run(leases.beat(keys, {"host/1/a": True}, 600_000, 60))
    (dead,) = (await run(leases.reserve(keys, "host/1/a", 1, "x", ""))).jobs
    assert all(await run(leases.settle(keys, "host/1/a", [Outcome(dead.id, dead.token, "d", error)], 600_000)))

    def redact(task: str | None, name: str, value: object) -> object:
        hidden = name in ("0", "error") and value != 1
        return Hidden("the rule") if hidden else value

    guesses = ("q=4111", "error=4111", "error=ValueError%3A+card", "arg=2", "arg=n%3D2", "q=[2]", "q=%22send%22,[2")
    allowed = ("q=send", "error=ValueError", "arg=1", "arg=n%3D1", f"q={mail[2]}")
    for options, found in (({}, True), ({"redact": redact}, False)):
        async with client(**options) as browser:
            for query in (*guesses, *allowed):
                expected = found or query in allowed
                page = (await browser.get(f"/jobs?{query}")).text
                assert ('<tr id="job-' in page) is expected, query
                page = (await browser.get(f"/jobs/change?do=delete&{query}")).text
                assert ('<tr id="job-' in page) is expected, query
                assert ("No job to delete" in page) is not expected, query
            assert ("ValueError" in (await browser.get("/dead?text=4111")).text) is found
            assert "ValueError" in (await browser.get("/dead?text=ValueError")).text


async def test_errors_results_and_progress_are_hidden_by_rule_on_every_page(
    client: Client, alw: Lockwork, mail: list[str]
) -> None:
    keys, run, secret = QueueKeys("lw", "mail"), alw.runtime.arun, "card 4111"
    error = b'{"type":"ValueError","message":"card 4111 refused","traceback":"in pay, card 4111"}'
    await run(leases.beat(keys, {"host/1/a": True}, 600_000, 60))
    failed, again, running = (await run(leases.reserve(keys, "host/1/a", 3, "x", ""))).jobs
    assert await run(control.note(keys, "host/1/a", running, "", b'"card 4111"', 1000)) == 1
    assert await run(control.note(keys, "host/1/a", running, "paid", b'"card 4111"', 1000)) == 1
    ends = [Outcome(failed.id, failed.token, "d", error), Outcome(again.id, again.token, "r", error, 500_000)]
    assert all(await run(leases.settle(keys, "host/1/a", ends, 600_000)))
    pages = ["/jobs", "/dead", "/jobs?state=dead", *(f"/job/{job.id}" for job in (failed, again, running))]

    def redact(task: str | None, name: str, value: object) -> object:
        return Hidden("the rule of cards") if secret in str(value) else value

    async with client() as browser:
        assert all([secret in (await browser.get(path)).text for path in pages])
    async with client(redact=redact) as browser:
        for path in pages:
            page = (await browser.get(path)).text
            assert secret not in page, path
            assert "•••" in page, path
            assert re.search("[Hh]idden by the rule of cards", page), path
        result = Outcome(running.id, running.token, "s", b'"card 4111"', 60_000)
        assert await run(leases.settle(keys, "host/1/a", [result], 600_000)) == [True]
        page = (await browser.get(f"/job/{running.id}")).text
        assert secret not in page
        assert "hidden by the rule of cards" in page


async def test_unknown_queue_is_not_found(client: Client, mail: list[str]) -> None:
    async with client() as browser:
        page = await browser.get("/queues/mial")
        assert page.status_code == 404
        assert "No queue is named mial" in page.text
