"""The page of dead jobs in Chromium: it reads on until all are counted, and is live then."""

from __future__ import annotations

import asyncio

import pytest
from playwright.sync_api import Page, expect

from dashboard.browsing import CHROMIUM, aside
from dashboard.test_dead_groups import KINDS, bury
from lockwork import Lockwork

pytestmark = [pytest.mark.skipif(not CHROMIUM, reason="chromium is not installed"), pytest.mark.usefixtures("lw")]


def fill(url: str, count: int, kinds: list[tuple[str, str]]) -> None:
    async def run() -> None:
        async with Lockwork(url) as lw:
            await bury(lw, "mail", count, kinds)

    aside(lambda: asyncio.run(run()))


def test_page_reads_on_until_all_are_counted_and_is_live_then(page: Page, url: str) -> None:
    fill(url, 6000, KINDS)
    page.goto("/dead")
    counts = page.locator(".death .count")
    expect(page.locator("a[rel=next]")).to_have_count(0, timeout=60_000)
    expect(counts).to_have_count(3)
    assert sorted(counts.all_inner_texts()) == ["1,500", "1,500", "3,000"]
    expect(page.locator(".live")).to_have_attribute("data-state", "on")
    fill(url, 7, [("report", "KeyError")])
    expect(counts.first).to_have_text("7")
    expect(page.locator(".death h2").first).to_contain_text("KeyError in report")


def test_paused_page_reads_on_only_when_asked(page: Page, url: str) -> None:
    fill(url, 6000, KINDS)
    page.goto("/dead?paused=1")
    link = page.get_by_role("link", name="Go on")
    expect(link).to_be_visible()
    expect(page.locator(".death .count").first).to_contain_text("of the newest")
    before = page.locator(".pager .note").inner_text()
    link.click()
    expect(page.locator(".pager .note")).not_to_have_text(before)
    expect(page.locator(".live")).to_have_text("Paused")
