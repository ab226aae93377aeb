"""A plain Python model of permits and their waiters: number of permits, order of grants, fences and deadlines."""

from __future__ import annotations

from dataclasses import dataclass

import hypothesis.strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from lockwork.protocol import keys
from lockwork.protocol.effects import script_call
from lockwork.protocol.locks import grants
from lockwork.protocol.locks.grants import CLAIM_MS, Renewal
from lockwork.protocol.messages import seal
from lockwork.protocol.permits import permits
from models.bench import CHANNEL, SECOND, Bench

_SECRET = "a waiter's secret"

_KEY = keys.semaphore("sim", "a")
_PLACE = 5 * SECOND
"""Lifetime of a waiter's place, in microseconds, after the time of its next planned check."""
_REQUESTS = ["ann", "bob", "eve", "joe", "kim", "lea"]


@dataclass
class _Waiter:
    request: str
    units: int
    claim: int
    until: int
    looks: int = 0
    """Time of its next planned check, in microseconds."""


@dataclass
class _Grant:
    request: str
    units: int
    ends: int


class PermitsMachine(RuleBasedStateMachine):
    """Owners with one request at a time, and a clock."""

    capacities: tuple[int, ...] = (2, 2, 2, 2, 2, 3)
    sizes: tuple[int, ...] = (1, 1, 2)

    def __init__(self, bench: Bench) -> None:
        super().__init__()
        self.bench = bench
        for request in _REQUESTS:  # each in its own process: a process that leaves a hand-over unclaimed is skipped
            bench.hear(f"{CHANNEL}:{request}")
        self.capacity = 0
        self.granted: dict[int, _Grant] = {}
        self.line: list[_Waiter] = []
        self.fence = 0
        self.old: list[tuple[str, int]] = []

    # -- the model ----------------------------------------------------------------------------------------------------

    def _live(self) -> dict[int, _Grant]:
        return {fence: grant for fence, grant in self.granted.items() if grant.ends > self.bench.now}

    def _used(self) -> int:
        return sum(grant.units for grant in self._live().values())

    def _give(self, request: str, units: int, fence: int, microseconds: int) -> int:
        assert fence > self.fence, "the fence rises"
        self.fence = fence
        self.granted[fence] = _Grant(request, units, self.bench.now + microseconds)
        self.old.append((request, fence))
        assert self._used() <= self.capacity, "no more than there are"
        return self.granted[fence].ends

    def _mine(self, request: str) -> tuple[int, _Grant] | None:
        return next(((fence, grant) for fence, grant in self._live().items() if grant.request == request), None)

    def _some(self, data: st.DataObject) -> tuple[str, int]:
        """Draw a current or ended grant: its request and fence."""
        newest = [(grant.request, fence) for fence, grant in self.granted.items()]
        return data.draw(st.sampled_from(newest[-3:] + self.old[-2:]))

    def _serve(self, reply: list[int] | None = None, asked: _Waiter | None = None, *, once: bool = True) -> bool:
        """Grant permits to the first waiters while enough are free. Return True if `reply` granted the request in
        `asked`.
        """
        handed = [text.split() for _, text in self.bench.messages if not text.endswith("look")]
        told = [text.split()[0] for _, text in self.bench.messages if text.endswith("look")]
        for waiter in self.line:
            if waiter.request in told:
                waiter.looks = self.bench.now
        self.bench.messages.clear()
        served = False
        while self.line:
            first = self.line[0]
            mine = asked is not None and first.request == asked.request
            if first.until > self.bench.now or mine:
                if self._used() + first.units > self.capacity:
                    assert mine or first.looks <= self.bench.now + SECOND, "who is first looks often, or is told to"
                    break
                if mine and reply is not None:
                    assert reply[0] == 1, "whoever is first gets what is free"
                    assert reply[2] == self._give(first.request, first.units, reply[1], asked.claim if asked else 0)
                    served = True
                else:
                    assert handed, "who is next is told"
                    request, mark, fence, ends = handed.pop(0)
                    assert request == first.request, "the line is served in order"
                    assert mark == seal(_SECRET, request, f"{fence} {ends}"), "the server has sealed it"
                    assert int(ends) == self._give(request, first.units, int(fence), first.claim)
            self.line.pop(0)
        assert not (handed and once), f"nobody else gets anything: {handed}"
        self.bench.messages += [("", " ".join(parts)) for parts in handed]
        return served

    # -- rules --------------------------------------------------------------------------------------------------------

    @rule(
        request=st.sampled_from(_REQUESTS),
        lease=st.sampled_from([500, 2000, 20_000]),
        wait=st.sampled_from([True, True, False]),
        data=st.data(),
    )
    def acquire(self, request: str, lease: int, wait: bool, data: st.DataObject) -> None:
        self._acquire(request, lease, data, wait=wait)

    @rule(lease=st.sampled_from([2000, 20_000]), data=st.data())
    def crowd(self, lease: int, data: st.DataObject) -> None:
        """All owners acquire, one after the other."""
        for request in data.draw(st.permutations(_REQUESTS)):
            self._acquire(request, lease, data, wait=True)

    def _acquire(self, request: str, lease: int, data: st.DataObject, *, wait: bool) -> None:
        place = next((waiter for waiter in self.line if waiter.request == request), None)
        capacity = data.draw(st.sampled_from(self.capacities))
        units = place.units if place else min(data.draw(st.sampled_from(self.sizes)), capacity)
        capacity = max(capacity, units)
        self.bench.messages.clear()
        args = (request, request, lease, CLAIM_MS, int(wait), f"{CHANNEL}:{request}", units, capacity, _SECRET)
        reply = self.bench.call(script_call("permits/acquire", _KEY, args))
        if mine := self._mine(request):
            fence, grant = mine
            grant.ends = max(grant.ends, self.bench.now + lease * 1000)
            assert reply[:3] == [1, fence, grant.ends], "a request is granted once"
            return
        if place is None or units > self.capacity:
            self.capacity = capacity
        if self._serve(reply, _Waiter(request, units, lease * 1000, 0), once=wait or place is None):
            return
        if place is None and not self.line and self._used() + units <= self.capacity:
            assert reply[0] == 1, "what is free is granted"
            assert reply[2] == self._give(request, units, reply[1], lease * 1000)
            return
        assert reply[0] == 0, "nobody gets more than is free, or passes the line"
        if not wait:
            if place:
                self.line.remove(place)
                self._serve()
            return
        if place is None:
            place = _Waiter(request, units, 0, 0)
            self.line.append(place)
        assert 0 < reply[1] <= (1000 if self.line[0] is place else 5000)
        place.claim, place.looks = min(lease, CLAIM_MS) * 1000, self.bench.now + reply[1] * 1000
        place.until = place.looks + _PLACE

    @rule(request=st.sampled_from(_REQUESTS), twice=st.booleans())
    def abandon(self, request: str, twice: bool) -> None:
        self.bench.messages.clear()
        call = script_call("permits/abandon", _KEY, [request, request])
        self.bench.call(call)
        if mine := self._mine(request):
            del self.granted[mine[0]]
        self.line = [waiter for waiter in self.line if waiter.request != request]
        self._serve()
        if twice:
            self.bench.call(call)

    @precondition(lambda self: self.old)
    @rule(data=st.data(), stranger=st.booleans(), twice=st.booleans())
    def release(self, data: st.DataObject, stranger: bool, twice: bool) -> None:
        """Release a current or ended grant, with the right owner or another one."""
        owner, fence = self._some(data)
        self.bench.messages.clear()
        released = self.bench.run(
            grants.release(_KEY, "stranger" if stranger else owner, fence, scripts=permits.SCRIPTS), twice=twice
        )
        if stranger or fence not in self._live():
            assert released == twice, "only the owner releases"
            if not stranger and self.bench.messages:
                self._serve()  # the lease had ended, and this call was the first to notice
            return
        assert released
        del self.granted[fence]
        self._serve()

    @precondition(lambda self: self.old)
    @rule(data=st.data(), stranger=st.booleans(), lease=st.sampled_from([500, 20_000]))
    def renew(self, data: st.DataObject, stranger: bool, lease: int) -> None:
        """Renew two current or ended grants in one call, with the right owners or another one."""
        chosen = [self._some(data) for _ in range(2)]
        asked = [
            Renewal(_KEY, "stranger" if stranger else owner, fence, lease, permits.SCRIPTS) for owner, fence in chosen
        ]
        kept = self.bench.run(grants.renew(asked, patience=0.0))
        for (_, fence), ends in zip(chosen, kept, strict=True):
            grant = self._live().get(fence)
            if grant is None or stranger:
                assert ends is None, "only the owner renews, and in time"
            else:
                grant.ends = max(grant.ends, self.bench.now + lease * 1000)
                assert ends is not None, "an owner keeps what it renews in time"

    @precondition(lambda self: self.old)
    @rule(data=st.data(), stranger=st.booleans(), twice=st.booleans())
    def downgrade(self, data: st.DataObject, stranger: bool, twice: bool) -> None:
        owner, fence = self._some(data)
        self.bench.messages.clear()
        done = self.bench.run(permits.downgrade(_KEY, "stranger" if stranger else owner, fence, 1), twice=twice)
        grant = self._live().get(fence)
        assert done == (grant is not None and not stranger), "only a holder downgrades"
        if grant is not None and not stranger:
            grant.units = 1
            self._serve()

    @precondition(lambda self: len(self.old) % 5 == 4)
    @rule(twice=st.booleans())
    def force(self, twice: bool) -> None:
        """Force the release of all permits while there are no waiters."""
        live = len(self._live())
        self.line.clear()
        for request in _REQUESTS:
            if self._mine(request) is None:
                self.bench.call(script_call("permits/abandon", _KEY, [request, request]))
        assert self.bench.run(permits.force(_KEY, "wake:"), twice=twice) == live
        self.granted.clear()

    @rule(microseconds=st.sampled_from([1, 500_000, 3 * SECOND, 7 * SECOND, 25 * SECOND]))
    def wait(self, microseconds: int) -> None:
        self.bench.now += microseconds

    @rule()
    def look(self) -> None:
        found = self.bench.run(permits.state(_KEY, holders=100, waiters=100))
        live = self._live()
        assert found.used == self._used()
        assert found.held == len(live)
        assert {(held.fence, held.units) for held in found.holders} == {(f, g.units) for f, g in live.items()}
        waiting = [waiter for waiter in self.line if waiter.until > self.bench.now]
        assert found.waiting == len(waiting)
        assert [who.holder.owner for who in found.line] == [waiter.request for waiter in waiting]


class ReadersMachine(PermitsMachine):
    """A read-write lock: a reader takes one permit, a writer takes all."""

    capacities = (permits.ALL,)
    sizes = (1, 1, permits.ALL)
