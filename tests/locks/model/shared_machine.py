"""Plain Python models of the locks in shared formats, while other programs overwrite and delete the key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import hypothesis.strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from lockwork.protocol.effects import Argument, script_call
from lockwork.protocol.formats import plain, timestamp
from models.bench import SECOND, Bench

KEY = "goods"
DIGITS = st.sampled_from(["000000001", "499999999", "999999999"])
TOKENS = st.sampled_from(["us/1", "us/2", "us/3"])
LEASES = st.sampled_from([5_000, 20_000, 60_000])


class _Machine(RuleBasedStateMachine):
    def __init__(self, bench: Bench) -> None:
        super().__init__()
        self.bench = bench

    def call(self, name: str, *args: Argument) -> Any:
        return self.bench.call(script_call(name, [KEY] if name.endswith("renew") else KEY, args))

    def command(self, *command: Argument) -> Any:
        """Run a command, as another program does."""
        return self.bench._server.command(*command)


class PlainMachine(_Machine):
    """A lock that lasts as long as its key's expiry, in real time. Tests with real clients let it pass."""

    def __init__(self, bench: Bench) -> None:
        super().__init__(bench)
        self.value: str | None = None
        self.lasts = 0
        """Milliseconds; -1 if the key has no expiry."""

    def _same(self) -> None:
        found = self.command("GET", KEY)
        assert (None if found is None else found.decode()) == self.value, "whose key it is"
        if self.value is None:
            return
        left = self.command("PTTL", KEY)
        assert (left == -1) == (self.lasts == -1), "an expiry"
        assert left <= self.lasts < left + 4000 or self.lasts <= 0, "how long it lasts"

    @rule(token=TOKENS, lease=LEASES, missing=st.sampled_from([0, 0, 40_000]))
    def acquire(self, token: str, lease: int, missing: int) -> None:
        reply = self.call("formats/plain_acquire", token, lease, missing)
        if self.value in (None, token):
            self.value, self.lasts = token, lease
            assert reply == [1, self.bench.now + (lease - 1) * 1000, self.bench.now]
        else:
            if self.lasts == -1 and missing:
                self.lasts = missing
            assert reply[0] == 0, "taken"
            assert (reply[1] == -1) == (self.lasts == -1)
            assert reply[2:] == [self.bench.now]
        self._same()

    @rule(tokens=st.lists(TOKENS, min_size=1, max_size=3), lease=LEASES)
    def renew(self, tokens: list[str], lease: int) -> None:
        args: list[Argument] = [each for token in tokens for each in (token, 0, lease)]
        reply = self.bench.call(script_call("formats/plain_renew", [KEY] * len(tokens), args))
        for token, deadline in zip(tokens, reply[:-1], strict=True):
            assert bool(deadline) == (token == self.value), "only its owner's"
        if self.value in tokens:
            self.lasts = max(self.lasts, lease)
        assert reply[-1] == self.bench.now
        self._same()

    @rule(token=TOKENS, again=st.booleans())
    def release(self, token: str, again: bool) -> None:
        reply = self.call("formats/plain_release", int(again), token, 0)
        assert reply == (1 if token == self.value or again else 0)
        if token == self.value:
            self.value = None
        self._same()

    @rule()
    def force(self) -> None:
        assert self.bench.run(plain.force(KEY)) == (self.value is not None)
        self.value = None
        self._same()

    @rule(lasts=st.sampled_from([-1, 30_000]))
    def stranger_sets(self, lasts: int) -> None:
        expiry: tuple[Argument, ...] = () if lasts < 0 else ("PX", lasts)
        if self.command("SET", KEY, "stranger", "NX", *expiry):
            self.value, self.lasts = "stranger", lasts
        self._same()

    @rule()
    def stranger_deletes(self) -> None:
        self.command("DEL", KEY)
        self.value = None


@dataclass
class _Time:
    nanoseconds: int
    digits: str | None
    text: str
    expires: bool


