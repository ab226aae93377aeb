"""A plain Python model of runs at most once per period: the current run, its stored result, and wake-ups."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import hypothesis.strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from lockwork.protocol import keys
from lockwork.protocol.effects import Call, script_call
from lockwork.protocol.locks import grants
from lockwork.protocol.locks.grants import Renewal
from lockwork.protocol.synchronizers import once
from models.bench import CHANNEL, SECOND, Bench

_KEY = keys.once("sim", "a")
_LEASE = 15 * SECOND
_LOOK = 5 * SECOND
_LETTERS = {"idle": b"", "running": b"r", "done": b"d", "failed": b"f", "lost": b"l"}


@dataclass
class _Run:
    request: str
    fence: int
    deadline: int
    ends: int
    state: str = "r"
    value: bytes = b""

    def seen(self, now: int) -> str:
        """Return the state of the run at this time."""
        return "l" if self.state == "r" and self.deadline <= now else self.state


class OnceMachine(RuleBasedStateMachine):
    """Users and a clock."""

    def __init__(self, bench: Bench) -> None:
        super().__init__()
        self.bench = bench
        self.run: _Run | None = None
        """The newest run that has not been reset or abandoned."""
        self.runs: list[_Run] = []
        self.last = 0
        self.gone: set[str] = set()
        self.line: set[str] = set()
        self.registered = False
        """True if the server will notify the process."""
        self.count = 0
        self.resets: list[Call] = []

    def _call(self, name: str, *args: Any, twice: bool = False) -> Any:
        self.bench.messages.clear()
        call = script_call(name, _KEY, args)
        reply = self.bench.call(call)
        if twice:
            told = list(self.bench.messages)
            assert self.bench.call(call, later=0) == reply, "a call that is sent again does nothing more"
            assert self.bench.messages == told
        return reply

    def _wakes(self) -> None:
        told = [(CHANNEL, _KEY)] if self.registered else []
        assert self.bench.messages == told, "each process in which somebody waits is notified, once"
        self.line.clear()
        self.registered = False

    @rule(
        who=st.sampled_from(["new", "new", "runner", "waiter"]),
        every=st.sampled_from([5, 30, 100]),
        waits=st.booleans(),
        again=st.booleans(),
        back=st.integers(0, 2),
        twice=st.booleans(),
    )
    def begin(self, who: str, every: int, waits: bool, again: bool, back: int, twice: bool) -> None:
        self.count += 1
        request = f"r{self.count:04d}"
        if who == "runner" and self.run:
            request = self.run.request
        elif who == "waiter" and self.line:
            request = min(self.line)
        since = self.runs[-back].fence if 0 < back <= len(self.runs) else 0
        args = ["o", request, _LEASE // 1000, every * 1000, CHANNEL if waits else "", int(again), since]
        reply = self._call("synchronizers/once_begin", *args, twice=twice)
        assert self.bench.messages == []
        now, run = self.bench.now, self.run
        state = run.seen(now) if run else ""
        if run and run.state == "r" and run.request == request:
            run.deadline = max(run.deadline, now + _LEASE)
            assert reply == [1, run.fence, run.deadline, now], "its own run, met again"
        elif run and state == "r":
            assert reply == [0, run.fence, min(run.deadline - now, _LOOK)], "nobody runs beside it"
            self.line.add(request) if waits else self.line.discard(request)
            self.registered = self.registered or waits
        elif run and not (state == "l" and again) and (run.ends > now or run.fence == since):
            assert reply == [2, run.fence, state.encode(), run.value], "once per period"
        elif request in self.gone:
            assert reply == [0, 0, _LOOK]
        else:
            assert reply == [1, max(self.last + 1, now), now + _LEASE, now]
            self.last = reply[1]
            self.run = _Run(request, self.last, reply[2], now + every * SECOND)
            self.runs.append(self.run)

    @precondition(lambda self: self.runs)
    @rule(back=st.integers(1, 2), state=st.sampled_from("ddfl"), twice=st.booleans())
    def end(self, back: int, state: str, twice: bool) -> None:
        self.count += 1
        run, value = self.runs[-min(back, len(self.runs))], f"v{self.count}".encode()
        kept = self._call("synchronizers/once_end", "o", run.fence, state, value, twice=twice)
        if run is not self.run:
            assert kept == 0, "only the newest run counts"
            assert self.bench.messages == []
        elif run.state == "r":
            assert kept == 1, "even if its lease is over, as long as nobody ran it again"
            run.state, run.value = state, value
            self._wakes()
        else:
            assert kept == int(run.state == state)
            assert self.bench.messages == []

    @precondition(lambda self: self.runs)
    @rule(back=st.integers(1, 2))
    def renew(self, back: int) -> None:
        run = self.runs[-min(back, len(self.runs))]
        renewal = Renewal(_KEY, "o", run.fence, _LEASE // 1000, once.SCRIPTS)
        (deadline,) = self.bench.run(grants.renew([renewal], None))
        live = run is self.run and run.state == "r" and run.deadline > self.bench.now
        assert (deadline is not None) == live
        if live:
            run.deadline = max(run.deadline, self.bench.now + _LEASE)

    @rule(known=st.sampled_from([False, False, True]), twice=st.booleans())
    def abandon(self, known: bool, twice: bool) -> None:
        self.count += 1
        others = [f"r{self.count + 1:04d}", *sorted(self.line)[:1]]
        request = self.run.request if known and self.run else others[-1]
        self._call("synchronizers/once_abandon", request, twice=twice)
        self.gone.add(request)
        self.line.discard(request)
        if self.run and self.run.request == request and self.run.state == "r":
            self.run = None
            self._wakes()
        else:
            assert self.bench.messages == []

    @rule(twice=st.booleans(), rarely=st.integers(0, 3))
    def reset(self, twice: bool, rarely: int) -> None:
        if rarely:
            return
        self.count += 1
        self._call("synchronizers/once_reset", f"z{self.count:04d}", twice=twice)
        if self.runs:
            self.resets.append(script_call("synchronizers/once_reset", _KEY, [f"z{self.count:04d}"]))
            self._wakes()
        self.run = None

    @precondition(lambda self: self.resets)
    @rule()
    def reset_sent_again(self) -> None:
        """Repeat a reset after a new run has begun."""
        self.bench.call(self.resets[-1])

    @rule(microseconds=st.sampled_from([1, SECOND, 4 * SECOND, 10 * SECOND, 40 * SECOND]))
    def wait(self, microseconds: int) -> None:
        self.bench.now += microseconds

    @precondition(lambda self: self.run and self.run.seen(self.bench.now) == "r")
    @rule(more=st.sampled_from([-1, 0, SECOND]))
    def lapse(self, more: int) -> None:
        """Move the clock to the end of the run's lease, or close to it."""
        assert self.run is not None
        self.bench.now = max(self.bench.now, self.run.deadline + more)

    @rule()
    def read(self) -> None:
        found = self.bench.run(once.state(_KEY))
        run, now = self.run, self.bench.now
        state = run.seen(now) if run else ""
        if run is None or (state != "r" and run.ends <= now):
            assert (found.state, found.owner) == ("idle", "")
        else:
            assert (_LETTERS[found.state].decode(), found.owner, found.request) == (state, "o", run.request)
            assert (found.fence, found.ends_in) == (run.fence, max(0, run.ends - now) / SECOND)
