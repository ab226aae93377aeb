"""The dashboard in a real Chromium: what one sees, presses and types."""

from __future__ import annotations

import contextlib
import functools
import re
import threading
from collections.abc import Iterator
from urllib.parse import quote

import pytest
import redis
from playwright.sync_api import Browser, Page, expect

from dashboard.browsing import (
    CHROMIUM,
    FRAMES,
    SIZES,
    aside,
    barriers,
    looks_of,
    opened,
    photograph,
    serving,
    troubles_of,
    watched,
)
from dashboard.payloads import PAYLOADS
from lockwork import Lockwork
from lockwork.dashboard.pages import PAGES
from lockwork.errors import LockLost
from lockwork.jobs.current import slot
from lockwork.words import rough_age
from running_jobs import running

pytestmark = pytest.mark.skipif(not CHROMIUM, reason="chromium is not installed")


@pytest.fixture
def shop(lw: Lockwork) -> Iterator[Lockwork]:
    """Queues with jobs, a flow, a limiter, a stock, and locks: one waited for, and two in a deadlock."""

    @lw.task(queue="mail")
    async def send(n: int, to: str = "") -> None: ...

    @lw.task(queue="images")
    async def resize(path: str) -> None: ...

    aside(lambda: [send.enqueue(n, to=f"user{n}@example.com") for n in range(30)])
    aside(lambda: [resize.enqueue(f"/srv/photos/{n}.jpg") for n in range(5)])
    aside(lambda: lw.chord([send.call(n) for n in range(12)], send).enqueue())
    aside(lambda: lw.limiter("api", "100/h", burst=20).acquire(8))
    aside(lambda: lw.stock("phones", 100).reserve("ada", 7))
    done = threading.Event()
    first, second = threading.Event(), threading.Event()

    def hold(mine: str, other: str, ours: threading.Event, theirs: threading.Event) -> None:
        if mine == "order:1":
            slot.set(running("P7RSMfoiXM2K9_cYUq", "import_orders"))
        with lw.lock(mine, tags=("checkout",)):
            ours.set()
            theirs.wait(10)
            while not done.is_set():
                try:
                    with lw.lock(other, wait=1):
                        return
                except Exception:  # noqa: BLE001 - it waits again
                    continue

    threads = [
        threading.Thread(target=hold, args=("order:1", "order:2", first, second), name="checkout-1"),
        threading.Thread(target=hold, args=("order:2", "order:1", second, first), name="checkout-2"),
    ]
    for thread in threads:
        thread.start()
    grant = aside(lw.lock("invoice:9").acquire)
    yield lw
    done.set()
    for thread in threads:
        thread.join(10)
    with contextlib.suppress(LockLost):
        aside(grant.release)


def paths(lw: Lockwork) -> dict[str, str]:
    """Return an address of each page, by its name."""
    (first,) = aside(lambda: lw.queue("mail").peek(1))
    (flow,) = aside(lw.flows).flows
    places = {"{queue:path}": "mail", "{id:path}": first.id, "{name:path}": "none"}
    found = {page.name: re.sub(r"\{.*\}", lambda match: places[match[0]], page.path) for page in PAGES}
    found |= {"flow": f"/flow/{flow.id}", "job-of-flow": f"/job/{flow.id}.00003"}
    return {name: path for name, path in found.items() if not path.endswith("/none")} | {
        "workers": "/workers",
        "change": "/jobs/change?do=cancel&queue=mail",
    }


_WIDE = """
  [...document.querySelectorAll(".scroll > table")]
    .filter((each) => each.offsetWidth > each.parentElement.clientWidth + 1)
    .map((each) => each.id)
"""
_SHIFTS = """
  window.shifts = 0;
  new PerformanceObserver((list) => { for (const each of list.getEntries()) window.shifts += each.value; })
    .observe({ type: "layout-shift", buffered: true });
"""


def shown(page: Page, path: str, size: str) -> Iterator[str]:
    """Open a page, and show its looks."""
    page.goto(path)
    expect(page.locator("main h1, main h2").first).to_be_visible()
    expect(page.locator(".live")).to_have_attribute("data-state", "on")
    yield from looks_of(page, size)


