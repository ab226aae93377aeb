"""Bugs that other limiters had, each as a test: in virtual time, with the real scripts."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import pytest

from lockwork.errors import RateLimited
from lockwork.protocol import keys
from lockwork.protocol.effects import script_call
from lockwork.protocol.scripts import script
from lockwork.protocol.synchronizers import limiter
from lockwork.protocol.synchronizers.limiter import LimiterRules
from models.bench import BEGIN, SECOND, Bench
from simulator.server import Build, Server

KEYS = keys.limiter("sim", "a")
BUCKET = LimiterRules(KEYS, "a", "7/s", "bucket", 7, SECOND, 7)
WINDOW = LimiterRules(KEYS, "a", "7/s", "window", 7, SECOND, 7)
both = pytest.mark.parametrize("limits", [BUCKET, WINDOW], ids=["bucket", "window"])


@pytest.fixture
def bench(url: str) -> Iterator[Bench]:
    server = Server(url)
    yield Bench(server, Build())
    server.close()


def take(bench: Bench, limits: LimiterRules, request: str, n: int = 1, wait: int = -1) -> tuple[int, int]:
    code, ahead, now = bench.call(script_call("synchronizers/limiter_take", KEYS, [limits.rule, request, n, wait]))
    return code, now + ahead


def available(bench: Bench, limits: LimiterRules) -> int:
    return bench.run(limiter.status(limits)).available


@both
def test_rate_is_exact_over_a_long_time(bench: Bench, limits: LimiterRules) -> None:
    """Redisson #3804: over a long time the limiter let through another number than its rate says.

    A seventh of a second is no whole number of microseconds: after 7,000 units, the moment is exact to the microsecond.
    """
    last = 0
    for number in range(7007):
        code, last = take(bench, limits, f"r{number}")
        assert code == 1
        bench.now = max(bench.now, last)
    first = BEGIN + 1
    assert abs(Fraction(last - first, SECOND) - 1000) < Fraction(2 * 7007, SECOND), "a thousand seconds"
    if limits.algorithm == "bucket":
        assert last - first == 1000 * SECOND


@both
def test_units_come_back_after_many_refusals(bench: Bench, limits: LimiterRules) -> None:
    """Redisson #5687: after its units were used up, they did not return while callers continued to try."""
    for number in range(7):
        take(bench, limits, f"r{number}")
    for number in range(100):
        assert take(bench, limits, f"refused{number}", wait=0)[0] == 0
        bench.now += 1000
    bench.now += SECOND
    assert take(bench, limits, "later", wait=0)[0] == 1
    bench.now += SECOND
    assert available(bench, limits) == 7


@both
def test_giving_back_counts_exactly(bench: Bench, limits: LimiterRules) -> None:
    """Redisson #7329: returned units were miscounted, so that callers could take too many."""
    take(bench, limits, "used", 4)
    take(bench, limits, "mine", 3)
    for _ in range(3):
        bench.call(script_call("synchronizers/limiter_return", KEYS, ["mine"]))
        bench.call(script_call("synchronizers/limiter_return", KEYS, ["never taken"]))
        assert available(bench, limits) == 3
    bench.now += 10 * SECOND
    bench.call(script_call("synchronizers/limiter_return", KEYS, ["used"]))
    assert available(bench, limits) == 7


@both
def test_refusal_has_the_correct_retry_time(bench: Bench, limits: LimiterRules) -> None:
    """Redisson's refusal carries whole milliseconds, and three added; ours is the moment itself."""
    take(bench, limits, "all", 7)
    bench.now += 12_345
    with pytest.raises(RateLimited) as refused:
        bench.run(limiter.acquire(limits, "early", 2, 0, ""))
    bench.now += round(refused.value.retry_after * SECOND) - 2
    assert take(bench, limits, "still early", 2, 0)[0] == 0
    assert take(bench, limits, "in time", 2, 0)[0] == 1


def test_window_has_no_double_burst_at_its_edge(bench: Bench) -> None:
    """Fixed windows let through twice the rate around the edge between two of them; a sliding log does not."""
    bench.now += SECOND - 10
    taken = []
    for number in range(40):
        code, at = take(bench, WINDOW, f"r{number}", wait=0)
        taken += [at] if code else []
        bench.now += 100_000
    assert all(sum(at - SECOND < other <= at for other in taken) <= 7 for at in taken)
    assert len(taken) >= 28


def test_limiter_uses_the_clock_of_the_server(bench: Bench) -> None:
    """Redisson's log is scored by each client's clock; a client whose clock is ahead frees units too early."""
    assert "local now = seconds * 1000000" in script("synchronizers/limiter_take").source
    assert take(bench, WINDOW, "all", 7)[0] == 1
    assert take(bench, WINDOW, "more", 1, 0)[0] == 0


@both
def test_keys_of_a_limiter_share_a_slot(limits: LimiterRules) -> None:
    """PyrateLimiter #126: with a Redis Cluster, keys of one limiter were in different slots."""
    assert {key[key.index("{") : key.index("}")] for key in limits.keys} == {"{limiter:a"}


def test_long_log_costs_no_more(bench: Bench) -> None:
    """Redisson sums up every expired permit in one call; here a call drops a few entries, and sums up none."""
    wide = LimiterRules(KEYS, "a", "5000/s", "window", 5000, SECOND, 5000)
    for number in range(5000):
        assert take(bench, wide, f"r{number}", wait=0)[0] == 1
    bench.now += 100 * SECOND
    assert available(bench, wide) == 5000
    for number in range(1300):
        assert take(bench, wide, f"later{number}", wait=0)[0] == 1
    assert available(bench, wide) == 5000 - 1300
