"""A limiter's rates, options and arguments, and their refusal before any command."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
import redis

from indexed import keys_but_indexes
from lockwork import Lockwork
from lockwork.errors import ConfigError, RateLimited


@pytest.mark.parametrize(
    "rate", ["", "5", "/s", "0/s", "-1/s", "5/", "5/x", "5 per s", "1.5/s", "5/0s", "5/-1s", 5, None]
)
def test_rates_that_are_none(lw: Lockwork, rate: Any) -> None:
    with pytest.raises(ConfigError, match='such as "100/s", "5/m" or "10/30s"'):
        lw.limiter("api", rate)


@pytest.mark.parametrize(
    ("rate", "count", "period"),
    [
        ("100/s", 100, 1_000_000),
        (" 5 / m ", 5, 60_000_000),
        ("10/30s", 10, 30_000_000),
        ("1000/h", 1000, 3_600_000_000),
        ("1/1h30m", 1, 5_400_000_000),
        ("3/100ms", 3, 100_000),
        ("1/d", 1, 86_400_000_000),
    ],
)
def test_rates(lw: Lockwork, rate: str, count: int, period: int) -> None:
    limits = lw.limiter("api", rate)._limits
    assert (limits.count, limits.period, limits.limit) == (count, period, count)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"burst": 0}, "burst must be a whole number from 1"),
        ({"burst": True}, "burst must be a whole number from 1"),
        ({"burst": 2.5}, "burst must be a whole number from 1"),
        ({"burst": 5, "algorithm": "window"}, "a window has no burst"),
        ({"algorithm": "leaky"}, "'bucket' or 'window', not 'leaky'"),
        ({"rate": "100001/s", "algorithm": "window"}, "a window counts at most 100,000 units"),
        ({"rate": "10000001/s"}, "at most 10,000,000 units"),
        ({"rate": "9" * 5000 + "/s"}, "a rate must be units per time"),
        ({"rate": "1/300d", "burst": 2}, "more than 366 days to fill"),
        ({"name": 5}, "a limiter's name must be text, not 5"),
    ],
)
def test_bad_options(lw: Lockwork, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        lw.limiter(**{"name": "api", "rate": "5/s", **options})


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda api: api.acquire(0), "n must be a whole number of at least 1, not 0"),
        (lambda api: api.acquire(1.5), "n must be a whole number"),
        (lambda api: api.acquire(True), "n must be a whole number"),
        (lambda api: api.acquire(4), "has a burst of 3: 4 units can never be free at once"),
        (lambda api: api.try_acquire(4), "4 units can never be free"),
        (lambda api: api.acquire(wait=-1), "wait must be between"),
        (lambda api: api.acquire(wait="soon"), "wait must be seconds"),
    ],
)
def test_bad_calls_send_no_command(lw: Lockwork, admin: redis.Redis, call: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        call(lw.limiter("api", "5/s", burst=3))
    assert not keys_but_indexes(admin)


def test_template_used_without_a_function_is_a_name_with_braces(lw: Lockwork, caplog: pytest.LogCaptureFixture) -> None:
    lw.limiter("user:{id}", "1/h").acquire()
    assert not lw.limiter("user:{id}", "1/h").try_acquire()
    (warning,) = caplog.messages
    assert warning.startswith("A limiter's name is used as it is, with its braces: 'user:{id}'")


def test_rate_limited_can_be_pickled() -> None:
    error = pickle.loads(pickle.dumps(RateLimited("no room", 1.5)))
    assert (str(error), error.retry_after) == ("no room", 1.5)
