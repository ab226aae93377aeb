"""A stock's reserved and sold units by minute: counted by the server's clock, kept for an hour."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lockwork import ConfigError, Lockwork
from lockwork.protocol.effects import script_call
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.stock import stock
from lockwork.protocol.stock.stock import StockMinute, StockRules
from models.bench import SECOND, Bench
from simulator.server import Build, Server

QUEUE = QueueKeys("sim", "q")
PHONES = StockRules(QUEUE, "phone", 1_000_000, 0)
KEY = QUEUE.stock("phone").stock
MINUTE = 60 * SECOND


@pytest.fixture
def bench(url: str) -> Iterator[Bench]:
    server = Server(url)
    made = Bench(server, Build())
    made.now -= made.now % MINUTE
    yield made
    server.close()


def reserve(bench: Bench, id: str, n: int, *, twice: bool = False) -> None:
    bench.run(stock.reserve(PHONES, id, "ada", n, 86_400_000, "", None), twice=twice)


def minutes(bench: Bench) -> list[StockMinute]:
    """Read the minutes like `overview`."""
    ((_, *counts),) = bench.call(script_call("stock/counts", [KEY], [60]))
    return list(stock._minutes(counts[3:], 60))


def test_units_count_in_the_minute_of_their_reservation_and_sale(bench: Bench) -> None:
    reserve(bench, "a", 3, twice=True)
    reserve(bench, "b", 2)
    bench.now += 5 * MINUTE
    bench.run(stock.confirm(PHONES, "a", None), twice=True)
    bench.run(stock.confirm(PHONES, "a", None))
    bench.run(stock.release(PHONES, "b", None))
    bench.now += 54 * MINUTE
    found = minutes(bench)
    assert len(found) == 60
    assert {at: each for at, each in enumerate(found) if any(each)} == {0: (5, 0), 5: (0, 3)}
    bench.now += MINUTE
    assert [each for each in minutes(bench) if any(each)] == [(0, 3)]


def test_counts_of_more_than_an_hour_ago_are_deleted(bench: Bench) -> None:
    for number in range(200):
        reserve(bench, f"r{number}", 1)
        bench.now += MINUTE * (1 if number % 3 else 25)
        assert sum(name.startswith("m") for name in bench.fields(KEY)) <= 1 + 60
    bench.now += 1000 * MINUTE
    reserve(bench, "last", 1)
    assert sum(name.startswith("m") for name in bench.fields(KEY)) == 2


def test_clock_that_was_set_back_loses_nothing(bench: Bench) -> None:
    reserve(bench, "a", 3)
    bench.now -= 500 * MINUTE
    reserve(bench, "b", 2)
    assert minutes(bench)[-1] == (5, 0)


def test_minutes_are_listed_on_request(lw: Lockwork) -> None:
    phones = lw.stock("phones", 10)
    phones.confirm(phones.reserve("ada", 3))
    phones.reserve("ben", 2)
    (found,) = lw.stocks(minutes=60)
    assert (len(found.minutes), sum(each.reserved for each in found.minutes)) == (60, 5)
    assert sum(each.sold for each in found.minutes[-2:]) == 3
    assert lw.stocks()[0].minutes == ()
    with pytest.raises(ConfigError, match="minutes"):
        lw.stocks(minutes=61)
