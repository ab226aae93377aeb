"""The barrier, and what a plain Python model says of it: who has arrived, who lapsed, and who passes with whom."""

from __future__ import annotations

from dataclasses import dataclass

import hypothesis.strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from lockwork.protocol import keys
from lockwork.protocol.effects import Call
from lockwork.protocol.messages import seal
from lockwork.protocol.scripts import script
from lockwork.protocol.synchronizers import barrier
from model.bench import CHANNEL, SECOND, Bench

_SECRET = "a waiter's secret"

_KEYS = keys.barrier("sim", "a")
_PLACE = 15 * SECOND


@dataclass
class _Arrived:
    request: str
    until: int


class BarrierMachine(RuleBasedStateMachine):
    """Rules are what parties and time do."""

    def __init__(self, bench: Bench) -> None:
        super().__init__()
        self.bench = bench
        self.line: list[_Arrived] = []
        """In order of arrival, those that have lapsed included until somebody else's call sweeps them."""
        self.parties = 0
        self.passed: dict[str, tuple[int, int]] = {}
        self.generation = 0
        self.count = 0

    def _live(self) -> list[_Arrived]:
        return [arrived for arrived in self.line if arrived.until > self.bench.now]

    @rule(parties=st.sampled_from([3, 3, 3, 2]), twice=st.booleans())
    def arrive(self, parties: int, twice: bool) -> None:
        self.count += 1
        for _ in range(1 + twice):
            self._arrive(f"r{self.count}", parties)

    @precondition(lambda self: self.line or self.passed)
    @rule(data=st.data())
    def look_again(self, data: st.DataObject) -> None:
        """One who waits asks again, in time or not, or one that has passed and does not know it."""
        known = [arrived.request for arrived in self.line] + list(self.passed)[-5:]
        self._arrive(data.draw(st.sampled_from(known)), self.parties)

    def _arrive(self, request: str, parties: int) -> None:
        self.bench.messages.clear()
        call = Call(script("barrier_arrive"), _KEYS, [parties, request, CHANNEL, _SECRET])
        code, answer, generation = self.bench.call(call)
        if request in self.passed:
            assert (code, generation, answer) == (1, *self.passed[request]), "no request passes twice"
            return
        mine = next((arrived for arrived in self.line if arrived.request == request), None)
        self.line = [arrived for arrived in self.line if arrived.until > self.bench.now or arrived is mine]
        others = [arrived for arrived in self._live() if arrived is not mine]
        if others and parties != self.parties:
            assert (code, answer) == (-1, self.parties), "all must agree on the number of parties"
            return
        self.parties = parties
        if mine is None:
            mine = _Arrived(request, 0)
            self.line.append(mine)
        mine.until = self.bench.now + _PLACE
        if len(others) + 1 < parties:
            assert (code, answer, generation) == (0, len(others) + 1, self.generation)
            assert not self.bench.messages
            return
        group = [arrived.request for arrived in self._live()]
        self.generation += 1
        assert (code, answer, generation) == (1, group.index(request), self.generation), "the last one opens it"
        told = [
            f"{other} {seal(_SECRET, other, str(index))} {index}"
            for index, other in enumerate(group)
            if other != request
        ]
        assert self.bench.messages == [(CHANNEL, text) for text in told], "each of the others is told its index"
        self.passed |= {other: (self.generation, index) for index, other in enumerate(group)}
        self.line = []

    @precondition(lambda self: self.line or self.passed)
    @rule(data=st.data(), twice=st.booleans())
    def leave(self, data: st.DataObject, twice: bool) -> None:
        """One gives up, or wants to although it has passed."""
        known = [arrived.request for arrived in self.line] + list(self.passed)[-3:]
        request = data.draw(st.sampled_from(known))
        for _ in range(1 + twice):
            code, index, generation = self.bench.call(Call(script("barrier_leave"), _KEYS, [request]))
            expected = (1, *self.passed[request]) if request in self.passed else (0, 0, 0)
            assert (code, generation, index) == expected, "what has passed stays passed"
        self.line = [arrived for arrived in self.line if arrived.request != request]

    @rule(microseconds=st.sampled_from([1, SECOND, 5 * SECOND, 10 * SECOND]))
    def wait(self, microseconds: int) -> None:
        self.bench.now += microseconds

    @rule()
    def read(self) -> None:
        assert self.bench.run(barrier.arrived(_KEYS)) == len(self._live())
