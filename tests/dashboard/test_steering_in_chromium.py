"""Lists in a real Chromium: rows are selected and changed, new ones wait, the URL says what one sees."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest
from playwright.sync_api import Browser, Page, expect

from dashboard.browsing import CHROMIUM, SIZES, aside, barriers, looks_of, opened, photograph, serving
from lockwork import Lockwork
from lockwork.dashboard.pages import jobs
from lockwork.jobs.search import JobState
from lockwork.protocol.announcements import announcements
from lockwork.workers import Worker
from processes import until, worker

pytestmark = pytest.mark.skipif(not CHROMIUM, reason="chromium is not installed")
ENDS: tuple[JobState, JobState] = ("done", "dead")


@pytest.fixture
def mail(lw: Lockwork) -> Lockwork:
    """A queue of 60 jobs without workers."""

    @lw.task(queue="mail")
    async def send(n: int, to: str = "") -> None: ...

    aside(lambda: send.enqueue_many([(n, f"user{n}@example.com") for n in range(60)]))
    return lw


def test_rows_are_selected_by_keys_and_cancelled_and_revived(page: Page, mail: Lockwork) -> None:
    page.goto("/jobs")
    bar = page.locator("[data-bulk]")
    expect(bar).to_be_hidden()
    for key in "jxjjxk":
        page.keyboard.press(key)
    expect(bar).to_contain_text("2 selected")
    expect(page.locator("tr.on")).to_contain_text("58")
    page.wait_for_timeout(600)  # live updates keep the selection
    expect(bar).to_contain_text("2 selected")
    bar.get_by_role("button", name="Select none").click()
    expect(bar).to_be_hidden()
    page.get_by_label("Select all jobs of this page").check()
    expect(bar).to_contain_text("50 selected")
    bar.get_by_role("button", name="Cancel…").click()
    expect(page.locator(".ask-many")).to_contain_text("Cancel these 50 jobs?")
    expect(page.locator("#preview tbody tr")).to_have_count(50)
    page.get_by_role("button", name="Cancel 50 jobs").click()
    expect(page.locator(".ask-many")).to_have_text("50 jobs are cancelled.")
    assert aside(mail.queue("mail").status).ready == 10
    page.get_by_role("button", name="Undo").click()
    expect(page.locator(".ask-many")).to_have_text("50 jobs run again.")
    assert aside(mail.queue("mail").status).ready == 60
    page.get_by_role("link", name="Back to the jobs").click()
    page.wait_for_url("**/jobs")


def test_search_goes_on_by_itself_to_its_end_or_until_it_is_stopped(
    page: Page, lw: Lockwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    @lw.task
    async def send(n: int) -> None: ...

    monkeypatch.setattr(jobs, "_LONG", 0.0)  # else it depends on the machine how far one page reaches
    aside(lambda: send.enqueue_many([(n,) for n in range(30_000)]))
    page.goto("/jobs?state=ready&arg=10000&oldest=1")
    expect(page.locator("#jobs tbody tr")).to_have_count(1, timeout=60_000)
    expect(page.locator("#jobs tbody tr")).to_contain_text("10000")
    expect(page.get_by_text("searched 30,000 of 30,000")).to_be_visible(timeout=60_000)
    page.reload()
    expect(page.locator("#jobs tbody tr")).to_contain_text("10000")
    page.goto("/jobs?state=ready&arg=none")
    expect(page.get_by_role("link", name="Go on")).to_be_hidden()
    page.get_by_role("button", name="Stop").click()
    on = page.get_by_role("link", name="Go on")
    expect(on).to_be_visible()
    reached = page.locator("[data-search-on]").inner_text()
    page.wait_for_timeout(300)
    assert page.locator("[data-search-on]").inner_text() == reached
    on.click()
    expect(page.get_by_text("No job matches", exact=True)).to_be_visible(timeout=60_000)


def test_matching_jobs_are_deleted_without_javascript(browser: Browser, address: str, mail: Lockwork) -> None:
    with opened(browser, address, java_script_enabled=False) as page:
        page.goto("/jobs?queue=mail")
        page.get_by_role("link", name="Delete all…").click()
        expect(page.locator(".ask-many")).to_contain_text("Delete all 60 jobs? This cannot be undone.")
        page.get_by_role("button", name="Delete 60 jobs").click()
        expect(page.locator(".ask-many")).to_have_text("60 jobs are deleted.")
        assert aside(mail.queue("mail").status).ready == 0


def test_selected_rows_are_cancelled_without_javascript(browser: Browser, address: str, mail: Lockwork) -> None:
    with opened(browser, address, java_script_enabled=False) as page:
        page.goto("/jobs")
        page.locator("input[data-select]").nth(0).check()
        page.locator("input[data-select]").nth(3).check()
        page.locator("[data-bulk]").get_by_role("button", name="Cancel…").click()
        page.get_by_role("button", name="Cancel 2 jobs").click()
        expect(page.locator(".ask-many")).to_have_text("2 jobs are cancelled.")
        assert aside(mail.queue("mail").status).ready == 58


def test_new_rows_wait_until_one_asks_for_them(page: Page, mail: Lockwork) -> None:
    page.goto("/jobs")
    first = page.locator("#jobs tbody tr").first
    before = first.get_attribute("id")
    again = mail.task(queue="mail", name="again")(lambda n: None)
    aside(lambda: again.enqueue_many([(n,) for n in range(12)]))
    fresh = page.get_by_role("button", name="12 new")
    expect(fresh).to_be_visible()
    assert first.get_attribute("id") == before
    fresh.click()
    expect(page.locator("#jobs tbody tr").first).to_contain_text("again")
    expect(fresh).to_have_count(0)


def test_url_contains_that_a_page_is_paused(page: Page, mail: Lockwork) -> None:
    page.goto("/queues")
    expect(page.locator(".live")).to_have_attribute("data-state", "on")
    page.keyboard.press("p")
    expect(page).to_have_url(re.compile(r"/queues\?paused=1$"))
    page.keyboard.press("g")
    page.keyboard.press("j")
    page.wait_for_url("**/jobs?paused=1")
    expect(page.locator(".live")).to_have_text("Paused")
    page.get_by_label("Task").fill("send")
    expect(page).to_have_url(re.compile(r"paused=1"))
    page.reload()
    expect(page.locator(".live")).to_have_text("Paused")
    page.locator(".live").click()
    expect(page.locator(".live")).to_have_text("Live")
    assert "paused" not in page.url
    assert not page.locator("a[href*=paused]").count()


def test_t_changes_between_light_and_dark(page: Page, mail: Lockwork) -> None:
    page.goto("/jobs")
    color = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(color)
    page.keyboard.press("t")
    assert page.evaluate(color) != light


def test_filters_are_folded_on_a_phone_and_nothing_scrolls_sideways(
    browser: Browser, address: str, mail: Lockwork
) -> None:
    with opened(browser, address, size=(390, 844)) as page:
        page.goto("/jobs")
        field = page.get_by_label("Queue")
        expect(field).to_be_hidden()
        page.get_by_text("Filter", exact=True).first.click()
        field.fill("mail")
        expect(page).to_have_url(re.compile("queue=mail"))
        expect(field).to_be_visible()  # also after the page was updated
        job = aside(lambda: mail.queue("mail").peek(1))[0].id
        for path in ("/", "/queues", "/queues/mail", "/jobs", f"/job/{job}", "/dead", "/jobs/change?do=cancel"):
            page.goto(path)
            wide = page.evaluate(
                "[document.documentElement, ...document.querySelectorAll('.scroll')]"
                ".filter((one) => one.scrollWidth > one.clientWidth).map((one) => one.outerHTML.slice(0, 200))"
            )
            assert wide == [], path


@pytest.fixture
def worked(own_url: str, apps: Path) -> Iterator[Lockwork]:
    """Three jobs done by a worker that has ended since."""
    with Lockwork(own_url) as lw:
        with worker("office:lw", "--concurrency", "4", url=own_url, folder=apps):
            write = lw.task(queue="office", name="write")(lambda page: None)
            charge = lw.task(queue="office", name="charge", retries=0)(lambda card: None)
            aside(lambda: write.enqueue_many([(0,)] * 3))
            aside(lambda: charge.enqueue("4111 1111 1111 1111, of which the bank says to try again on Monday,"))
            until(lambda: aside(lambda: lw.queue("office").status().succeeded) == 3, "they ran")
            until(
                lambda: aside(lambda: sum(each.succeeded for each in lw.metrics().points)) == 3, "they are counted", 20
            )
            for _ in range(10):
                aside(lambda: lw.queue("office").pause())
                aside(lambda: lw.queue("office").resume())
            aside(lambda: lw.queue("office").pause())
        yield lw


@pytest.mark.parametrize("width", [1280, 390])
def test_tables_fit_and_no_cell_covers_the_next(browser: Browser, worked: Lockwork, own_url: str, width: int) -> None:
    queues = ["images", "mail", "orders", "reports"]
    large = Worker(
        "vm-8a31/14634/e5a72d5d84", "vm-8a31", 14634, "0.1.0", "shop:lw", queues, 1, 100, datetime.now(UTC), 15,
        busy=40, slots=100, memory=50_000_000, lag=0.001,
    )  # fmt: skip
    encoded = msgspec.msgpack.encode(large)
    aside(lambda: worked.runtime.run(announcements.put("lw", announcements.WORKERS, large.name, encoded)))
    (dead,) = aside(lambda: worked.jobs("office", state="dead").jobs)
    with serving(own_url, allow_actions=True) as address:
        with opened(browser, address, size=(width, 800)) as page:
            for path in (
                "/",
                "/workers",
                "/schedules",
                "/queues",
                "/queues/office",
                "/tasks",
                "/dead",
                f"/job/{dead.id}",
            ):
                page.goto(path)
                expect(page.locator(".live")).to_have_attribute("data-state", "on")
                bad = page.evaluate(
                    "[document.documentElement, ...document.querySelectorAll('.scroll, td')]"
                    ".filter((one) => getComputedStyle(one).overflowX !== 'hidden')"
                    ".filter((one) => one.scrollWidth > one.clientWidth)"
                    ".map((one) => one.outerHTML.slice(0, 200))"
                )
                assert bad == [], path


@pytest.mark.parametrize("size", SIZES)
def test_pages_of_work_that_was_done_are_accessible(
    browser: Browser, worked: Lockwork, own_url: str, size: str
) -> None:
    (done, *_), (dead,) = aside(lambda: [worked.jobs("office", state=state).jobs for state in ENDS])
    paths = {"overview": "/?range=15m", "workers": "/workers", "schedules": "/schedules", "tasks": "/tasks",
             "dead": "/dead", "job-done": f"/job/{done.id}", "job-dead": f"/job/{dead.id}"}  # fmt: skip
    with serving(own_url, allow_actions=True, token="0123456789abcdef") as address:
        with opened(browser, address, size=SIZES[size], reduced_motion="reduce") as page:
            page.goto("/")
            for look in looks_of(page, size):
                assert not (found := barriers(page, look)), f"login, {look}: {found}"
                photograph(page, f"login-{look}")
            page.get_by_label("Token").fill("0123456789abcdef")
            page.keyboard.press("Enter")
            expect(page.locator("h1")).to_have_text("Overview")
            for name, path in paths.items():
                page.goto(path)
                expect(page.locator(".live")).to_have_attribute("data-state", "on")
                for look in looks_of(page, size):
                    photograph(page, f"work-{name}-{look}")
                    assert not (found := barriers(page, look)), f"{name}, {look}: {found}"
                assert not page.evaluate("document.documentElement.scrollWidth > innerWidth"), f"{name}, {size}"


def test_charts_survive_restarts_have_marks_and_are_brushed(browser: Browser, worked: Lockwork, own_url: str) -> None:
    for _ in range(2):  # the second is a dashboard that was started again
        with serving(own_url) as address:
            with opened(browser, address) as page:
                for span in ("15m", "1h", "24h", "7d"):
                    page.goto(f"/?range={span}")
                    expect(page.locator("[data-part]").first).to_have_text("3")
                    expect(page.locator("[data-part]").last).to_have_text("1")
                page.goto("/?range=15m")
                marks = page.locator(".marks li")
                expect(marks.filter(has_text=re.compile(r"Queue office paused (now|\d+ s ago|\d min)"))).to_have_count(
                    1
                )
                expect(marks.filter(has_text=re.compile(r"Queue office paused for \d+ ms"))).to_have_count(1)
                expect(marks.filter(has_text="1 worker started")).to_have_count(1)
                place = page.locator(".plot .u-over").bounding_box()
                assert place is not None
                page.mouse.move(place["x"] + 40, place["y"] + 50)
                page.mouse.down()
                page.mouse.move(place["x"] + place["width"] / 2, place["y"] + 60, steps=5)
                page.mouse.up()
                expect(page).to_have_url(re.compile(r"from=\d+&to=\d+"))
                page.mouse.move(5, 5)
                expect(page.locator("[data-part]").first).to_have_text("0")  # nothing was done then
                page.reload()
                jobs = page.get_by_role("link", name="Jobs of this time")
                expect(jobs).to_have_attribute("href", re.compile(r"since=\d{4}-.*Z&until=\d{4}-.*Z"))
                page.get_by_role("link", name="Whole time").click()
                expect(page.locator("[data-part]").first).to_have_text("3")
                assert "from=" not in page.url
