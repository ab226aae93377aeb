"""A plain Python model of schedules that are created at run time, beside schedules in code with the same names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import hypothesis.strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from lockwork.protocol.effects import script_call
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.schedules import schedules
from models.bench import CHANNEL, SECOND, Bench

_QUEUE = QueueKeys("sim", "a")
_LEASE = 60_000
_TURN = 20_000
_DECLARED, _CREATED, _CHANGED, _UNCHANGED = range(4)
_UNKNOWN, _DELETED = 0, 1
_NAMES = st.sampled_from("ab")
_VERSIONS = st.sampled_from([("v1", "every 2"), ("v2", "every 2"), ("v3", "every 3")])
_MOMENT = "at"


@dataclass
class _Entry:
    digest: str
    timing: str
    cursor: int
    look: int | None
    """None while it is paused."""
    job: str = ""
    slot: int = 0
    enqueued: int = 0
    overlapped: int = 0
    missed: int = 0
    before: int = 0
    """An earlier cursor, which a worker may still send."""

    @property
    def record(self) -> str:
        return f"1,4,,;{self.digest}"


class CreatedMachine(RuleBasedStateMachine):
    """Users who create, pause and delete schedules, workers that fire them, and a process with schedules in code."""

    def __init__(self, bench: Bench) -> None:
        super().__init__()
        self.bench = bench
        self.entries: dict[str, _Entry] = {}
        self.code: dict[str, int] = {}
        """Schedules in code, by the clock of declarations at their last declaration."""
        self.lived = 0
        self.read: int | None = None
        self.jobs: list[str] = []
        self.ever: set[str] = set()
        self.changes = 0
        self.bench._server.command("ZADD", _QUEUE.workers, 9 * 10**15, CHANNEL)

    @property
    def today(self) -> int:
        return self.bench.now // 1000

    def _call(self, name: str, *args: Any, twice: bool = False) -> Any:
        self.bench.messages.clear()
        call = script_call(name, _QUEUE, args)
        reply = self.bench.call(call)
        if twice:
            again = self.bench.call(call.again(), later=0)
            if name == "schedules/delete":
                assert again == (reply or _DELETED) or self._live(str(args[1])), "a repeated deletion changes nothing"
        assert self.bench.list(_QUEUE.ready[1]) == self.jobs or name == "schedules/fire"
        return reply

    def _live(self, name: str) -> bool:
        return name in self.code and self.lived - self.code[name] < _LEASE

    def _changed(self, entry: _Entry) -> None:
        """A schedule must be looked at now; workers receive a message unless they look anyway."""
        now = self.today
        looking = any(each.look is not None and now - 1000 <= each.look <= now for each in self.entries.values())
        entry.look = now
        self.changes += 1
        assert bool(self.bench.messages) == (not looking), "the workers are told"
        assert all(channel == CHANNEL for channel, _ in self.bench.messages)

    @rule(name=_NAMES, version=_VERSIONS, moment=st.booleans(), ahead=st.integers(1, 4), twice=st.booleans())
    def create(self, name: str, version: tuple[str, str], moment: bool, ahead: int, twice: bool) -> None:
        digest, timing = version
        begin = 0
        if moment:
            at = self.today + ahead * 1000
            digest, timing, begin = f"{_MOMENT} {at}", f"{_MOMENT} {at}", at - 1
        definition = f"definition {digest}"
        reply = self._call(
            "schedules/create", name, digest, timing, definition, f"1,4,,;{digest}", begin, "", twice=twice
        )
        now, entry = self.today, self.entries.get(name)
        if entry is None and self._live(name):
            assert reply == _DECLARED
            return
        if entry is not None and entry.digest == digest:
            assert reply == _UNCHANGED
            return
        assert reply == (_CREATED if entry is None else _CHANGED)
        new = _Entry(digest, timing, begin or now, now)
        if entry is not None:
            cursor = entry.cursor if entry.timing == timing else begin or max(entry.cursor, now)
            entry.digest, entry.timing, entry.cursor = digest, timing, cursor
        else:
            self.code.pop(name, None)
        if entry is None or entry.look is not None:
            self._changed(entry or new)
        self.entries.setdefault(name, new)

    @rule(name=_NAMES, twice=st.booleans())
    def delete(self, name: str, twice: bool) -> None:
        reply = self._call("schedules/delete", 0, name, twice=twice)
        if self.entries.pop(name, None) is not None:
            assert reply == _DELETED
        else:
            assert reply == (2 if self._live(name) else _UNKNOWN)

    @rule(name=_NAMES, paused=st.booleans(), twice=st.booleans())
    def pause(self, name: str, paused: bool, twice: bool) -> None:
        reply = self._call("schedules/pause", name, int(paused), "", twice=twice)
        entry = self.entries.get(name)
        assert reply == int(entry is not None or name in self.code)
        if entry is None or (entry.look is None) == paused:
            return
        if paused:
            entry.look = None
        else:
            entry.cursor = max(entry.cursor, self.today)
            self._changed(entry)

    @rule(
        name=_NAMES,
        other=st.sampled_from([None, None, None, "v2"]),
        back=st.booleans(),
        ahead=st.sampled_from([0, 0, 0, 1, -1]),
        alone=st.booleans(),
        asof=st.sampled_from([0, 0, 5001]),
        count=st.integers(0, 3),
        ends=st.booleans(),
        twice=st.booleans(),
    )
    def fire(
        self, name: str, other: str | None, back: bool, ahead: int, alone: bool, asof: int, count: int, ends: bool,
        twice: bool,
    ) -> None:  # fmt: skip
        entry = self.entries.get(name)
        digest = other or (entry.digest if entry else "v1")
        cursor = 0 if entry is None else entry.before if back and entry.before else entry.cursor
        now = self.today
        upto = cursor + ahead if count == 0 else now // 1000 * 1000 + ahead * 1000
        slots = [slot for slot in range(upto - (count - 1) * 1000, upto + 1, 1000) if slot > cursor] if count else []
        following = 0 if ends else now + 1500
        args: list[Any] = [now - asof, name, digest, cursor, upto, 0, int(alone), 0, len(slots), following]
        for slot in slots:
            args += (slot, schedules.slot_id(name, slot))
        self.bench.now = now * 1000 - 1
        reply = self._call("schedules/fire", *args, twice=twice)
        if entry is None or entry.digest != digest or entry.look is None:
            code = 0
        elif entry.cursor != cursor:
            code = 2
        elif asof > 5000 or upto > max(now, entry.cursor) or upto < entry.cursor:
            code = 3
        else:
            code = 1
        if entry is not None and code == 1:
            for slot in slots:
                self._slot(entry, name, slot, alone)
            if upto != entry.cursor:
                entry.before = entry.cursor
            entry.cursor, entry.look = upto, following
            if ends:
                del self.entries[name]
        assert reply == [now, code, entry.cursor if entry else 0]
        assert self.bench.list(_QUEUE.ready[1]) == self.jobs, "exactly the jobs of the slots, in their order"

    def _slot(self, entry: _Entry, name: str, slot: int, alone: bool) -> None:
        if alone and entry.job in self.jobs:
            entry.overlapped += 1
            return
        id = schedules.slot_id(name, slot)
        if id not in self.ever:
            self.jobs.append(id)
            self.ever.add(id)
        entry.job, entry.slot, entry.enqueued = id, slot, entry.enqueued + 1

    @rule(name=_NAMES)
    def run_now(self, name: str) -> None:
        id = f"{name}@n{len(self.ever)}"
        reply = self._call_run(name, id)
        entry = self.entries.get(name)
        assert reply == ([1, id.encode()] if entry or name in self.code else [0, b""])
        if entry:
            entry.job, entry.enqueued = id, entry.enqueued + 1
            assert self.bench._server.command("HGET", _QUEUE.jobs, id) == entry.record.encode()
        if reply[0]:
            self.jobs.append(id)
            self.ever.add(id)

    def _call_run(self, name: str, id: str) -> Any:
        return self.bench.call(script_call("schedules/run", _QUEUE, [name, id, 0]))

    @rule()
    def end(self) -> None:
        """The oldest job succeeds."""
        if self.jobs:
            id, server = self.jobs.pop(0), self.bench._server
            server.command("LPOP", _QUEUE.ready[1])
            server.command("HDEL", _QUEUE.jobs, id)
            server.command("HSET", _QUEUE.results[0], id, "s")

    @rule(ms=st.sampled_from([1, 400, 1000, 2000, 21_000]))
    def wait(self, ms: int) -> None:
        self.bench.now += ms * 1000

    @rule(name=_NAMES, times=st.sampled_from([1, 4]))
    def declare(self, name: str, times: int) -> None:
        """A process declares a schedule of this name, or for a while another one."""
        for _ in range(times):
            chosen = name if times == 1 else "c"
            reply = self._call("schedules/declare", 1, chosen, "v9", 0, "every 7", "{}", "1,4,,;v9")
            now = self.today
            self.lived += max(0, min(now - (now if self.read is None else self.read), _TURN))
            self.read = now
            if chosen not in self.entries:
                self.code[chosen] = self.lived
            assert reply[:4] == [now, len(self.code), len(self.entries), 3 if chosen in self.entries else 1]
            if times > 1:
                self.bench.now += 21 * SECOND
        if not self.code:
            self.lived, self.read = 0, None

    @rule()
    def look(self) -> None:
        now, listed = self.bench.run(schedules.listed(_QUEUE))
        assert now == self.today
        living = {name for name in self.code if self._live(name)}
        assert [each.name for each in listed] == sorted(self.entries.keys() | living)
        assert {each.name for each in listed if each.created} == self.entries.keys()
        for each in listed:
            if (entry := self.entries.get(each.name)) is not None:
                assert each.definition == f"definition {entry.digest}".encode()
                assert (each.cursor, each.paused, each.job) == (entry.cursor, entry.look is None, entry.job)
                assert (each.slot, each.enqueued) == (entry.slot, entry.enqueued)
                assert (each.overlapped, each.missed) == (entry.overlapped, entry.missed)
        self._due()
        changes = self.bench._server.command("HGET", _QUEUE.stats, "schedules")
        assert int(changes or 0) == self.changes, "heartbeats show each change"
        if not self.entries:
            keys = (_QUEUE.created, _QUEUE.looks, _QUEUE.created_names)
            assert self.bench._server.command("EXISTS", *keys) == 0, "nothing is left"

    def _due(self) -> None:
        now, count, following, *rows = self.bench.call(script_call("schedules/due", _QUEUE, [0, 500]))
        looks = {name: entry.look for name, entry in self.entries.items() if entry.look is not None}
        due = sorted((look, name) for name, look in looks.items() if look <= now)
        assert [name.decode() for name in rows[::4]] == [name for _, name in due]
        assert rows[2::4] == [self.entries[name].cursor for _, name in due]
        assert count == len(self.entries)
        assert following == min((look for look in looks.values() if look > now), default=-1)
