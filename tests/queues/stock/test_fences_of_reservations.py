"""The fence of a reservation is higher than all earlier fences, for every kind of reservation and clock step."""

from __future__ import annotations

from typing import Any

import pytest

from lockwork.protocol.effects import Call, Park
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.stock import stock
from lockwork.protocol.stock.stock import Reservation, StockRules
from models.bench import CHANNEL, SECOND, Bench
from simulator.server import Build, Server

RULES = StockRules(QueueKeys("sim", "q"), "phones", 2, 0)


@pytest.fixture
def bench(simulated: Server) -> Bench:
    return Bench(simulated, Build())


def _reserve(bench: Bench, id: str, n: int) -> Reservation:
    return bench.run(stock.reserve(RULES, id, "eve", n, 60_000, "", None))


class _Waiter:
    """A buyer that waits for units."""

    def __init__(self, bench: Bench, id: str) -> None:
        self._bench = bench
        self._asking = stock.reserve_waiting(RULES, id, "bob", 1, 60_000, "", None, channel=CHANNEL, wait=None)
        self.got: Reservation | None = None
        self.look()

    def look(self) -> None:
        """Call until the reply says to wait."""
        value: Any = None
        try:
            while not isinstance(effect := self._asking.send(value), Park):
                value = self._bench.call(effect) if isinstance(effect, Call) else self._bench.now / SECOND
        except StopIteration as done:
            self.got = done.value


def test_clock_step_back_lowers_no_fence(bench: Bench) -> None:
    first = _reserve(bench, "a", 1)
    bench.now -= 3600 * SECOND
    assert _reserve(bench, "b", 1).fence > first.fence


def test_reservations_granted_in_one_step_have_separate_fences(bench: Bench) -> None:
    all_of_it = _reserve(bench, "a", 2)
    waiters = [_Waiter(bench, id) for id in "bc"]
    bench.run(stock.release(RULES, all_of_it.id, None))
    for waiter in waiters:
        waiter.look()
    fences = [all_of_it.fence, *[waiter.got.fence for waiter in waiters if waiter.got]]
    assert fences == sorted(set(fences))
    assert len(fences) == 3
