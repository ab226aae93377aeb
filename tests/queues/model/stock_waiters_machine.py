"""Waiting for a stock that is sold out: waiters are served in order, and new calls do not overtake them."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis.stateful import precondition, rule

from lockwork.errors import ReservationEnded, SoldOut
from lockwork.protocol.effects import script_call
from lockwork.protocol.queue import record_header
from lockwork.protocol.stock import stock
from models.bench import CHANNEL, SECOND, Bench
from queues.model.stock_machine import StockMachine
from queues.model.stock_model import LIMIT, TOTAL, Reserved, Waiter


class StockWaitersMachine(StockMachine):
    """The stock machine with buyers that wait."""

    def __init__(self, bench: Bench) -> None:
        super().__init__(bench)
        self.claimed: set[str] = set()
        """Ids of calls whose job was enqueued."""

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
        self._wait(f"r{self.count}", Waiter(buyer, n, hold * 1_000_000, key), stays, job, twice)

    @rule(hold=st.integers(1, 20), claim=st.booleans(), limited=st.booleans())
    def rush(self, hold: int, claim: bool, limited: bool) -> None:
        """Sell out, let more buyers wait, and then perhaps restock."""
        self._lapse()
        for _ in range(max(0, self.stock.free())):
            self.count += 1
            buyer = f"z{self.count}"
            self._wait(f"r{self.count}", Waiter(buyer, 1, hold * SECOND, ""), stays=False, job=False, twice=False)
        for n in (1, 3):
            self.count += 1
            buyer = "d" if limited else f"y{self.count}"
            self._wait(f"r{self.count}", Waiter(buyer, n, 9 * SECOND, ""), stays=True, job=True, twice=False)
        if claim:
            self._lapse()
            self.bench.run(stock.status(self.stock_rules, 4, f"more{self.count}"))
            self.stock.total += 4
            self._serve()
            for id, kept in list(self.stock.kept.items()):
                if kept.claim and not limited and id in self.stock.kept:
                    waiter = Waiter(kept.buyer, kept.n, kept.claim, kept.key)
                    self._wait(id, waiter, stays=True, job=True, twice=True)

    @precondition(lambda self: any(kept.state == "held" for kept in self.stock.kept.values()))
    @rule(verb=st.sampled_from(["confirm", "release", "reserve"]))
    def lapse(self, verb: str) -> None:
        """The next reservation runs out, and the first call after that confirms or releases it, or asks for a unit."""
        ends, id = min((kept.ends, id) for id, kept in self.stock.kept.items() if kept.state == "held")
        self.bench.now = max(self.bench.now, ends)
        self._lapse()
        if verb != "reserve":
            try:
                self.bench.run(getattr(stock, verb)(self.stock_rules, id, None))
                assert verb == "release", "what has run out is not sold"
            except ReservationEnded:
                assert verb == "confirm"
            self._serve()
            return
        self.count += 1
        try:
            self.bench.run(stock.reserve(self.stock_rules, f"r{self.count}", f"x{self.count}", 1, 5000, "", None))
            got = True
        except SoldOut:
            got = False
        self._serve()
        assert got == (self.stock.free() > 0), "nobody overtakes who waits"
        if got:
            self.stock.kept[f"r{self.count}"] = Reserved(f"x{self.count}", 1, "", self.bench.now + 5 * SECOND)

    @precondition(lambda self: self.stock.line or any(kept.claim for kept in self.stock.kept.values()))
    @rule(data=st.data(), stays=st.booleans(), job=st.booleans(), twice=st.booleans())
    def look_again(self, data: st.DataObject, stays: bool, job: bool, twice: bool) -> None:
        """A waiter or holder asks again, and claims its handed-over units."""
        handed = {
            id: Waiter(kept.buyer, kept.n, kept.claim or 9 * SECOND, kept.key)
            for id, kept in self.stock.kept.items()
            if kept.state == "held"
        }
        waiters = {**self.stock.line, **handed}
        id = data.draw(st.sampled_from(sorted(waiters)))
        self._wait(id, waiters[id], stays, job, twice)

    def _wait(self, id: str, waiter: Waiter, stays: bool, job: bool, twice: bool) -> None:
        self._lapse()
        self.bench.messages.clear()
        record: list[str | bytes | int] = [id, record_header.head(1, 1) + b"job", 0] if job else []
        args: list[str | bytes | int] = [
            TOTAL,
            LIMIT,
            id,
            waiter.buyer,
            waiter.n,
            waiter.hold // 1000,
            waiter.key,
            CHANNEL if stays else "",
        ]
        call = script_call("stock/wait", self.queue, [*args, *record], **self.stock_rules.keys._asdict())
        reply = self.bench.call(call)
        if twice:
            again = self.bench.call(call, later=0)
            assert again[:4] == reply[:4] or reply[0] == 0, "a call that is sent again does nothing more"
        now = self.bench.now
        self._serve()
        kept, same = self.stock.kept.get(id), self.stock.same(waiter.key)
        if kept is not None and (not kept.claim or kept.state != "held"):
            assert reply[:3] == [1, id.encode(), kept.state[:1].encode()]
        elif kept is not None:
            assert (reply[0], reply[4], reply[6]) == (1, waiter.hold // 1000, 1), "it claims what was handed over"
            kept.ends, kept.claim = now + waiter.hold, 0
            self._enqueued(id, job)
        elif same is not None:
            assert reply[0] == (1 if self.stock.kept[same].buyer == waiter.buyer else -2)
        elif self.stock.bought(waiter.buyer) + waiter.n > LIMIT:
            assert reply[0] == -1
        elif waiter.n <= self.stock.free():
            assert (reply[0], reply[6]) == (1, 1)
            self.stock.kept[id] = Reserved(waiter.buyer, waiter.n, waiter.key, now + waiter.hold)
            self._enqueued(id, job)
        else:
            assert reply[0] == 0
            self._stands(id, waiter, stays, reply[4])
            return
        self.stock.line.pop(id, None)
        self._serve()

    def _enqueued(self, id: str, job: bool) -> None:
        # a caller may ask again after its claimed reservation ran out: its job was enqueued by the first claim
        if job and id not in self.claimed:
            self.claimed.add(id)
            self.jobs += 1

    def _stands(self, id: str, waiter: Waiter, stays: bool, look: int) -> None:
        if not stays:
            self.stock.line.pop(id, None)
            assert look == 0
            return
        waiter.place = self.bench.now + 15 * SECOND
        self.stock.line[id] = waiter
        over = [kept.ends - self.bench.now for kept in self.stock.kept.values() if kept.state == "held"]
        wanted = min([5 * SECOND, *over]) if next(iter(self.stock.line)) == id else 5 * SECOND
        assert min([look, 5 * SECOND, *over]) <= look <= max(wanted, 5 * SECOND)
        if next(iter(self.stock.line)) == id:
            assert look == wanted, "the first in line watches over what runs out next"

    @precondition(lambda self: self.stock.line or self.stock.kept)
    @rule(data=st.data(), claimed=st.booleans(), twice=st.booleans())
    def leave(self, data: st.DataObject, claimed: bool, twice: bool) -> None:
        self._lapse()
        unclaimed = {id for id, kept in self.stock.kept.items() if kept.claim}
        if ids := sorted(unclaimed or {*self.stock.line, *self.stock.kept}):
            id = data.draw(st.sampled_from(ids))
            args: list[str | bytes | int] = [id, int(claimed)]
            call = script_call("stock/leave", self.queue.stock("phone"), args)
            for _ in range(1 + twice):
                self.bench.call(call, later=0 if _ else 1)
            self.stock.line.pop(id, None)
            kept = self.stock.kept.get(id)
            if kept is not None and kept.state == "held" and (kept.claim or claimed):
                self.stock.end(id)
            self._serve()
