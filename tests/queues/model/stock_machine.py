"""A plain Python model of a stock: units add up, limits hold, keys find their reservation, no unit is sold twice."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from lockwork.errors import ConfigError, LimitReached, ReservationEnded, SoldOut
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queue import record_header
from lockwork.protocol.queue import status as queue_status
from lockwork.protocol.queue.enqueue import NewJob
from lockwork.protocol.stock import stock
from lockwork.protocol.stock.stock import StockRules, StockStatus
from models.bench import Bench
from queues.model.stock_model import LIMIT, TOTAL, Reserved, StockModel

_ENDS = (
    ("confirm", "held"), ("confirm", "confirmed"), ("release", "held"), ("release", None),
    ("refund", "confirmed"), ("refund", None),
)  # fmt: skip


class StockMachine(RuleBasedStateMachine):
    """Buyers and a clock."""

    def __init__(self, bench: Bench) -> None:
        super().__init__()
        self.bench = bench
        self.queue = QueueKeys("sim", "q")
        self.stock_rules = StockRules(self.queue, "phone", TOTAL, LIMIT)
        self.stock = StockModel()
        self.jobs = 0
        self.count = 0

    def _lapse(self) -> None:
        self.stock.lapse(self.bench.now)

    def _serve(self) -> None:
        self.stock.serve(self.bench.now)

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
        new = NewJob(id, record_header.head(1, 1) + b"job") if job else None
        same = self.stock.same(key)
        asked = stock.reserve(self.stock_rules, id, buyer, n, hold * 1000, key, new)
        error: Exception | None = None
        try:
            got = self.bench.run(asked, twice=twice)
        except (ConfigError, LimitReached, SoldOut) as raised:
            error = raised
        if same is None:
            self._serve()
        bought = self.stock.bought(buyer)
        try:
            if error is not None:
                raise error
        except ConfigError:
            assert same is not None
            assert self.stock.kept[same].buyer != buyer
        except LimitReached:
            assert same is None
            assert bought + n > LIMIT
        except SoldOut:
            assert same is None
            assert n > self.stock.free()
        else:
            if same is not None:
                kept = self.stock.kept[same]
                assert (got.id, got.buyer, got.n, got.state, got.created) == (same, buyer, kept.n, kept.state, False)
                return
            assert bought + n <= LIMIT
            assert n <= self.stock.free()
            assert (got.id, got.n, got.state, got.created) == (id, n, "held", True)
            self.stock.kept[id] = Reserved(buyer, n, key, self.bench.now + hold * 1_000_000)
            self.jobs += job

    @precondition(lambda self: self.stock.kept or self.stock.ended)
    @rule(
        data=st.data(), job=st.booleans(), twice=st.booleans(), verb=st.sampled_from(["confirm", "release", "refund"])
    )
    def end(self, data: st.DataObject, job: bool, twice: bool, verb: str) -> None:
        self._lapse()
        id = data.draw(st.sampled_from(self.stock.known()))
        self.count += 1
        new = NewJob(f"e{self.count}", record_header.head(1, 1) + b"job") if job else None
        kept = self.stock.kept.get(id)
        before = None if kept is None else kept.state
        try:
            self.bench.run(getattr(stock, verb)(self.stock_rules, id, new), twice=twice)
        except ReservationEnded:
            ended = before is None and job
            assert ended or before == {"confirm": None, "release": "confirmed", "refund": "held"}[verb]
        else:
            assert (verb, before) in _ENDS
            assert before is not None or not job, "the job or an error"
            if kept is not None and not (verb == "confirm" and before == "confirmed"):
                self.jobs += job
                kept.state, kept.claim = "confirmed", 0
                if verb != "confirm":
                    self.stock.end(id)
        self._serve()

    @precondition(lambda self: self.stock.kept or self.stock.ended)
    @rule(data=st.data(), hold=st.integers(1, 40), twice=st.booleans())
    def extend(self, data: st.DataObject, hold: int, twice: bool) -> None:
        id = data.draw(st.sampled_from(self.stock.known()))
        kept = self.stock.kept.get(id)
        if kept is not None and kept.state == "held" and kept.ends <= self.bench.now + 1:
            kept = None
        try:
            left = self.bench.run(stock.extend(self.stock_rules, id, hold * 1000), twice=twice)
        except ReservationEnded:
            assert kept is None or kept.state == "confirmed"
        else:
            assert kept is not None
            assert kept.state == "held"
            kept.ends = max(kept.ends, self.bench.now + hold * 1_000_000)
            assert left == (kept.ends - self.bench.now) // 1000 / 1000

    @rule(n=st.integers(1, 2), twice=st.booleans())
    def restock(self, n: int, twice: bool) -> None:
        self._lapse()
        self.count += 1
        self.bench.run(stock.status(self.stock_rules, n, f"add{self.count}"), twice=twice)
        self.stock.total += n
        self._serve()

    @precondition(lambda self: any(kept.state == "confirmed" for kept in self.stock.kept.values()))
    @rule(twice=st.booleans())
    def refund(self, twice: bool) -> None:
        self._lapse()
        id = min(id for id, kept in self.stock.kept.items() if kept.state == "confirmed")
        self.bench.run(stock.refund(self.stock_rules, id, None), twice=twice)
        del self.stock.kept[id]
        self._serve()

    @rule(n=st.integers(1, 3), twice=st.booleans())
    def withdraw(self, n: int, twice: bool) -> None:
        self._lapse()
        self.count += 1
        enough = n <= self.stock.free()
        try:
            self.bench.run(stock.status(self.stock_rules, -n, f"off{self.count}"), twice=twice)
        except SoldOut:
            assert not enough
        else:
            assert enough
            self.stock.total -= n
        self._serve()

    @rule(buyer=st.sampled_from(["", "a"]))
    def list(self, buyer: str) -> None:
        self._lapse()
        found = {
            kept.id: (kept.buyer, kept.n, kept.state)
            for kept in self.bench.run(stock.reservations(self.stock_rules, buyer, 99))
        }
        wanted = {id: kept for id, kept in self.stock.kept.items() if buyer in ("", kept.buyer)}
        assert found == {id: (kept.buyer, kept.n, kept.state) for id, kept in wanted.items()}

    @rule(microseconds=st.sampled_from([1, 500_000, 1_000_000, 5_000_000, 30_000_000]))
    def wait(self, microseconds: int) -> None:
        self.bench.now += microseconds

    @rule()
    def adds_up(self) -> None:
        self._lapse()
        found = self.bench.run(stock.status(self.stock_rules))
        self._serve()
        held, sold = self.stock.units("held"), self.stock.units("confirmed")
        assert found == StockStatus(self.stock.total, self.stock.total - held - sold, held, sold, self.stock.expired)
        assert found.available >= 0
        queued, _ = self.bench.run(queue_status.status(self.queue))
        assert (queued.ready, queued.enqueued) == (self.jobs, self.jobs)

    def teardown(self) -> None:
        self.adds_up()
