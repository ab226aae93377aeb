"""The search box: whole values come before parts, the page fills up, and an empty result names its limits."""

from __future__ import annotations

import html
import re

import pytest
from playwright.sync_api import Page, expect

from dashboard.browsing import CHROMIUM, aside
from lockwork import Lockwork

pytestmark = pytest.mark.skipif(not CHROMIUM, reason="chromium is not installed")


@pytest.fixture
def users(lw: Lockwork) -> dict[int, str]:
    """A job of each of some users, the one of 42 oldest and behind many others; ids by user."""

    @lw.task(queue="mail")
    async def send(user: int, note: str = "") -> None: ...

    found = {42: aside(lambda: send.enqueue(42)).id}
    others = [1042, *range(10_000, 42_000), 2042, 3042]
    jobs = aside(lambda: send.enqueue_many([(user,) for user in others]))
    return found | {user: job.id for user, job in zip(others, jobs, strict=True)}


def test_whole_value_comes_before_parts_and_the_page_fills_up(page: Page, users: dict[int, str]) -> None:
    page.goto("/jobs?q=42")
    rows = page.locator("#jobs tbody tr")
    expect(rows.first).to_have_attribute("id", f"job-{users[42]}", timeout=60_000)
    expect(rows.nth(49)).to_be_visible(timeout=60_000)
    expect(page.get_by_role("button", name="Stop")).to_be_hidden()
    exact = rows.evaluate_all("(rows) => rows.map((row) => 'exact' in row.dataset)")
    assert exact == [True] + [False] * (len(exact) - 1)
    texts = rows.evaluate_all("(rows) => rows.map((row) => row.innerText)")
    assert all("42" in text for text in texts)


def test_search_that_ends_has_all_matches(page: Page, users: dict[int, str]) -> None:
    page.goto("/jobs?arg=2042")
    expect(page.locator("#jobs tbody tr")).to_have_count(1, timeout=60_000)
    page.goto("/jobs?q=1042")
    rows = page.locator("#jobs tbody tr")
    wanted = [user for user in users if "1042" in str(user)]
    assert len(wanted) < 50
    expect(rows).to_have_count(len(wanted), timeout=60_000)


def test_empty_answer_says_how_far_history_reaches(page: Page, lw: Lockwork) -> None:
    @lw.task(queue="mail")
    async def send(user: int) -> None: ...

    aside(lambda: send.enqueue(1))
    page.goto("/jobs?q=nobody")
    expect(page.get_by_text("History has no success.")).to_be_visible()
    assert "nobody" in html.unescape(re.sub("<[^>]*>", "", page.content()))
