"""The stock, and what a plain Python model says of it: units add up, limits hold, keys are met, nothing is oversold."""

from __future__ import annotations

from dataclasses import dataclass

import hypothesis.strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from lockwork.errors import ConfigError, LimitReached, ReservationEnded, SoldOut
from lockwork.protocol import jobs, stock
from lockwork.protocol.jobs import NewJob
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.stock import Books, StockStatus
from model.bench import Bench

_TOTAL = 6
_LIMIT = 3


@dataclass
class _Reserved:
    buyer: str
    n: int
    key: str
    ends: int
    state: str = "held"


class StockMachine(RuleBasedStateMachine):
    """Rules are what buyers and time do."""

    def __init__(self, bench: Bench) -> None:
        super().__init__()
        self.bench = bench
        self.queue = QueueKeys("sim", "q")
        self.books = Books(self.queue, "phone", _TOTAL, _LIMIT)
        self.kept: dict[str, _Reserved] = {}
        self.ended: set[str] = set()
        self.total = _TOTAL
        self.expired = 0
        self.jobs = 0
        self.count = 0

    def _units(self, state: str) -> int:
        return sum(kept.n for kept in self.kept.values() if kept.state == state)

    def _lapse(self) -> None:
        for id, kept in list(self.kept.items()):
            if kept.state == "held" and kept.ends <= self.bench.now + 1:
                del self.kept[id]
                self.ended.add(id)
                self.expired += 1

    @rule(
        buyer=st.sampled_from("abc"),
        n=st.integers(1, 4),
        hold=st.integers(1, 20),
        key=st.sampled_from(["", "", "x", "y"]),
        job=st.booleans(),
        twice=st.booleans(),
    )
    def reserve(self, buyer: str, n: int, hold: int, key: str, job: bool, twice: bool) -> None:
        self._lapse()
        self.count += 1
        id = f"r{self.count}"
        new = NewJob(id, jobs.head(1, 1) + b"job") if job else None
        same = next((known for known, kept in self.kept.items() if key and kept.key == key), None)
        bought = sum(kept.n for kept in self.kept.values() if kept.buyer == buyer)
        asked = stock.reserve(self.books, id, buyer, n, hold * 1000, key, new)
        try:
            got = self.bench.run(asked, twice=twice)
        except ConfigError:
            assert same is not None
            assert self.kept[same].buyer != buyer
        except LimitReached:
            assert same is None
            assert bought + n > _LIMIT
        except SoldOut:
            assert same is None
            assert n > self.total - self._units("held") - self._units("confirmed")
        else:
            if same is not None:
                kept = self.kept[same]
                assert (got.id, got.buyer, got.n, got.state, got.created) == (same, buyer, kept.n, kept.state, False)
                return
            assert bought + n <= _LIMIT
            assert n <= self.total - self._units("held") - self._units("confirmed")
            assert (got.id, got.n, got.state, got.created) == (id, n, "held", True)
            self.kept[id] = _Reserved(buyer, n, key, self.bench.now + hold * 1_000_000)
            self.jobs += job

    @precondition(lambda self: self.kept or self.ended)
    @rule(data=st.data(), job=st.booleans(), twice=st.booleans(), verb=st.sampled_from(["confirm", "release"]))
    def end(self, data: st.DataObject, job: bool, twice: bool, verb: str) -> None:
        self._lapse()
        id = data.draw(st.sampled_from(sorted({*self.kept, *self.ended})))
        self.count += 1
        new = NewJob(f"e{self.count}", jobs.head(1, 1) + b"job") if job else None
        kept = self.kept.get(id)
        try:
            self.bench.run(getattr(stock, verb)(self.books, id, new), twice=twice)
        except ReservationEnded:
            assert (kept is None) if verb == "confirm" else (kept is not None and kept.state == "confirmed")
            return
        if verb == "confirm":
            assert kept is not None
            self.jobs += job and kept.state == "held"
            kept.state = "confirmed"
        elif kept is not None:
            assert kept.state == "held"
            self.jobs += job
            del self.kept[id]
            self.ended.add(id)

    @rule(n=st.integers(1, 2), twice=st.booleans())
    def restock(self, n: int, twice: bool) -> None:
        self._lapse()
        self.count += 1
        self.bench.run(stock.status(self.books, n, f"add{self.count}"), twice=twice)
        self.total += n

    @rule(microseconds=st.sampled_from([1, 500_000, 1_000_000, 5_000_000, 30_000_000]))
    def wait(self, microseconds: int) -> None:
        self.bench.now += microseconds

    @rule()
    def adds_up(self) -> None:
        self._lapse()
        held, sold = self._units("held"), self._units("confirmed")
        found = self.bench.run(stock.status(self.books))
        assert found == StockStatus(self.total, self.total - held - sold, held, sold, self.expired)
        assert found.available >= 0
        queued, _ = self.bench.run(jobs.status(self.queue))
        assert (queued.ready, queued.enqueued) == (self.jobs, self.jobs)

    def teardown(self) -> None:
        self.adds_up()
