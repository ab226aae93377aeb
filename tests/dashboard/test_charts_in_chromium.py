"""Charts in a real Chromium: their labels, and the time that one chooses by the pointer, the keys and the address."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime

import pytest
import redis
from playwright.sync_api import Browser, Page, expect

from dashboard.browsing import CHROMIUM, SIZES, aside, barriers, opened
from dashboard.counted import ended
from lockwork import Lockwork

pytestmark = pytest.mark.skipif(not CHROMIUM, reason="chromium is not installed")

_TEXTS = """
  window.texts = [];
  const fill = CanvasRenderingContext2D.prototype.fillText;
  CanvasRenderingContext2D.prototype.fillText = function (text, ...place) {
    texts.push(text);
    fill.call(this, text, ...place);
  };
"""
_EDGE = """
  () => {
    const canvas = document.querySelector("[data-plot] canvas");
    return canvas.getContext("2d").getImageData(0, 0, 3, canvas.height).data.some((value) => value > 0);
  }
"""


@pytest.fixture
def minute(lw: Lockwork, admin: redis.Redis) -> int:
    """A queue whose jobs ended 20, 10 and 2 minutes ago; the number of this minute."""
    aside(lambda: lw.task(queue="mail", name="send")(lambda: None).enqueue())
    now = int(time.time() // 60)
    for ago, done in ((20, 700), (10, 30), (2, 5)):
        ended(admin, lw, "mail", "send", now - ago, done=done, dead=ago, wait=0.5)
    return now


def drawn(page: Page, path: str) -> list[str]:
    """Return the labels of a page's chart."""
    page.goto(path)
    expect(page.locator(".plot canvas")).to_be_visible()
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    texts: list[str] = page.evaluate("texts")
    return texts


@pytest.mark.parametrize("look", SIZES)
@pytest.mark.parametrize("most", [7, 100_000, 1_250_000, 12_345_678])
def test_labels_of_counts_are_whole(
    browser: Browser, address: str, lw: Lockwork, admin: redis.Redis, minute: int, most: int, look: str
) -> None:
    ended(admin, lw, "mail", "send", minute - 3, done=most)
    with opened(browser, address, size=SIZES[look], locale="de-DE") as page:
        page.add_init_script(_TEXTS)
        counts = [int(text.replace(",", "")) for text in drawn(page, "/?range=1h") if re.fullmatch(r"[\d,]+", text)]
        assert max(counts) > most * 0.7 or most == 7
        assert not page.evaluate(_EDGE), "a label begins outside of the chart"


@pytest.mark.parametrize("width", [1440, 390])
def test_days_of_a_week_have_one_label_each(
    browser: Browser, address: str, lw: Lockwork, admin: redis.Redis, minute: int, width: int
) -> None:
    for day in range(1, 7):
        ended(admin, lw, "mail", "send", minute - day * 1440, done=day)
    with opened(browser, address, size=(width, 900), locale="en-US") as page:
        page.add_init_script(_TEXTS)
        days = [text for text in drawn(page, "/queues/mail?range=7d") if re.match(r"[A-Z]", text)]
        last = days[-len(set(days)) :]  # it may be drawn more than once
        assert len(last) >= 3
        assert len(set(last)) == len(last)
        assert all(re.fullmatch(r"[A-Z][a-z]{2} \d{1,2}", text) for text in last)


def parts(page: Page) -> list[str]:
    return page.locator("[data-part]").all_text_contents()


def test_time_is_chosen_by_the_pointer_for_the_whole_page(page: Page, minute: int) -> None:
    page.goto("/")
    tile, row = page.locator(".stat").first, page.locator("#task-mail-send")
    expect(tile).to_contain_text("735 in 1 hour")
    place = page.locator(".plot .u-over").bounding_box()
    assert place is not None
    bar = place["width"] / 60
    page.mouse.move(place["x"] + bar * 37.5, place["y"] + 50)
    page.mouse.down()
    page.mouse.move(place["x"] + bar * 52.5, place["y"] + 60, steps=5)
    page.mouse.up()
    page.mouse.move(5, 5)
    expect(page).to_have_url(re.compile(r"from=\d+&to=\d+"))
    expect(tile).to_contain_text("730 in")
    assert parts(page) == ["730", "0", "30"]
    expect(row).to_contain_text("730")
    expect(page.locator("#queue-mail")).to_contain_text("730")
    expect(page.locator("#queues th", has_text="Done")).to_contain_text(re.compile(r"Done, 1\d min"))
    expect(page.locator(".rail a", has_text="Tasks")).to_have_attribute("href", re.compile(r"/tasks\?from=\d+&to=\d+"))
    expect(page.locator(".live")).to_have_attribute("data-state", "on")
    page.reload()
    expect(tile).to_contain_text("730 in")
    expect(page.get_by_role("link", name="Jobs of this time")).to_have_attribute(
        "href", re.compile(r"state=done&since=\d{4}-.*Z&until=\d{4}-.*Z")
    )
    page.locator(".rail a", has_text="Tasks").click()
    expect(page.locator("#task-mail-send")).to_contain_text("730")
    page.locator("a.chip").click()
    expect(page.locator("#task-mail-send")).to_contain_text("735")
    assert "from=" not in page.url
    expect(page.locator(".rail a", has_text="Overview")).to_have_attribute("href", "/")


