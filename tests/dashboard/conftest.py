"""A dashboard without its own server, and a client that sends a browser's requests."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from dashboard.browsing import CHROMIUM, SANDBOX, serving, troubles_of, watched
from lockwork import Lockwork
from lockwork.dashboard import app

SAME = {"Sec-Fetch-Site": "same-origin"}
"""Header that a browser sends with the forms of a page of the dashboard."""
Client = Callable[..., httpx.AsyncClient]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=SANDBOX)
        yield started
        started.close()


@pytest.fixture
def address(url: str) -> Iterator[str]:
    """Address of a dashboard that allows actions."""
    with serving(url, allow_actions=True) as served:
        yield served


@pytest.fixture
def page(browser: Browser, address: str) -> Iterator[Page]:
    """A page that fails the test after a dialog, an error or a console message."""
    context = browser.new_context(viewport={"width": 1440, "height": 900}, base_url=address)
    made = watched(context)
    yield made
    context.close()
    assert troubles_of(made) == []


@pytest.fixture
def client(alw: Lockwork) -> Client:
    """Make a client of a dashboard with these options; its browser asks for pages of one origin."""

    def make(host: str = "127.0.0.1:8787", client: str = "127.0.0.1", **options: Any) -> httpx.AsyncClient:
        transport = httpx.ASGITransport(app(alw, **options), client=(client, 5000))
        return httpx.AsyncClient(transport=transport, base_url=f"http://{host}", headers={"Accept": "text/html"})

    return make


@pytest.fixture
async def mail(alw: Lockwork) -> list[str]:
    """Ids of three jobs in a queue "mail" without workers."""

    @alw.task(queue="mail")
    async def send(n: int) -> None: ...

    return [(await send.aenqueue(n)).id for n in range(3)]


async def csrf(browser: httpx.AsyncClient, path: str) -> str:
    """Read the token that the forms of a page have."""
    page = await browser.get(path)
    found = re.search(r'name="csrf" value="([^"]+)"', page.text)
    assert found, page.text[:2000]
    return found[1]


async def act(
    browser: httpx.AsyncClient, path: str, action: str, headers: dict[str, str] | None = None, **form: str
) -> httpx.Response:
    """Send a form of a page, as a browser does."""
    sent = {"action": action, "csrf": await csrf(browser, path), **form}
    return await browser.post(path, data=sent, headers=SAME if headers is None else headers)


async def said(browser: httpx.AsyncClient, path: str, action: str, **form: str) -> str:
    """Do something, and return the sentence that the page then says."""
    answer = await act(browser, path, action, None, **form)
    assert answer.status_code == 303, answer.text
    page = await browser.get(answer.headers["location"])
    found = re.search(r'class="said (?:good|bad)" role="status">.*?<span>(.*?)</span>', page.text, re.DOTALL)
    assert found, page.text[:3000]
    return html.unescape(found[1])
