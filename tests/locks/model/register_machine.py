"""A plain Python model of the fenced register, with late and repeated calls."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from lockwork.errors import StaleFence
from lockwork.protocol.effects import Protocol
from lockwork.protocol.locks import fenced_register
from models.bench import Bench

KEY = "register"
_REMEMBERED = 16


class RegisterMachine(RuleBasedStateMachine):
    """Holders and zombies that write."""

    def __init__(self, bench: Bench) -> None:
        super().__init__()
        self.bench = bench
        self.value: bytes | None = None
        self.fence = 0
        self.done: list[str] = []
        """Requests that have written with the current fence."""
        self.sent: list[tuple[str, bytes, int, bool]] = []

    def _write(self, request: str, value: bytes, fence: int, strict: bool) -> None:
        refused = fence < self.fence or (strict and fence == self.fence and request not in self.done)
        call = fenced_register.write(KEY, "a", request, value, fence, strict=strict)
        refusal = self._refusal(call)
        assert (refusal is not None) == refused, "zombies are refused, and nobody else"
        if refusal is not None:
            assert (refusal.fence, refusal.seen) == (fence, self.fence)
            return
        if fence > self.fence:
            self.done = []
        if request not in self.done:
            self.value, self.fence = value, fence
            self.done.append(request)

    def _refusal(self, call: Protocol[None]) -> StaleFence | None:
        try:
            self.bench.run(call)
        except StaleFence as error:
            return error
        return None

    @rule(fence=st.integers(1, 6), strict=st.booleans())
    def write(self, fence: int, strict: bool) -> None:
        number = len(self.sent)
        self.sent.append((f"{number:016d}", b"%d" % number, fence, strict))
        self._write(*self.sent[-1])

    @precondition(lambda self: self.sent)
    @rule(data=st.data())
    def sent_again(self, data: st.DataObject) -> None:
        """Send an earlier write again, because its reply was lost or the call was delayed."""
        known = [sent for sent in self.sent if sent[2] != self.fence or sent[0] in self.done[-_REMEMBERED:] or sent[3]]
        if known:
            self._write(*data.draw(st.sampled_from(known)))

    @rule()
    def read(self) -> None:
        expected = None if self.value is None else (self.value, self.fence)
        assert self.bench.run(fenced_register.read(KEY)) == expected
