"""Limiters with several rates: a unit needs all of them, in one step."""

from __future__ import annotations

from typing import Any

import pytest
import redis

from lockwork import Lockwork
from lockwork.errors import ConfigError, RateLimited


@pytest.mark.parametrize("algorithm", ["bucket", "window"])
def test_several_rates_hold_at_once(lw: Lockwork, algorithm: Any) -> None:
    api = lw.limiter("api", ["3/s", "5/h"], algorithm=algorithm)
    assert [api.try_acquire() for _ in range(4)] == [True, True, True, False]
    assert api.inspect().available == 0
    api.acquire(2, wait=5)
    with pytest.raises(RateLimited) as refused:
        api.acquire(wait=5)
    assert refused.value.retry_after > 500, "the hourly rate is used up"


def test_refusal_takes_nothing_of_any_rate(lw: Lockwork) -> None:
    api = lw.limiter("api", ["1/h", "5/d"])
    assert api.try_acquire()
    before = api.inspect()
    for _ in range(9):
        assert not api.try_acquire()
    after = api.inspect()
    assert after.available == before.available == 0
    assert after.full_in <= before.full_in


def test_order_of_the_rates_does_not_matter(lw: Lockwork) -> None:
    one, other = lw.limiter("api", ["10/s", "1000/h"]), lw.limiter("api", ("1000/h", "10/s"))
    assert one._limits.rule == other._limits.rule
    assert one.try_acquire(10)
    assert not other.try_acquire(5)


def test_single_rate_in_a_list_is_that_rate(lw: Lockwork) -> None:
    assert lw.limiter("api", ["10/s"])._limits == lw.limiter("api", "10/s")._limits
    assert lw.limiter("api", ["10/s"], burst=3).inspect().limit == 3
    assert lw.limiter("api", ["10/s", "10/s"])._limits.rule == lw.limiter("api", "10/s")._limits.rule


async def test_async_callers_and_decorator(alw: Lockwork) -> None:
    @alw.limiter("user:{user}", ["2/s", "3/h"])
    async def call(user: int) -> int:
        return user

    assert [await call(1), await call(1)] == [1, 1]
    limiter = alw.limiter("user:1", ["2/s", "3/h"])
    assert not await limiter.atry_acquire()
    assert (await limiter.ainspect()).limit == 2
    assert (await alw.limiter("user:2", ["2/s", "3/h"]).ainspect()).available == 2


def test_list_shows_all_rates(lw: Lockwork) -> None:
    lw.limiter("api", ["10/s", "1000/h"]).acquire()
    lw.limiter("log", ["7/s", "100/m"], algorithm="window").acquire()
    api, log = lw.limiters().limiters
    assert (api.rate, api.limit, api.available) == ("10/s, 1000/h", 10, 9)
    assert (log.rate, log.algorithm) == ("7/s, 100/m", "window")


@pytest.mark.parametrize("algorithm", ["bucket", "window"])
def test_changed_rates_keep_used_units(lw: Lockwork, algorithm: Any) -> None:
    lw.limiter("api", ["5/h", "9/d"], algorithm=algorithm).acquire(5)
    added = lw.limiter("api", ["5/h", "7/d"], algorithm=algorithm)
    assert not added.try_acquire()
    single = lw.limiter("api", "9/d", algorithm=algorithm)
    assert single.try_acquire()
    assert not single.try_acquire(5)
    several = lw.limiter("api", ["5/h", "9/d"], algorithm=algorithm)
    assert not several.try_acquire(5)


def test_two_keys_and_nothing_more(lw: Lockwork, admin: redis.Redis) -> None:
    lw.limiter("api", ["10/s", "1000/h"]).acquire()
    assert set(admin.keys("lw:{limiter:*")) == {b"lw:{limiter:api}", b"lw:{limiter:api}:log"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rate": []}, "a limiter has 1 to 10 rates, not 0"),
        ({"rate": ["1/s"] * 11}, "a limiter has 1 to 10 rates, not 11"),
        ({"rate": ["1/s", "5/m"], "burst": 2}, "burst is for a single rate"),
        ({"rate": ["1/s", 5]}, "a rate must be units per time"),
        ({"rate": ["1/s", "x"]}, "a rate must be units per time"),
        ({"rate": {"1/s"}}, "a rate must be units per time"),
    ],
)
def test_wrong_rates_are_refused(lw: Lockwork, options: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        lw.limiter("api", **options)


def test_units_beyond_the_smallest_rate_are_refused(lw: Lockwork) -> None:
    with pytest.raises(ConfigError, match="a burst of 5"):
        lw.limiter("api", ["100/h", "5/s"]).acquire(6)
