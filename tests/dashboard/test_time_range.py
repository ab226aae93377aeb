"""The time that pages show: a range of the top bar, and the part of it that was chosen on a chart."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime, timedelta

import pytest
import redis

from dashboard.conftest import Client
from dashboard.counted import ended
from lockwork import Lockwork
from lockwork.dashboard.time_range import TimeRange, read_time
from lockwork.errors import ConfigError

NOW = datetime(2026, 11, 25, 12, 30, 20, tzinfo=UTC).timestamp()
MINUTE = int(NOW // 60)


def chosen(name: str, begin: float, end: float) -> TimeRange:
    return TimeRange.read(name, f"{begin:.0f}", f"{end:.0f}", NOW)


def test_range_without_a_chosen_part_is_that_of_the_top_bar() -> None:
    assert TimeRange.read("", "", "", NOW) == TimeRange("1h")
    found = TimeRange.read("7d", "", "", NOW)
    assert (found.span, found.label, found.words, found.within) == ("7d", "7 days", "the last 7 days", {"since": "7d"})


def test_chosen_part_is_whole_buckets_and_ends_with_the_current_one() -> None:
    found = chosen("1h", (MINUTE - 5) * 60 + 10, (MINUTE - 2) * 60)
    assert (found.span, found.label) == ("1h", "3 min")
    assert found.within == {"since": "2026-11-25T12:25Z", "until": "2026-11-25T12:28Z"}
    assert chosen("1h", MINUTE * 60, NOW + 9000).label == "1 min"


def test_longer_range_is_used_when_the_chosen_one_does_not_reach_the_part() -> None:
    assert chosen("15m", NOW - 1800, NOW - 1700).span == "1h"
    found = chosen("1h", NOW - 3 * 3600, NOW - 3 * 3600 + 60)
    assert (found.span, found.label) == ("24h", "1 h")
    assert chosen("1h", NOW - 3 * 86400, NOW).span == "7d"


@pytest.mark.parametrize(
    ("begin", "end"),
    [("x", "5"), ("5", ""), ("9" * 20, "9" * 20), (f"{NOW:.0f}", f"{NOW - 60:.0f}"), ("1", "2"), ("-5", "5")],
)
def test_odd_part_is_refused(begin: str, end: str) -> None:
    with pytest.raises(ConfigError):
        TimeRange.read("1h", begin, end, NOW)


def test_part_that_begins_later_is_refused() -> None:
    with pytest.raises(ConfigError, match="reach back 7 days"):
        chosen("1h", NOW + 3600, NOW + 7200)


def test_text_is_a_moment_or_left_as_it_is() -> None:
    assert read_time("2026-11-25T09:20Z") == datetime(2026, 11, 25, 9, 20, tzinfo=UTC)
    assert read_time("2026-11-25 09:20") == datetime(2026, 11, 25, 9, 20, tzinfo=UTC)
    assert read_time("2026-11-25T10:20+01:00") == datetime(2026, 11, 25, 9, 20, tzinfo=UTC)
    assert [read_time(text) for text in ("10m", "1h30m", "20261125", "yesterday at noon")] == [
        "10m", "1h30m", "20261125", "yesterday at noon",
    ]  # fmt: skip


@pytest.fixture
async def busy(alw: Lockwork, admin: redis.Redis) -> int:
    """Queues mail and images, whose jobs ended 20 minutes and 2 minutes ago; the number of this minute."""
    minute = int(time.time() // 60)
    for queue, task in (("mail", "send"), ("images", "resize")):
        await alw.task(queue=queue, name=task)(lambda: None).aenqueue()
    ended(admin, alw, "mail", "send", minute - 20, done=700, dead=3, wait=8.0)
    ended(admin, alw, "mail", "send", minute - 2, done=40, wait=0.01)
    ended(admin, alw, "images", "resize", minute - 2, done=5, wait=0.01)
    return minute


async def test_chosen_part_applies_to_tiles_tables_and_links(client: Client, busy: int) -> None:
    begin, end = (busy - 21) * 60, (busy - 19) * 60
    since, until = (f"{datetime.fromtimestamp(at, UTC):%Y-%m-%dT%H%%3A%MZ}" for at in (begin, end))
    part = f"from={begin}&amp;to={end}"
    async with client() as browser:
        whole = (await browser.get("/")).text
        assert re.search(r"745 in 1 hour", whole)
        page = (await browser.get(f"/?from={begin}&to={end}")).text
        assert "700 in 2 min" in page
        assert f'href="/jobs?{part}&amp;state=succeeded&amp;since={since}&amp;until={until}"' in page
        assert 'Done<span class="note">, 2 min</span>' in page
        assert 'id="task-mail-send"' in page
        assert 'id="task-images-resize"' not in page
        for path in ("/queues", "/tasks", "/queues/mail"):
            page = (await browser.get(f"{path}?from={begin}&to={end}")).text
            assert f"state=succeeded&amp;since={since}&amp;until={until}" in page or path == "/queues/mail", path
            assert "700" in page
            assert f'href="{path}" data-do="unbrush"' in page
            assert f'<a class="brand" href="/?{part}">' in page
            assert f'<a href="{path}?range=24h" title="24 hours">' in page


async def test_speed_of_now_is_the_same_in_each_range(
    client: Client, busy: int, admin: redis.Redis, alw: Lockwork
) -> None:
    ended(admin, alw, "mail", "send", busy - 1, done=60, wait=0.01)
    ended(admin, alw, "mail", "send", int(time.time() // 60), done=1, wait=0.01)
    async with client() as browser:
        for span in ("15m", "1h", "24h", "7d"):
            page = (await browser.get(f"/?range={span}")).text
            done, wait = re.findall(r'<span class="big[^"]*">([^<]*)<small>(?:/s )?now</small>', page)[0::2]
            assert 0.1 < float(done) <= 61, span
            assert wait in ("10 ms", "11 ms", "9 ms"), span


async def test_part_that_is_not_in_the_metrics_is_said(client: Client, alw: Lockwork) -> None:
    async with client() as browser:
        long_ago = int((datetime.now(UTC) - timedelta(days=9)).timestamp())
        answer = await browser.get(f"/queues?from={long_ago}&to={long_ago + 60}")
        assert answer.status_code == 400
        assert "Metrics reach back 7 days" in answer.text
        assert '<a class="button" href="/queues">Show the whole time</a>' in answer.text
        # a page without a range only keeps it for the others
        assert (await browser.get(f"/locks?from={long_ago}&to={long_ago + 60}")).status_code == 200


async def test_jobs_are_found_by_moments(client: Client, alw: Lockwork) -> None:
    send = alw.task(queue="mail", name="send")(lambda n: None)
    job = await send.aenqueue(7)
    hour = timedelta(hours=1)
    now = datetime.now(UTC)
    async with client() as browser:
        for since, until, found in (
            (now - hour, now + hour, True),
            (now - 2 * hour, now - hour, False),
            (now + hour, now + 2 * hour, False),
        ):
            query = {"since": f"{since:%Y-%m-%dT%H:%MZ}", "until": f"{until:%Y-%m-%dT%H:%MZ}"}
            page = (await browser.get("/jobs", params=query)).text
            assert (f'id="job-{job.id}"' in page) is found
            assert page.count('<time class="clock"') == 2
        page = (await browser.get("/jobs?since=2026-13-45")).text
        assert "Since is an age such as 10m or 1h30m, or a time such as" in page
