"""A plain Python model of the latch: remaining count, opened rounds, and notified waiters."""

from __future__ import annotations

from dataclasses import dataclass

import hypothesis.strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from lockwork.protocol import keys
from lockwork.protocol.effects import Argument, script_call
from lockwork.protocol.messages import seal
from lockwork.protocol.synchronizers import latch
from lockwork.protocol.synchronizers.latch import LatchRequest
from models.bench import CHANNEL, SECOND, Bench

_SECRET = "a waiter's secret"

_KEYS = keys.latch("sim", "a")
_TTL = 60
_PLACE = 15 * SECOND


@dataclass
class _Round:
    count: int
    left: int
    ends: int
    number: int = 0
    """The server's number of the round; 0 until the model has read it."""


class LatchMachine(RuleBasedStateMachine):
    """Users of the latch, and a clock."""

    def __init__(self, bench: Bench) -> None:
        super().__init__()
        self.bench = bench
        self.round: _Round | None = None
        self.told: dict[str, tuple[int, int]] = {}
        """The count in the reply to each request, and the time (us) of the reply."""
        self.place = 0
        self.opened = 0
        self.numbers: list[int] = []
        self.requests: list[str] = []

    # -- the model --------------------------------------------------------------------------------------------------

    def _begin(self, size: int, now: int) -> None:
        self.round = _Round(size, size, now + _TTL * SECOND)

    def _touched(self, size: int) -> _Round | None:
        """Return the round, after beginning one if there is none or it has ended; None if its count differs."""
        now = self.bench.now
        if self.round is None or self.round.ends <= now:
            self._begin(size, now)
        assert self.round is not None
        return self.round if self.round.count == size else None

    def _number(self) -> int:
        """Return the round's number. If necessary, read it from the server; reading changes nothing."""
        assert self.round is not None
        if not self.round.number:
            args: list[Argument] = [self.round.count, _TTL * 1000, 0, ""]
            self.round.number = self.bench.call(script_call("synchronizers/latch_wait", _KEYS, args), later=0)[2]
            assert self.round.number > max(self.numbers, default=0), "rounds rise"
            self.numbers.append(self.round.number)
        return self.round.number

    # -- rules ------------------------------------------------------------------------------------------------------

    @rule(size=st.sampled_from([3, 3, 3, 5]), n=st.integers(1, 3), twice=st.booleans())
    def count_down(self, size: int, n: int, twice: bool) -> None:
        self.requests.append(f"r{len(self.requests):05d}")
        for _ in range(1 + twice):
            self._send(size, n, self.requests[-1])

    @precondition(lambda self: self.told)
    @rule(data=st.data())
    def sent_again(self, data: st.DataObject) -> None:
        """Repeat an earlier call after other calls and resets."""
        assert self.round is not None
        recent = [id for id, (_, when) in self.told.items() if when > self.bench.now - 60 * SECOND]
        if recent:
            self._send(self.round.count, 1, data.draw(st.sampled_from(recent[-6:])))

    def _send(self, size: int, n: int, request: str) -> None:
        self.bench.messages.clear()
        reply = self.bench.call(script_call("synchronizers/latch_count", _KEYS, [size, _TTL * 1000, request, n]))
        round = self._touched(size)
        if round is None:
            assert self.round is not None
            assert reply == [-1, self.round.count]
            return
        if request in self.told:
            assert reply == [1, self.told[request][0]], "a request counts once"
        elif not round.left:
            self.told[request] = 0, self.bench.now
            assert reply == [1, 0], "an open latch stays open"
        else:
            round.left = max(0, round.left - n)
            self.told[request] = round.left, self.bench.now
            round.ends = self.bench.now + _TTL * SECOND
            assert reply == [1, round.left], "what is left"
            if not round.left:
                self._opens()
                return
        assert not self.bench.messages, "nobody is woken for nothing"

    def _opens(self) -> None:
        number = str(self._number())
        text = f"{_KEYS[0]} {seal(_SECRET, _KEYS[0], number)} {number}"
        told = [(CHANNEL, text)] if self.place > self.bench.now else []
        assert self.bench.messages == told, "who waits is woken, with one message"
        self.opened, self.place = self._number(), 0

    @rule(size=st.sampled_from([3, 3, 5]), waits=st.booleans(), back=st.integers(0, 3))
    def look(self, size: int, waits: bool, back: int) -> None:
        """Ask if the latch, or the round that was closed when the wait began, has opened."""
        since = self.numbers[-back] if 0 < back <= len(self.numbers) else 0
        args: list[Argument] = [size, _TTL * 1000, since, CHANNEL if waits else "", _SECRET]
        code, left, number = self.bench.call(script_call("synchronizers/latch_wait", _KEYS, args))
        round = self._touched(size)
        if round is None:
            assert self.round is not None
            assert (code, left) == (-1, self.round.count)
            return
        assert number == self._number()
        opened = round.left == 0 or 0 < since <= self.opened
        assert (code, left) == ((1, 0) if opened else (0, round.left))
        if waits and not opened:
            self.place = self.bench.now + _PLACE

    @rule(size=st.sampled_from([3, 3, 3, 5]), twice=st.booleans())
    def reset(self, size: int, twice: bool) -> None:
        self.requests.append(f"q{len(self.requests):05d}")
        call = script_call("synchronizers/latch_reset", _KEYS, [size, _TTL * 1000, self.requests[-1]])
        self.bench.call(call)
        self._begin(size, self.bench.now)
        number = self._number()
        if twice:
            self.bench.call(call)
            assert self.round is not None
            self.round.number = 0
            self.numbers.pop()
            assert self._number() == number, "a request resets once"

    @rule(microseconds=st.sampled_from([1, 5 * SECOND, 16 * SECOND, 40 * SECOND]))
    def wait(self, microseconds: int) -> None:
        self.bench.now += microseconds

    @rule()
    def read(self) -> None:
        size = self.round.count if self.round else 3
        left = self.bench.run(latch.status(LatchRequest(_KEYS, "a", size, _TTL * 1000))).left
        assert left == (self.round.left if self.round and self.round.ends > self.bench.now else size)