@pytest.mark.parametrize("size", SIZES)
def test_page_is_accessible_and_matches_its_layout(browser: Browser, address: str, shop: Lockwork, size: str) -> None:
    with opened(browser, address, size=SIZES[size], reduced_motion="reduce") as page:
        for name, look in ((name, look) for name, path in paths(shop).items() for look in shown(page, path, size)):
            photograph(page, f"{name}-{look}")
            assert not (found := barriers(page, look)), f"{name}, {look}: {found}"
            scrolls = page.evaluate("document.documentElement.scrollWidth > innerWidth")
            assert not scrolls, f"{name}, {look}: the page is wider than the screen"
            wide = page.evaluate(_WIDE)
            assert wide == [], f"{name}, {look}: a table is wider than the screen"


@pytest.mark.parametrize("size", [(1440, 900), (390, 844)])
def test_page_does_not_move_while_it_loads_and_is_live(
    browser: Browser, address: str, shop: Lockwork, size: tuple[int, int]
) -> None:
    """Times grow from seconds to hours, counts by a digit, and jobs come and go."""
    context = browser.new_context(base_url=address, viewport={"width": size[0], "height": size[1]}, locale="en-US")
    page = watched(context)
    page.clock.install()
    page.add_init_script(_SHIFTS)
    moved: dict[str, float] = {}
    visited = {**paths(shop), "jobs-of-task": "/jobs?state=ready&task=sent-jobs-of-task"}
    for name, path in visited.items():
        send = shop.task(queue="mail", name=f"sent-{name}")(lambda n: None)
        is_live = name != "locks"  # there a deadlock ends and begins again each second
        page.goto(path if is_live else f"{path}?paused=1")
        if is_live:
            expect(page.locator(".live")).to_have_attribute("data-state", "on")
        page.evaluate(FRAMES)
        assert page.evaluate("window.shifts") < 0.01, name
        if not is_live:
            continue
        for away in ("00:08", "00:55", "09:00", "50:00", "09:00:00"):
            page.clock.fast_forward(away)
            page.evaluate(FRAMES)
        for many in (1, 9, 90):
            aside(functools.partial(send.enqueue_many, [(n,) for n in range(many)]))
            page.wait_for_timeout(500)  # it is updated, if this changes it
        moved[name] = page.evaluate("window.shifts")
    assert {name: shift for name, shift in moved.items() if shift >= 0.01} == {}
    assert troubles_of(page) == []
    context.close()


def test_address_that_names_nothing_is_not_live_and_leads_on(page: Page, shop: Lockwork) -> None:
    page.goto("/queues/none")
    expect(page.locator("#content")).to_contain_text("No queue is named none, or it never had a job.")
    expect(page.locator(".live")).to_have_count(0)
    expect(page).to_have_title("Not found · Lockwork")
    page.locator("#content").get_by_role("link", name="Queues").click()
    page.wait_for_url("**/queues")


def test_login_is_in_the_middle(browser: Browser, url: str) -> None:
    with serving(url, token="a-token-of-20-letters") as locked:
        page = browser.new_page(viewport={"width": 1440, "height": 900}, base_url=locked)
        page.goto("/")
        box = page.locator(".login form").bounding_box()
        assert box is not None
        assert box["x"] + box["width"] / 2 == pytest.approx(720, abs=2)
        assert box["y"] + box["height"] / 2 == pytest.approx(450, abs=40)
        page.close()


def test_page_is_updated_live_and_says_when_the_server_is_lost(page: Page, shop: Lockwork, admin: redis.Redis) -> None:
    page.goto("/queues")
    ready = page.locator("tr#queue-images td").nth(2)
    expect(ready).to_have_text("5")
    aside(shop.queue("images").clear)
    expect(ready).to_have_text("0")
    page.keyboard.press("p")
    expect(page.locator(".live")).to_have_text("Paused")
    aside(shop.queue("images").pause)
    page.wait_for_timeout(600)
    expect(page.locator("tr#queue-images")).to_contain_text("open")
    page.keyboard.press("p")
    expect(page.locator("tr#queue-images")).to_contain_text("paused")
    page.context.set_offline(True)
    page.evaluate("dispatchEvent(new Event('pagehide')); dispatchEvent(new Event('pageshow'))")
    expect(page.locator(".lost")).to_contain_text("connection is lost")
    expect(page.locator(".lost")).to_contain_text("What you see is of")
    page.context.set_offline(False)
    expect(page.locator(".lost")).to_be_hidden(timeout=10_000)
    troubles_of(page).clear()  # the browser logs its offline period