def test_pressed_bar_is_chosen_alone_and_a_range_clears_it(page: Page, minute: int) -> None:
    page.goto("/queues/mail")
    place = page.locator(".plot .u-over").bounding_box()
    assert place is not None
    bar = place["width"] / 60
    page.mouse.click(place["x"] + place["width"] - bar * 2.5, place["y"] + 100)
    expect(page.locator(".when")).to_contain_text(re.compile(r"\d\d:\d\d to \d\d:\d\d"))
    page.mouse.move(5, 5)
    assert parts(page)[0] in ("5", "0")  # the next minute may have begun
    page.get_by_title("24 hours").click()
    expect(page.locator(".when")).to_have_text("the last 24 hours")
    assert "from=" not in page.url


def test_time_is_chosen_by_the_keys(page: Page, minute: int) -> None:
    page.goto("/queues/mail")
    chart = page.locator("[data-plot]")
    expect(chart.locator("canvas")).to_be_visible()
    assert barriers(page) == []
    chart.focus()
    page.keyboard.press("End")
    for _ in range(8):
        page.keyboard.press("ArrowLeft")
    for _ in range(14):
        page.keyboard.press("Shift+ArrowLeft")
    expect(page.locator(".announce")).to_have_text(re.compile(r"\d\d:\d\d: \d+ done, 0 retried, \d+ dead"))
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"from=\d+&to=\d+"))
    expect(page.locator("#task-mail-send")).to_contain_text("730")
    assert parts(page) == ["730", "0", "30"]
    expect(chart).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.locator("#task-mail-send")).to_contain_text("735")
    assert "from=" not in page.url
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Escape")
    assert parts(page) == ["735", "0", "32"]


def test_counts_below_the_pointer_are_those_of_one_bar_and_follow_the_server(
    page: Page, lw: Lockwork, admin: redis.Redis, minute: int
) -> None:
    page.goto("/queues/mail")
    expect(page.locator("[data-part]").first).to_have_text("735")
    page.locator("[data-plot]").focus()
    page.keyboard.press("Home")
    assert parts(page) == ["0", "0", "0"]
    ended(admin, lw, "mail", "send", minute - 2, done=1000)
    page.locator("h1").click()
    expect(page.locator("[data-part]").first).to_have_text("1,735")


def test_chosen_time_is_in_the_zone_of_the_viewer(browser: Browser, address: str, minute: int) -> None:
    with opened(browser, address, timezone_id="Asia/Tokyo", locale="en-US") as page:
        begin = (minute - 21) * 60
        page.goto(f"/tasks?from={begin}&to={begin + 120}")
        hour = datetime.fromtimestamp(begin + 9 * 3600, UTC)
        expect(page.locator("a.chip")).to_contain_text(f"{hour:%b} {hour.day}, {hour:%H:%M} to ")


def test_held_row_of_a_job_that_moved_on_is_not_shown_in_its_old_state(page: Page, lw: Lockwork) -> None:
    send = lw.task(queue="mail", name="send")(lambda n: None)
    jobs = aside(lambda: send.enqueue_many([(n,) for n in range(3)]))
    page.goto("/jobs?state=ready")
    row = page.locator(f"#job-{jobs[1].id}")
    expect(row).to_contain_text("ready")
    aside(lambda: send.enqueue(3))
    expect(page.get_by_role("button", name="1 new")).to_be_visible()
    aside(jobs[1].cancel)
    expect(row.locator(".state")).to_have_text("was ready")
    expect(row.locator(".state .icon")).to_have_count(0)
    aside(lambda: send.enqueue(4))
    expect(page.get_by_role("button", name="2 new")).to_be_visible()
    expect(row.locator(".state")).to_have_text("was ready")
    page.get_by_role("button", name="2 new").click()
    expect(row).to_have_count(0)
