"""All limiters at once: found by name, with the rule in force, the room that is left, and who waits."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from lockwork import ConfigError, Lockwork


def test_overview_without_limiters_is_empty(lw: Lockwork) -> None:
    overview = lw.limiters()
    assert (overview.limiters, overview.complete) == ((), True)


def test_limiters_are_shown_with_the_rule_in_force(lw: Lockwork) -> None:
    lw.limiter("api", "100/h", burst=20).acquire(15)
    lw.limiter("sms", "5/m", algorithm="window").acquire(5)
    lw.lock("api").acquire()
    api, sms = lw.limiters().limiters
    assert (api.name, api.algorithm, api.rate, api.available, api.limit) == ("api", "bucket", "100/h", 5, 20)
    assert 15 * 36 - 5 < api.full_in <= 15 * 36
    assert (sms.name, sms.algorithm, sms.rate, sms.available, sms.limit) == ("sms", "window", "5/m", 0, 5)
    assert 55 < sms.full_in <= 60
    assert (api.waiting, api.last_in, sms.waiting) == (0, 0, 0)
    lw.limiter("api", "50/h", burst=30).acquire()
    assert [(each.rate, each.limit) for each in lw.limiters("a*").limiters] == [("50/h", 30)]
    lw.release_all()


async def test_callers_that_wait_are_counted(alw: Lockwork) -> None:
    slow = alw.limiter("slow", "1/m")
    waiting = [asyncio.create_task(slow.aacquire()) for _ in range(4)]
    while True:
        if [each.waiting for each in (await alw.alimiters()).limiters] == [3]:
            break
        await asyncio.sleep(0.02)
    (found,) = (await alw.alimiters()).limiters
    assert 170 < found.last_in <= 180
    assert found.available == 0
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    (found,) = (await alw.alimiters()).limiters
    assert (found.waiting, found.last_in) == (0, 0)


def test_names_are_matched_and_the_list_is_bounded(lw: Lockwork) -> None:
    for number in range(5):
        lw.limiter(f"user:{number}", "5/s").acquire()
    lw.limiter("a]b", "5/s").acquire()
    assert [each.name for each in lw.limiters("user:[12]").limiters] == ["user:1", "user:2"]
    some = lw.limiters("user:*", limit=3)
    assert (len({each.name for each in some.limiters}), some.complete) == (3, False)
    with pytest.raises(ConfigError, match="a pattern of limiters' names must be text, not 5"):
        lw.limiters(5)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("rate", "algorithm", "shown"),
    [
        ("3/s", "bucket", "3/s"),
        ("10/30s", "bucket", "20/m"),
        ("1/1h30m", "bucket", "16/d"),
        ("7/d", "bucket", "7/d"),
        ("1/2d", "bucket", "1/172800s"),
        ("10/30s", "window", "10/30s"),
    ],
)
def test_rate_is_written_as_users_write_it(lw: Lockwork, rate: str, algorithm: Any, shown: str) -> None:
    lw.limiter("api", rate, algorithm=algorithm).acquire()
    assert [each.rate for each in lw.limiters().limiters] == [shown]
