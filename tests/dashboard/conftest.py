"""A dashboard without its own server, and a client that sends a browser's requests."""

from __future__ import annotations

import contextlib
import html
import re
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from dashboard.browsing import CHROMIUM, SWITCHES, forget_contexts, opened, serving
from lockwork import Lockwork
from lockwork.dashboard import app
from lockwork.dashboard.pages import change

SAME = {"Sec-Fetch-Site": "same-origin"}
"""Header that a browser sends with the forms of a page of the dashboard."""
Client = Callable[..., httpx.AsyncClient]


_browsers: list[Browser] = []
"""The running Chromium, if there is one."""
_running = contextlib.ExitStack()


@pytest.fixture(scope="module")
def chromium() -> Browser:
    """A Chromium, which consecutive modules share."""
    if not _browsers:
        playwright = _running.enter_context(sync_playwright())
        _browsers.append(playwright.chromium.launch(executable_path=CHROMIUM, args=SWITCHES))
        _running.callback(lambda: _browsers.pop().close())
        _running.callback(forget_contexts)
    return _browsers[0]


@pytest.fixture(scope="module")
def browser(chromium: Browser) -> Browser:
    return chromium


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Function, nextitem: pytest.Function | None) -> None:
    """End the Chromium before a module that does not use it, because its event loop runs in the tests' thread."""
    if nextitem is None or (nextitem.module is not item.module and "chromium" not in nextitem.fixturenames):
        _running.close()


@pytest.fixture(autouse=True)
def patient_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let pages wait for the end of a count or a change on slow machines, too."""
    for limit in ("_SOON", "_BRIEF"):
        monkeypatch.setattr(change, limit, 30.0)


@pytest.fixture
def address(url: str) -> Iterator[str]:
    """Address of a dashboard that allows actions."""
    with serving(url, allow_actions=True) as served:
        yield served


@pytest.fixture
def page(browser: Browser, address: str) -> Iterator[Page]:
    """A page that fails the test after a dialog, an error or a console message."""
    with opened(browser, address, reduced_motion="reduce") as made:
        yield made
        made.context.set_offline(False)


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