class TimestampMachine(_Machine):
    """A lock that lasts until the time in its value, by the test's clock. The key expires much later, in real time."""

    def __init__(self, bench: Bench) -> None:
        super().__init__(bench)
        self.held: _Time | None = None

    def _live(self) -> _Time | None:
        held = self.held
        return held if held is not None and held.nanoseconds // 1000 > self.bench.now else None

    def _written(self, digits: str, ends: int) -> int:
        """Store the first time at or after `ends` (us) that has these digits, and return its deadline in us."""
        whole = ends * 1000 // 10**9 + (int(digits) < ends * 1000 % 10**9)
        self.held = _Time(whole * 10**9 + int(digits), digits, f"{whole}.{digits}", expires=True)
        return self.held.nanoseconds // 1000 - 1000

    def _same(self) -> None:
        found = self.command("GET", KEY)
        assert (None if found is None else found.decode()) == (self.held.text if self.held else None), "the value"
        if self.held is not None and self.held.digits:
            left = self.command("PTTL", KEY)
            assert left > 0, "ours has an expiry"

    @rule(digits=DIGITS, lease=LEASES)
    def acquire(self, digits: str, lease: int) -> None:
        reply = self.call("formats/timestamp_acquire", digits, lease, timestamp.MICROSECONDS["s"])
        now, held = self.bench.now, self._live()
        if held is None or held.digits == digits:
            deadline = self._written(digits, now + lease * 1000)
            assert reply[0] == 1, "free, ours or past"
            assert abs(reply[1] - deadline) <= 1
            assert reply[1] >= now + lease * 1000 - 1001, "as long as asked"
        else:
            assert reply[0] == 0, "taken"
            assert 0 <= reply[1] <= (held.nanoseconds // 1000 - now) / 1000 + 1
        assert reply[2] == now
        self._same()

    @rule(digits=DIGITS, lease=LEASES)
    def renew(self, digits: str, lease: int) -> None:
        reply = self.call("formats/timestamp_renew", digits, 0, lease)
        held, now = self._live(), self.bench.now
        if held is None or held.digits != digits:
            assert reply == [0, now], "only a live one, only its owner's"
        else:
            deadline = held.nanoseconds // 1000 - 1000
            if now + lease * 1000 > held.nanoseconds // 1000:
                deadline = self._written(digits, now + lease * 1000)
            assert abs(reply[0] - deadline) <= 1, "a time only grows"
        self._same()

    @precondition(lambda self: self.held is not None and self.held.digits)
    @rule(lease=LEASES)
    def renew_late(self, lease: int) -> None:
        """A holder renews after its lease has ended."""
        assert self.held is not None
        assert self.held.digits is not None
        self.bench.now = max(self.bench.now, self.held.nanoseconds // 1000)
        assert self.call("formats/timestamp_renew", self.held.digits, 0, lease) == [0, self.bench.now], (
            "only a live one"
        )
        self._same()

    @rule(digits=DIGITS, again=st.booleans())
    def release(self, digits: str, again: bool) -> None:
        reply = self.call("formats/timestamp_release", int(again), digits, 0)
        live = self._live() is not None
        if self.held is not None and self.held.digits == digits:
            assert reply == int(live), "whether it was still ours"
            self.held = None
        else:
            assert reply == int(again)
        self._same()

    @rule()
    def force(self) -> None:
        live = self._live() is not None
        assert self.bench.run(timestamp.force(KEY)) == live
        if live:
            self.held = None
        self._same()

    @rule(seconds=st.integers(-5, 30), expires=st.booleans(), decimals=st.sampled_from(["", "5", "000", "12345678"]))
    def stranger_overwrites(self, seconds: int, expires: bool, decimals: str) -> None:
        """Overwrite the value. The lock ends where its last decimal, raised by one, would begin."""
        whole = self.bench.now // SECOND + seconds
        text = f"{whole}.{decimals}" if decimals else str(whole)
        self.command("SET", KEY, text, *(("PX", 100_000) if expires else ()))
        self.held = _Time(whole * 10**9 + int(f"{decimals:0<9}") + 10 ** (9 - len(decimals)), None, text, expires)

    @rule()
    def stranger_deletes(self) -> None:
        self.command("DEL", KEY)
        self.held = None

    @rule(microseconds=st.sampled_from([1, 3 * SECOND, 8 * SECOND, 30 * SECOND]))
    def wait(self, microseconds: int) -> None:
        self.bench.now += microseconds
