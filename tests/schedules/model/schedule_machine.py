"""A plain Python model of schedules: the definition in use, the cursor, and the enqueued jobs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import hypothesis.strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from lockwork.protocol.effects import script_call
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.schedules import schedules
from models.bench import SECOND, Bench

_QUEUE = QueueKeys("sim", "a")
_TURN, _LEASE, _KEPT = 20_000, 60_000, 86_400_000
_NAMES = st.sampled_from("ab")
_VERSIONS = st.sampled_from([("v1", "every 2"), ("v2", "every 2"), ("v3", "every 3")])


@dataclass
class _Entry:
    digest: str
    timing: str
    cursor: int
    paused: int = 0
    job: str = ""
    slot: int = 0
    enqueued: int = 0
    overlapped: int = 0
    missed: int = 0
    seen: int = 0
    record: str = ""
    cursors: list[int] = field(default_factory=list)
    """Earlier cursors, which a ticker may still send."""


class ScheduleMachine(RuleBasedStateMachine):
    """Tickers, operators, workers and a clock."""

    def __init__(self, bench: Bench) -> None:
        super().__init__()
        self.bench = bench
        self.entries: dict[str, _Entry] = {}
        self.lived = 0
        self.read: int | None = None
        self.unended: list[str] = []
        """Jobs that wait or run, the oldest first."""
        self.ended: set[str] = set()
        self.dead: set[str] = set()
        self.count = 0

    def _call(self, name: str, *args: Any, twice: bool = False) -> Any:
        call = script_call(name, _QUEUE, args)
        reply = self.bench.call(call)
        if twice:
            again = self.bench.call(call, later=0)
            if name in ("schedules/run", "schedules/pause"):
                assert again == reply, "a call that is sent again does nothing more"
        self._same()
        return reply

    @property
    def today(self) -> int:
        return self.bench.now // 1000

    def _same(self) -> None:
        """Read the order of the ready jobs."""
        ready = [id.decode() for id in self.bench._server.command("LRANGE", _QUEUE.ready[1], 0, -1)]
        self.told = ready

    @rule(name=_NAMES, version=_VERSIONS, joins=st.booleans(), whole=st.booleans(), twice=st.booleans())
    def declare(self, name: str, version: tuple[str, str], joins: bool, whole: bool, twice: bool) -> None:
        self._declare(name, version, joins=joins, whole=whole, twice=twice)

    def _declare(self, name: str, version: tuple[str, str], *, joins: bool, whole: bool, twice: bool) -> None:
        digest, timing = version
        definition = (timing, f"definition {digest}", f"1,4,,;{digest}") if whole else ("", "", "")
        reply = self._call("schedules/declare", int(joins), name, digest, 0, *definition, twice=twice)
        now = self.today
        self.lived += max(0, min(now - (now if self.read is None else self.read), _TURN))
        self.read = now
        entry = self.entries.get(name)
        state = 0
        if entry and entry.digest == digest:
            state = 1
        elif entry and self.lived - entry.seen < _LEASE and not (joins and whole):
            state = 2
        elif whole:
            state = 1
            if entry is None:
                entry = self.entries[name] = _Entry(digest, timing, now)
            if entry.timing != timing:
                entry.cursor = max(entry.cursor, now)
            entry.digest, entry.timing, entry.record = digest, timing, f"1,4,,;{digest}"
        if state == 1:
            assert entry is not None
            entry.seen = self.lived
        cursor = entry.cursor if entry else 0
        for known, each in list(self.entries.items()):
            if each.seen <= self.lived - _KEPT:
                del self.entries[known]
        if not self.entries:
            self.lived, self.read = 0, None
        assert reply == [now, len(self.entries), 0, state, cursor]

    @rule(
        name=_NAMES,
        other=st.sampled_from([None, None, None, "v2"]),
        back=st.sampled_from([0, 0, 0, 1]),
        ahead=st.sampled_from([-1, 0, 0, 0, 1]),
        late=st.sampled_from([0, 0, 3000]),
        alone=st.booleans(),
        asof=st.sampled_from([0, 0, 4900, 5001]),
        count=st.integers(1, 3),
        twice=st.booleans(),
    )
    def fire(
        self,
        name: str,
        other: str | None,
        back: int,
        ahead: int,
        late: int,
        alone: bool,
        asof: int,
        count: int,
        twice: bool,
    ) -> None:
        entry = self.entries.get(name)
        digest, timing = (other or entry.digest, entry.timing) if entry else ("v1", "every 2")
        now, cursor = self.today, entry.cursor if entry else 0
        if entry and back and entry.cursors:
            cursor = entry.cursors[-1]
        step = int(timing[-1]) * 1000
        upto = now // step * step + (ahead * step if ahead >= 0 else -step)
        slots = [slot for slot in range(upto - (count - 1) * step, upto + 1, step) if slot > cursor] or [upto]
        args: list[Any] = [now - asof, name, digest, cursor, upto, late, int(alone), count - 1, len(slots), ""]
        for slot in slots:
            args += (slot, schedules.slot_id(name, slot))
        self.bench.now = now * 1000 - 1
        reply = self._call("schedules/fire", *args, twice=twice)
        code = 0
        if entry and entry.digest == digest:
            code = 1
            if entry.cursor != cursor:
                code = 2
            elif asof > 5000 or upto > now or upto <= entry.cursor:
                code = 3
        if code == 1:
            assert entry is not None
            entry.missed += 0 if entry.paused else count - 1
            for slot in slots:
                self._slot(entry, name, slot, late, alone, now)
            entry.cursors.append(entry.cursor)
            entry.cursor = upto
        assert reply == [now, code, entry.cursor if entry else 0]
        assert self.told == self.unended, "exactly the jobs of the slots, in their order"

    def _slot(self, entry: _Entry, name: str, slot: int, late: int, alone: bool, now: int) -> None:
        if entry.paused:
            return
        if late and now - slot > late:
            entry.missed += 1
            return
        if alone and entry.job in self.unended:
            entry.overlapped += 1
            return
        id = schedules.slot_id(name, slot)
        if id not in self.unended and id not in self.ended and id not in self.dead:
            self.unended.append(id)
        entry.job, entry.slot, entry.enqueued = id, slot, entry.enqueued + 1

    @rule(name=_NAMES, paused=st.booleans(), twice=st.booleans())
    def pause(self, name: str, paused: bool, twice: bool) -> None:
        entry = self.entries.get(name)
        reply = self._call("schedules/pause", name, int(paused), "", twice=twice)
        assert reply == int(entry is not None)
        if entry and entry.paused != paused:
            entry.paused = int(paused)
            if not paused:
                entry.cursor = max(entry.cursor, self.today)

    @rule(name=_NAMES, alone=st.booleans(), twice=st.booleans())
    def run_now(self, name: str, alone: bool, twice: bool) -> None:
        self.count += 1
        entry, id = self.entries.get(name), f"{name}@n{self.count}"
        reply = self._call("schedules/run", name, id, int(alone), twice=twice)
        if entry is None:
            assert reply == [0, b""]
        elif alone and entry.job in self.unended:
            assert reply == [2, entry.job.encode()]
        else:
            assert reply == [1, id.encode()]
            self.unended.append(id)
            entry.job, entry.enqueued = id, entry.enqueued + 1
            assert self.bench._server.command("HGET", _QUEUE.jobs, id) == entry.record.encode()
        assert self.told == self.unended

    @rule(dies=st.booleans())
    def end(self, dies: bool) -> None:
        """The oldest job succeeds or dies."""
        if not self.unended:
            return
        id, server = self.unended.pop(0), self.bench._server
        server.command("LPOP", _QUEUE.ready[1])
        if dies:
            server.command("ZADD", _QUEUE.dead, 1, id)
            self.dead.add(id)
        else:
            server.command("HDEL", _QUEUE.jobs, id)
            server.command("HSET", _QUEUE.results[0], id, "s")
            self.ended.add(id)

    @rule(ms=st.sampled_from([1, 1000, 5000, 20_000, 61_000, 100_000_000]))
    def wait(self, ms: int) -> None:
        self.bench.now += ms * 1000

    @rule(name=_NAMES, version=_VERSIONS, minutes=st.sampled_from([1, 2, 1445]))
    def stand(self, name: str, version: tuple[str, str], minutes: int) -> None:
        """One process declares its schedule for `minutes`; this moves the clock that decides when other declarations
        expire.
        """
        for _ in range(minutes * 3 if minutes < 5 else 3):
            self.bench.now += 20 * SECOND
            self._declare(name, version, joins=False, whole=True, twice=False)
        if minutes > 5 and self.entries:
            # skip the rest of a day in one step, by setting the clock on the server forward
            more = minutes * 60_000
            self.bench._server.command("HINCRBY", _QUEUE.schedules, "l", more)
            self.lived += more

    @rule()
    def look(self) -> None:
        now, known = self.bench.run(schedules.listed(_QUEUE))
        assert now == self.today
        living = {name: entry for name, entry in self.entries.items() if self.lived - entry.seen < _LEASE}
        assert [each.name for each in known] == sorted(living)
        for name, entry in self.entries.items():
            _, found = self.bench.run(schedules.known(_QUEUE, name))
            assert found is not None
            assert found.declared == (name in living)
            assert found.definition == f"definition {entry.digest}".encode()
            assert (found.cursor, found.paused, found.job) == (entry.cursor, bool(entry.paused), entry.job)
            assert (found.slot, found.enqueued) == (entry.slot, entry.enqueued)
            assert (found.overlapped, found.missed) == (entry.overlapped, entry.missed)
        if not self.entries:
            assert self.bench._server.command("EXISTS", _QUEUE.schedules, _QUEUE.seen) == 0, "nothing is left"
