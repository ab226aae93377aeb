"""Several windows of one browser: it opens six connections to a host, and live pages leave two of them free."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Browser, Page, expect

from dashboard.browsing import CHROMIUM, aside, troubles_of, watched
from lockwork import Lockwork
from lockwork.dashboard.streams import MOST_OF_BROWSER
from processes import until

pytestmark = pytest.mark.skipif(not CHROMIUM, reason="chromium is not installed")

_WATCH_STREAMS = """
  window.streams = [];
  window.EventSource = class extends EventSource {
    constructor(address) { super(address); window.streams.push(this); }
  };
"""
_OPEN = "window.streams.filter((each) => each.readyState === EventSource.OPEN).length"
_HIDE = """
  (hidden) => {
    Object.defineProperty(document, "hidden", { configurable: true, get: () => hidden });
    document.dispatchEvent(new Event("visibilitychange"));
  }
"""


@pytest.fixture
def add(lw: Lockwork) -> Callable[[int], None]:
    """Return a function that enqueues a number of jobs."""

    @lw.task(queue="mail")
    async def send(n: int) -> None: ...

    aside(lambda: send.enqueue(0))

    def enqueue(count: int) -> None:
        aside(lambda: send.enqueue_many([(n,) for n in range(count)]))

    return enqueue


def ready(page: Page, count: int) -> None:
    expect(page.locator("#queues tbody tr").first).to_contain_text(f"{count}")


def test_eight_windows_of_one_browser_load_and_stay_live(
    browser: Browser, address: str, add: Callable[[int], None]
) -> None:
    context = browser.new_context(base_url=address)
    context.add_init_script(_WATCH_STREAMS)
    pages = [watched(context) for _ in range(8)]
    for page in pages:
        page.goto("/queues", timeout=10_000)
        expect(page.locator(".live")).to_have_attribute("data-state", "on")
    assert sum(page.evaluate(_OPEN) for page in pages) <= MOST_OF_BROWSER
    add(6)
    for page in pages:
        ready(page, 7)
        expect(page.locator(".live")).to_have_attribute("data-state", "on")
    assert sum(page.evaluate(_OPEN) for page in pages) <= MOST_OF_BROWSER
    assert [troubles_of(page) for page in pages] == [[]] * 8
    context.close()


def test_hidden_page_closes_its_stream_and_catches_up_when_shown(page: Page, add: Callable[[int], None]) -> None:
    page.add_init_script(_WATCH_STREAMS)
    page.goto("/queues")
    until(lambda: page.evaluate(_OPEN) == 1, "1 streams are open")
    page.evaluate(_HIDE, True)
    until(lambda: page.evaluate(_OPEN) == 0, "0 streams are open")
    add(6)
    page.evaluate(_HIDE, False)
    ready(page, 7)
    until(lambda: page.evaluate(_OPEN) == 1, "1 streams are open")
