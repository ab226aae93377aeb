"""The stock, and what a plain Python model says of it: units add up, limits hold, keys are met, nothing is oversold."""

from __future__ import annotations

from dataclasses import dataclass

import hypothesis.strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from lockwork.errors import ConfigError, LimitReached, ReservationEnded, SoldOut
from lockwork.protocol import jobs, queue_status, stock
from lockwork.protocol.effects import Call
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.pushing import NewJob
from lockwork.protocol.scripts import script
from lockwork.protocol.stock import Books, StockStatus
from model.bench import CHANNEL, SECOND, Bench

_TOTAL = 6
_LIMIT = 3
_CLAIM = 4 * SECOND
_ENDS = (
    ("confirm", "held"), ("confirm", "confirmed"), ("release", "held"), ("release", None),
    ("refund", "confirmed"), ("refund", None),
)  # fmt: skip


@dataclass
class _Reserved:
    buyer: str
    n: int
    key: str
    ends: int
    state: str = "held"
    claim: int = 0
    """How long it will be held once it is claimed, us; 0 when it is."""


@dataclass
class _Waiter:
    buyer: str
    n: int
    hold: int
    key: str
    place: int


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
        self.line: dict[str, _Waiter] = {}
        """Who waits, in order."""

    def _units(self, state: str) -> int:
        return sum(kept.n for kept in self.kept.values() if kept.state == state)

    def _lapse(self) -> None:
        for id, kept in list(self.kept.items()):
            if kept.state == "held" and kept.ends <= self.bench.now + 1:
                del self.kept[id]
                self.ended.add(id)
                self.expired += 1

    def _free(self) -> int:
        return self.total - self._units("held") - self._units("confirmed")

    def _bought(self, buyer: str) -> int:
        return sum(kept.n for kept in self.kept.values() if kept.buyer == buyer)

    def _same(self, key: str) -> str | None:
        return next((known for known, kept in self.kept.items() if key and kept.key == key), None)

    def _serve(self) -> None:
        """What is on sale goes to those in line whose wish can be met."""
        now = self.bench.now
        for id, waiter in list(self.line.items()):
            if self._free() <= 0:
                return
            if waiter.place <= now:
                del self.line[id]
            elif waiter.n <= self._free():
                met = self._same(waiter.key) is not None
                if met or self._bought(waiter.buyer) + waiter.n <= _LIMIT:
                    del self.line[id]
                if not met and self._bought(waiter.buyer) + waiter.n <= _LIMIT:
                    ends = now + min(_CLAIM, waiter.hold)
                    self.kept[id] = _Reserved(waiter.buyer, waiter.n, waiter.key, ends, claim=waiter.hold)

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
        same = self._same(key)
        asked = stock.reserve(self.books, id, buyer, n, hold * 1000, key, new)
        error: Exception | None = None
        try:
            got = self.bench.run(asked, twice=twice)
        except (ConfigError, LimitReached, SoldOut) as raised:
            error = raised
        if same is None:
            self._serve()
        bought = self._bought(buyer)
        try:
            if error is not None:
                raise error
        except ConfigError:
            assert same is not None
            assert self.kept[same].buyer != buyer
        except LimitReached:
            assert same is None
            assert bought + n > _LIMIT
        except SoldOut:
            assert same is None
            assert n > self._free()
        else:
            if same is not None:
                kept = self.kept[same]
                assert (got.id, got.buyer, got.n, got.state, got.created) == (same, buyer, kept.n, kept.state, False)
                return
            assert bought + n <= _LIMIT
            assert n <= self._free()
            assert (got.id, got.n, got.state, got.created) == (id, n, "held", True)
            self.kept[id] = _Reserved(buyer, n, key, self.bench.now + hold * 1_000_000)
            self.jobs += job

    @precondition(lambda self: self.kept or self.ended)
    @rule(
        data=st.data(), job=st.booleans(), twice=st.booleans(), verb=st.sampled_from(["confirm", "release", "refund"])
    )
    def end(self, data: st.DataObject, job: bool, twice: bool, verb: str) -> None:
        self._lapse()
        id = data.draw(st.sampled_from(sorted({*self.kept, *self.ended})))
        self.count += 1
        new = NewJob(f"e{self.count}", jobs.head(1, 1) + b"job") if job else None
        kept = self.kept.get(id)
        before = None if kept is None else kept.state
        try:
            self.bench.run(getattr(stock, verb)(self.books, id, new), twice=twice)
        except ReservationEnded:
            assert before == {"confirm": None, "release": "confirmed", "refund": "held"}[verb]
        else:
            assert (verb, before) in _ENDS
            if kept is not None and not (verb == "confirm" and before == "confirmed"):
                self.jobs += job
                kept.state, kept.claim = "confirmed", 0
                if verb != "confirm":
                    del self.kept[id]
                    self.ended.add(id)
        self._serve()

    @precondition(lambda self: self.kept or self.ended)
    @rule(data=st.data(), hold=st.integers(1, 40), twice=st.booleans())
    def extend(self, data: st.DataObject, hold: int, twice: bool) -> None:
        id = data.draw(st.sampled_from(sorted({*self.kept, *self.ended})))
        kept = self.kept.get(id)
        if kept is not None and kept.state == "held" and kept.ends <= self.bench.now + 1:
            kept = None
        try:
            left = self.bench.run(stock.extend(self.books, id, hold * 1000), twice=twice)
        except ReservationEnded:
            assert kept is None or kept.state == "confirmed"
        else:
            assert kept is not None
            assert kept.state == "held"
            kept.ends = max(kept.ends, self.bench.now + hold * 1_000_000)
            assert left == (kept.ends - self.bench.now) // 1000 / 1000

    @rule(
        buyer=st.sampled_from("abc"),
        n=st.integers(1, 4),
        hold=st.integers(1, 20),
        key=st.sampled_from(["", "", "", "x"]),
        stays=st.sampled_from([True, True, True, False]),
        job=st.booleans(),
        twice=st.booleans(),
    )
    def come_to_wait(self, buyer: str, n: int, hold: int, key: str, stays: bool, job: bool, twice: bool) -> None:
        self.count += 1
        self._wait(f"r{self.count}", _Waiter(buyer, n, hold * 1_000_000, key, 0), stays, job, twice)

    @rule(hold=st.integers(1, 20), claim=st.booleans(), limited=st.booleans())
    def rush(self, hold: int, claim: bool, limited: bool) -> None:
        """It is sold out, and more come; then units come back."""
        self._lapse()
        for _ in range(max(0, self._free())):
            self.count += 1
            buyer = f"z{self.count}"
            self._wait(f"r{self.count}", _Waiter(buyer, 1, hold * SECOND, "", 0), stays=False, job=False, twice=False)
        for n in (1, 3):
            self.count += 1
            buyer = "d" if limited else f"y{self.count}"
            self._wait(f"r{self.count}", _Waiter(buyer, n, 9 * SECOND, "", 0), stays=True, job=True, twice=False)
        if claim:
            self._lapse()
            self.bench.run(stock.status(self.books, 4, f"more{self.count}"))
            self.total += 4
            self._serve()
            for id, kept in list(self.kept.items()):
                if kept.claim and not limited and id in self.kept:
                    waiter = _Waiter(kept.buyer, kept.n, kept.claim, kept.key, 0)
                    self._wait(id, waiter, stays=True, job=True, twice=True)

    @precondition(lambda self: any(kept.state == "held" for kept in self.kept.values()))
    @rule(verb=st.sampled_from(["confirm", "release", "reserve"]))
    def lapse(self, verb: str) -> None:
        """The next reservation runs out, and the first to come is one that would like to use that."""
        ends, id = min((kept.ends, id) for id, kept in self.kept.items() if kept.state == "held")
        self.bench.now = max(self.bench.now, ends)
        self._lapse()
        if verb != "reserve":
            try:
                self.bench.run(getattr(stock, verb)(self.books, id, None))
                assert verb == "release", "what has run out is not sold"
            except ReservationEnded:
                assert verb == "confirm"
            self._serve()
            return
        self.count += 1
        try:
            self.bench.run(stock.reserve(self.books, f"r{self.count}", f"x{self.count}", 1, 5000, "", None))
            got = True
        except SoldOut:
            got = False
        self._serve()
        assert got == (self._free() > 0), "nobody overtakes who waits"
        if got:
            self.kept[f"r{self.count}"] = _Reserved(f"x{self.count}", 1, "", self.bench.now + 5 * SECOND)

    @precondition(lambda self: self.line or any(kept.claim for kept in self.kept.values()))
    @rule(data=st.data(), stays=st.booleans(), job=st.booleans(), twice=st.booleans())
    def look_again(self, data: st.DataObject, stays: bool, job: bool, twice: bool) -> None:
        """Who waits looks again, and claims what was handed over."""
        handed = {
            id: _Waiter(kept.buyer, kept.n, kept.claim or 9 * SECOND, kept.key, 0)
            for id, kept in self.kept.items()
            if kept.state == "held"
        }
        waiters = {**self.line, **handed}
        id = data.draw(st.sampled_from(sorted(waiters)))
        self._wait(id, waiters[id], stays, job, twice)

    def _wait(self, id: str, waiter: _Waiter, stays: bool, job: bool, twice: bool) -> None:
        self._lapse()
        self.bench.messages.clear()
        record: list[str | bytes | int] = [id, jobs.head(1, 1) + b"job", 0] if job else []
        args: list[str | bytes | int] = [
            _TOTAL,
            _LIMIT,
            id,
            waiter.buyer,
            waiter.n,
            waiter.hold // 1000,
            waiter.key,
            CHANNEL if stays else "",
        ]
        call = Call(script("stock_wait"), self.books.keys, [*args, *record])
        reply = self.bench.call(call)
        if twice:
            again = self.bench.call(call, later=0)
            assert again[:4] == reply[:4] or reply[0] == 0, "a call that is sent again does nothing more"
        now = self.bench.now
        self._serve()
        kept, same = self.kept.get(id), self._same(waiter.key)
        if kept is not None and (not kept.claim or kept.state != "held"):
            assert reply[:3] == [1, id.encode(), kept.state[:1].encode()]
        elif kept is not None:
            assert (reply[0], reply[4], reply[6]) == (1, waiter.hold // 1000, 1), "it claims what was handed over"
            kept.ends, kept.claim, self.jobs = now + waiter.hold, 0, self.jobs + job
        elif same is not None:
            assert reply[0] == (1 if self.kept[same].buyer == waiter.buyer else -2)
        elif self._bought(waiter.buyer) + waiter.n > _LIMIT:
            assert reply[0] == -1
        elif waiter.n <= self._free():
            assert (reply[0], reply[6]) == (1, 1)
            self.kept[id] = _Reserved(waiter.buyer, waiter.n, waiter.key, now + waiter.hold)
            self.jobs += job
        else:
            assert reply[0] == 0
            self._stands(id, waiter, stays, reply[4])
            return
        self.line.pop(id, None)
        self._serve()

    def _stands(self, id: str, waiter: _Waiter, stays: bool, look: int) -> None:
        if not stays:
            self.line.pop(id, None)
            assert look == 0
            return
        waiter.place = self.bench.now + 15 * SECOND
        self.line[id] = waiter
        over = [kept.ends - self.bench.now for kept in self.kept.values() if kept.state == "held"]
        wanted = min([5 * SECOND, *over]) if next(iter(self.line)) == id else 5 * SECOND
        assert min([look, 5 * SECOND, *over]) <= look <= max(wanted, 5 * SECOND)
        if next(iter(self.line)) == id:
            assert look == wanted, "the first in line watches over what runs out next"

    @precondition(lambda self: self.line or self.kept)
    @rule(data=st.data(), claimed=st.booleans(), twice=st.booleans())
    def leave(self, data: st.DataObject, claimed: bool, twice: bool) -> None:
        self._lapse()
        unclaimed = {id for id, kept in self.kept.items() if kept.claim}
        if ids := sorted(unclaimed or {*self.line, *self.kept}):
            id = data.draw(st.sampled_from(ids))
            args: list[str | bytes | int] = [id, int(claimed)]
            call = Call(script("stock_leave"), self.queue.stock("phone"), args)
            for _ in range(1 + twice):
                self.bench.call(call, later=0 if _ else 1)
            self.line.pop(id, None)
            kept = self.kept.get(id)
            if kept is not None and kept.state == "held" and (kept.claim or claimed):
                del self.kept[id]
                self.ended.add(id)
            self._serve()

    @rule(n=st.integers(1, 2), twice=st.booleans())
    def restock(self, n: int, twice: bool) -> None:
        self._lapse()
        self.count += 1
        self.bench.run(stock.status(self.books, n, f"add{self.count}"), twice=twice)
        self.total += n
        self._serve()

    @precondition(lambda self: any(kept.state == "confirmed" for kept in self.kept.values()))
    @rule(twice=st.booleans())
    def refund(self, twice: bool) -> None:
        self._lapse()
        id = min(id for id, kept in self.kept.items() if kept.state == "confirmed")
        self.bench.run(stock.refund(self.books, id, None), twice=twice)
        del self.kept[id]
        self._serve()

    @rule(n=st.integers(1, 3), twice=st.booleans())
    def withdraw(self, n: int, twice: bool) -> None:
        self._lapse()
        self.count += 1
        enough = n <= self._free()
        try:
            self.bench.run(stock.status(self.books, -n, f"off{self.count}"), twice=twice)
        except SoldOut:
            assert not enough
        else:
            assert enough
            self.total -= n
        self._serve()

    @rule(buyer=st.sampled_from(["", "a"]))
    def list(self, buyer: str) -> None:
        self._lapse()
        found = {
            kept.id: (kept.buyer, kept.n, kept.state)
            for kept in self.bench.run(stock.reservations(self.books, buyer, 99))
        }
        wanted = {id: kept for id, kept in self.kept.items() if buyer in ("", kept.buyer)}
        assert found == {id: (kept.buyer, kept.n, kept.state) for id, kept in wanted.items()}

    @rule(microseconds=st.sampled_from([1, 500_000, 1_000_000, 5_000_000, 30_000_000]))
    def wait(self, microseconds: int) -> None:
        self.bench.now += microseconds

    @rule()
    def adds_up(self) -> None:
        self._lapse()
        found = self.bench.run(stock.status(self.books))
        self._serve()
        held, sold = self._units("held"), self._units("confirmed")
        assert found == StockStatus(self.total, self.total - held - sold, held, sold, self.expired)
        assert found.available >= 0
        queued, _ = self.bench.run(queue_status.status(self.queue))
        assert (queued.ready, queued.enqueued) == (self.jobs, self.jobs)

    def teardown(self) -> None:
        self.adds_up()