def test_keys_move_open_search_and_explain(page: Page, shop: Lockwork) -> None:
    page.goto("/")
    page.keyboard.press("?")
    expect(page.locator("dialog#keys")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("dialog#keys")).to_be_hidden()
    page.keyboard.press("g")
    page.keyboard.press("q")
    page.wait_for_url("**/queues")
    page.keyboard.press("j")
    page.keyboard.press("j")
    expect(page.locator("tr.on")).to_contain_text("mail")
    page.keyboard.press("k")
    expect(page.locator("tr.on")).to_contain_text("images")
    page.keyboard.press("Enter")
    page.wait_for_url("**/queues/images")
    page.keyboard.press("/")
    expect(page.locator(".search input")).to_be_focused()
    page.keyboard.type("gl")
    expect(page).to_have_url(re.compile("/queues/images$"))
    page.keyboard.press("Escape")
    page.keyboard.press("g")
    page.keyboard.press("l")
    page.wait_for_url("**/locks")
    page.keyboard.press("g")
    page.keyboard.press("o")
    expect(page.locator("h1")).to_have_text("Overview")


def test_action_of_a_queue_changes_it_and_reports(page: Page, shop: Lockwork) -> None:
    queue = shop.queue("images")
    page.goto("/queues/images")
    page.get_by_role("button", name="Pause").click()
    expect(page.get_by_role("status")).to_have_text("Queue images is paused; running jobs continue.")
    assert aside(queue.status).paused
    page.get_by_role("button", name="Resume").click()
    expect(page.get_by_role("status")).to_have_text("Queue images is no longer paused.")
    assert not aside(queue.status).paused
    page.get_by_label("Started per time").fill("7/s")
    page.get_by_label("At once").fill("3")
    page.get_by_role("button", name="Set limits").click()
    expect(page.get_by_role("status")).to_have_text("Limits of queue images: 7/s started, 3 at once.")
    assert (aside(queue.limits).rate, aside(queue.limits).concurrency) == ("7/s", 3)
    page.get_by_label("Started per time").fill("often")
    page.get_by_role("button", name="Set limits").click()
    expect(page.get_by_role("status")).to_contain_text("a rate must be units per time")
    page.get_by_text("Drain…").click()
    page.get_by_role("button", name="Refuse new jobs").click()
    expect(page.get_by_role("status")).to_have_text("Queue images takes no new jobs; 5 jobs are left in it.")
    assert aside(queue.limits).size == 0
    page.get_by_role("button", name="Take new jobs").click()
    expect(page.get_by_role("status")).to_have_text("Queue images takes new jobs again.")
    page.get_by_text("Clear…").click()
    expect(page.get_by_text("Delete all 5 waiting jobs of queue images")).to_be_visible()
    page.wait_for_timeout(500)  # live updates do not close the question
    page.get_by_label("Type images").fill("images")
    page.get_by_role("button", name="Delete 5 jobs").click()
    expect(page.get_by_role("status")).to_have_text("Deleted 5 waiting jobs of queue images.")
    assert aside(queue.status).ready == 0
    page.goto("/queues")
    page.get_by_text("Pause all…").click()
    page.get_by_role("button", name="Pause 2 queues").click()
    expect(page.get_by_role("status")).to_have_text("Paused 2 queues.")
    page.get_by_role("button", name="Resume all").click()
    expect(page.get_by_role("status")).to_have_text("Resumed 2 queues.")


def test_deadlock_is_named_and_a_lock_is_released_after_its_name_is_typed(page: Page, shop: Lockwork) -> None:
    page.goto("/locks")
    deadlock = page.get_by_role("alert").filter(has_text="Deadlock.")
    expect(deadlock).to_contain_text("holds lock order:1 and waits for lock order:2")
    expect(page.locator("svg.graph .stuck rect")).to_have_count(2)
    job = page.get_by_role("row", name="import_orders").get_by_role("link", name="P7RS…2K9_cYUq")
    expect(job.first).to_have_attribute("href", "/job/P7RSMfoiXM2K9_cYUq")
    expect(deadlock.get_by_role("link", name="P7RS…2K9_cYUq")).to_have_count(1)
    expect(page.locator("svg.graph a").filter(has_text="P7RS…2K9_cYUq import_orders")).to_have_count(1)
    page.get_by_label("Name").fill("invoice")
    expect(page.locator("table#locks tbody tr")).to_have_count(1)
    expect(page).to_have_url(re.compile(r"name=invoice"))
    page.get_by_text("Release…").click()
    box = page.get_by_label("Type invoice:9")
    box.fill("invoice")
    page.get_by_role("button", name="Release invoice:9").click()
    expect(page.get_by_role("status")).to_have_text("Type invoice:9 to release it: nothing was released.")
    page.get_by_text("Release…").click()
    box.fill("invoice:9")
    page.get_by_role("button", name="Release invoice:9").click()
    expect(page.get_by_role("status")).to_have_text("Released invoice:9 from 1 holder.")
    expect(page.get_by_text("No such lock is held")).to_be_visible()


