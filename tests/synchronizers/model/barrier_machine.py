"""A plain Python model of the barrier: arrivals, lapsed places, and the parties of each generation."""

from __future__ import annotations

from dataclasses import dataclass

import hypothesis.strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from lockwork.protocol import keys
from lockwork.protocol.effects import script_call
from lockwork.protocol.messages import seal
from lockwork.protocol.synchronizers import barrier
from models.bench import CHANNEL, SECOND, Bench

_SECRET = "a waiter's secret"

_KEYS = keys.barrier("sim", "a")
_PLACE = 15 * SECOND


@dataclass
class _Arrived:
    request: str
    until: int


class BarrierMachine(RuleBasedStateMachine):
    """Parties and a clock."""

    STEP = 100
    """Number of parties that one call notifies."""

    def __init__(self, bench: Bench) -> None:
        super().__init__()
        self.bench = bench
        self.line: list[_Arrived] = []
        """Arrivals in order. Lapsed ones stay until another party's call removes them."""
        self.parties = 0
        self.passed: dict[str, tuple[int, int]] = {}
        self.unnotified: list[tuple[str, str]] = []
        """Channel and message of each passed party, in order; the channel of the last to arrive is empty."""
        self.generation = 0
        self.count = 0

    def _live(self) -> list[_Arrived]:
        return [arrived for arrived in self.line if arrived.until > self.bench.now]

    @rule(parties=st.sampled_from([3, 3, 3, 2, 1]), twice=st.booleans())
    def arrive(self, parties: int, twice: bool) -> None:
        self.count += 1
        for _ in range(1 + twice):
            self._arrive(f"r{self.count}", parties)

    @precondition(lambda self: self.line or self.passed)
    @rule(data=st.data())
    def look_again(self, data: st.DataObject) -> None:
        """A waiting or lapsed party asks again, or a passed party that does not know it yet."""
        known = [arrived.request for arrived in self.line] + list(self.passed)[-5:]
        self._arrive(data.draw(st.sampled_from(known)), self.parties)

    def _arrive(self, request: str, parties: int) -> None:
        self.bench.messages.clear()
        call = script_call("synchronizers/barrier_arrive", _KEYS, [parties, request, CHANNEL, _SECRET])
        code, answer, generation, left = self.bench.call(call)
        self._notify()
        if request in self.passed:
            assert (code, generation, answer) == (1, *self.passed[request]), "no request passes twice"
            assert left == len(self.unnotified)
            return
        mine = next((arrived for arrived in self.line if arrived.request == request), None)
        self.line = [arrived for arrived in self.line if arrived.until > self.bench.now or arrived is mine]
        others = [arrived for arrived in self._live() if arrived is not mine]
        if others and parties != self.parties:
            assert (code, answer) == (-1, self.parties), "all must agree on the number of parties"
            return
        if len(others) + 1 == parties and self.unnotified:
            assert (code, answer) == (0, len(others)), "one generation after the other"
            if mine in self._live():
                mine.until = self.bench.now + _PLACE
            return
        self.parties = parties
        if mine is None:
            mine = _Arrived(request, 0)
            self.line.append(mine)
        mine.until = self.bench.now + _PLACE
        if len(others) + 1 < parties:
            assert (code, answer, generation) == (0, len(others) + 1, self.generation)
            return
        group = [arrived.request for arrived in self._live()]
        self.generation += 1
        assert (code, answer, generation) == (1, group.index(request), self.generation), "the last one opens it"
        self.unnotified = [
            ("" if other == request else CHANNEL, f"{other} {seal(_SECRET, other, str(index))} {index}")
            for index, other in enumerate(group)
        ]
        self._notify()
        assert left == len(self.unnotified)
        self.passed |= {other: (self.generation, index) for index, other in enumerate(group)}
        self.line = []

    def _notify(self) -> None:
        """Check that the call notified the next passed parties of their indexes, at most `STEP` of them."""
        now, self.unnotified = self.unnotified[: self.STEP], self.unnotified[self.STEP :]
        wanted = [message for message in now if message[0]]
        found, self.bench.messages[:] = self.bench.messages[: len(wanted)], self.bench.messages[len(wanted) :]
        assert found == wanted, "each of the others is told its index"

    @precondition(lambda self: self.line or self.passed)
    @rule(data=st.data(), twice=st.booleans())
    def leave(self, data: st.DataObject, twice: bool) -> None:
        """A waiting or passed party leaves."""
        known = [arrived.request for arrived in self.line] + list(self.passed)[-3:]
        request = data.draw(st.sampled_from(known))
        for _ in range(1 + twice):
            code, index, generation = self.bench.call(script_call("synchronizers/barrier_leave", _KEYS, [request]))
            expected = (1, *self.passed[request]) if request in self.passed else (0, 0, 0)
            assert (code, generation, index) == expected, "what has passed stays passed"
        self.line = [arrived for arrived in self.line if arrived.request != request]

    @rule(microseconds=st.sampled_from([1, SECOND, 5 * SECOND, 10 * SECOND]))
    def wait(self, microseconds: int) -> None:
        self.bench.now += microseconds

    @rule()
    def read(self) -> None:
        assert self.bench.run(barrier.status(_KEYS, 3)).arrived == len(self._live())


class StepwiseBarrierMachine(BarrierMachine):
    """A barrier whose script notifies one party in each call."""

    STEP = 1
