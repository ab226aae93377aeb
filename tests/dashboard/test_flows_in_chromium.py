"""The graphs of flows and locks in a real Chromium: followed, folded, updated and acted on."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from dashboard.browsing import CHROMIUM, aside
from lockwork import Lockwork
from lockwork.flows.runs import FlowRun

pytestmark = pytest.mark.skipif(not CHROMIUM, reason="chromium is not installed")


@pytest.fixture
def album(lw: Lockwork) -> FlowRun:
    """A job, 500 equal jobs that wait for it, and two jobs that wait for the 500."""
    tasks: Any = [lw.task(name=name, queue="album")(print) for name in ("list", "resize", "publish", "index")]
    plan = lw.flow()
    first = plan.add(tasks[0].call(0))
    parts = [plan.add(tasks[1].call(at), after=[first]) for at in range(500)]
    plan.add(tasks[2].call(), after=parts)
    plan.add(tasks[3].call(), after=parts)
    return aside(plan.enqueue)


def test_boxes_of_a_graph_lead_to_their_jobs(page: Page, album: FlowRun) -> None:
    page.goto("/flows")
    page.get_by_role("link", name="list → index").click()
    page.wait_for_url(re.compile(f"/flow/{album.id}"))
    boxes = page.locator("svg.graph .box")
    expect(boxes).to_have_count(4)
    # nothing overlaps, and the work goes to the right
    places = [box.bounding_box() for box in boxes.all()]
    lefts = [place["x"] for place in places if place]
    assert lefts[0] < lefts[1] < lefts[2] == lefts[3]
    boxes.nth(1).click()
    expect(page.locator("h2", has_text="Jobs of task resize")).to_be_visible()
    expect(page.locator("table#flow-jobs tbody tr")).to_have_count(100)
    expect(page.get_by_text("The first 100 of 500")).to_be_visible()
    expect(boxes.nth(1)).to_have_class(re.compile("chosen"))
    page.get_by_role("link", name="All jobs").click()
    boxes.first.focus()
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(f"/job/{album.id}.00001"))
    expect(page.locator("svg.graph .box.chosen .name")).to_have_text("list")
    page.get_by_role("link", name="Open the flow").click()
    expect(page.locator("h1")).to_have_text("list → index")


def test_graph_is_updated_live_and_its_flow_is_cancelled(page: Page, album: FlowRun, lw: Lockwork) -> None:
    page.goto(f"/flow/{album.id}?queue=album")
    words = page.locator("svg.graph .box .word")
    expect(words).to_have_text(["ready", "500 blocked", "blocked", "blocked"])
    page.get_by_text("Cancel…").click()
    expect(page.get_by_text("Of its 503 jobs, 503 have not ended")).to_be_visible()
    page.wait_for_timeout(500)  # live updates do not close the question
    page.get_by_role("button", name="Cancel 503 jobs").click()
    expect(page.get_by_role("status")).to_contain_text("is cancelled, with its 503 jobs that had not ended.")
    expect(words).to_have_text(["cancelled", "500 cancelled", "cancelled", "cancelled"])
    expect(page.get_by_text("Cancel…")).to_have_count(0)
    other = aside(lambda: lw.group([lw.task(name="list", queue="album")(print).call(1)]).enqueue())
    page.goto(f"/flow/{other.id}?queue=album")
    expect(words).to_have_text(["ready"])
    aside(other.cancel)
    expect(words).to_have_text(["cancelled"])
    expect(page.locator("svg.graph .box")).to_have_class(re.compile("s-cancelled"))


def test_flows_are_filtered_by_state_without_losing_the_queue(page: Page, album: FlowRun) -> None:
    page.goto("/flows")
    page.get_by_label("Queue").fill("album")
    expect(page).to_have_url(re.compile("queue=album"))
    expect(page.locator("table#flows tbody tr")).to_have_count(1)
    page.goto("/flows?queue=album")
    page.get_by_role("navigation", name="state").get_by_role("link", name="Failed").click()
    expect(page).to_have_url(re.compile("queue=album&state=failed"))
    expect(page.get_by_text("No flow matches")).to_be_visible()


def test_limiters_are_updated_live(page: Page, lw: Lockwork) -> None:
    api = lw.limiter("api", "10/d", burst=10)
    aside(lambda: api.acquire(4))
    page.goto("/limiters")
    row = page.locator("tr#limiter-api")
    expect(row).to_contain_text("6of 10")
    aside(lambda: api.acquire(6))
    expect(row).to_contain_text("0of 10")
    page.keyboard.press("g")
    page.keyboard.press("f")
    page.wait_for_url("**/flows")
    page.keyboard.press("g")
    page.keyboard.press("m")
    page.wait_for_url("**/limiters")