def test_missing_page_is_static_and_accessible(page: Page, shop: Lockwork) -> None:
    for path in ("/queues/none", "/job/none", "/jobs?after=zz", "/nothing"):
        page.goto(path)
        page.wait_for_timeout(600)
        expect(page.locator(".lost")).to_be_hidden()
        assert barriers(page) == [], path


def test_theme_is_switched_and_kept(page: Page, shop: Lockwork) -> None:
    page.goto("/")
    color = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(color)
    page.locator(".rail [data-do=theme]").click()
    dark = page.evaluate(color)
    assert dark != light
    page.goto("/queues")
    assert page.evaluate(color) == dark


def test_times_are_relative_and_exact_in_the_zone_of_the_viewer(browser: Browser, address: str, shop: Lockwork) -> None:
    with opened(browser, address, timezone_id="Asia/Tokyo", locale="en-US") as page:
        page.goto("/queues/mail")
        time = page.locator("td time").first
        expect(time).to_have_text(re.compile(r"^(now|\d+ s ago)$"))
        assert "GMT+9" in (time.get_attribute("title") or "")


AGES = (0, 1, 59, 60, 62, 600, 604, 3599, 3600, 3660, 36_000, 86_399, 86_400, 273_600, 864_000, 1_000_000, 100_000_000)
"""Seconds."""
RELATE = """(ages) => {
  const times = ages.map((age) => {
    const time = document.createElement("time");
    time.className = "since";
    time.setAttribute("datetime", new Date(Date.now() - age * 1000 - 100).toISOString());
    document.body.append(time);
    return time;
  });
  document.dispatchEvent(new Event("htmx:after:swap"));
  return times.map((time) => time.textContent);
}"""


def test_ages_have_one_spelling_in_the_browser_and_on_the_server(page: Page) -> None:
    page.goto("/queues")
    assert page.evaluate(RELATE, AGES) == [rough_age(seconds) for seconds in AGES]


def test_pages_read_and_act_without_javascript(browser: Browser, address: str, shop: Lockwork) -> None:
    with opened(browser, address, java_script_enabled=False) as page:
        page.goto("/queues/images")
        time = page.locator("td time").first
        expect(time).to_have_text(re.compile(r"^(now|\d+ s ago)$"))
        expect(time).to_have_attribute("title", re.compile(r"UTC$"))
        page.get_by_text("Clear…").click()
        page.get_by_label("Type images").fill("images")
        page.get_by_role("button", name="Delete 5 jobs").click()
        expect(page.get_by_role("status")).to_have_text("Deleted 5 waiting jobs of queue images.")
        page.goto("/locks")
        page.get_by_label("Name").fill("order")
        page.get_by_role("button", name="Filter").click()
        expect(page.locator("table#locks tbody tr")).to_have_count(4)


def test_nothing_of_a_job_is_ever_html(page: Page, lw: Lockwork, admin: redis.Redis) -> None:
    """200 payloads as arguments, tags, task names, names of queues and locks, and threads."""

    @lw.task(queue="mail")
    async def send(text: str, **more: str) -> None: ...

    def attack() -> None:
        for at, payload in enumerate(PAYLOADS):
            name = re.sub(r"[^!-~]|[{}]", "/", payload)[:150] + str(at)
            lw.task(queue="hostile", name=name)(lambda text: None).enqueue(payload)
            send.enqueue(payload, more=payload)
            if at < 40:
                lw.lock(name).acquire()

    aside(attack)
    for path in ("/", "/queues", "/queues/mail", "/queues/hostile", "/locks", f"/locks?name={quote(PAYLOADS[0])}"):
        page.goto(path)
        page.wait_for_timeout(400)
        foreign = page.evaluate("[...document.querySelectorAll('script')].filter((one) => !one.nonce).length")
        assert foreign == 0
        assert page.evaluate("window.stolen") is None
        assert page.evaluate("document.querySelectorAll('#content img, #content iframe, #content style').length") == 0
    aside(lambda: lw.release_all())
