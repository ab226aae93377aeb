"""A plain Python model of the delay queue: popped entries, notified waiters, and the effect of repeated calls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import hypothesis.strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from lockwork.protocol import keys
from lockwork.protocol.delay_queue import delay_queue
from lockwork.protocol.delay_queue.delay_queue import DelayQueueEntry
from lockwork.protocol.effects import Call, script_call
from models.bench import CHANNEL, SECOND, Bench

_KEYS = keys.delay_queue("sim", "a")
_PLACE = 15 * SECOND
_LOOK = 5 * SECOND
_REMEMBERED = 55 * SECOND


@dataclass
class _Sent:
    """A call that changed something: its reply, its time (us), and the entries that it removed if it was a pop."""

    call: Call
    reply: Any
    at: int
    took: dict[str, int] | None = None


class DelayQueueMachine(RuleBasedStateMachine):
    """Users of a delay queue, and a clock."""

    def __init__(self, bench: Bench) -> None:
        super().__init__()
        self.bench = bench
        self.entries: dict[str, int] = {}
        self.scores: dict[str, list[int]] = {}
        """All scores that each id has had."""
        self.since: dict[str, int] = {}
        """Time (us) when each waiting pop started to wait; entries stay after the waiter was notified."""
        self.place: dict[str, int] = {}
        self.line: set[str] = set()
        self.sent: dict[str, _Sent] = {}
        self.count = 0

    # -- the model --------------------------------------------------------------------------------------------------

    def _in_order(self) -> list[str]:
        return sorted(self.entries, key=lambda entry: (self.entries[entry], entry))

    def _told(self, count: int) -> list[tuple[str, str]]:
        first = sorted(self.line, key=lambda request: (self.since[request], request))[:count]
        self.line.difference_update(first)
        return [(CHANNEL, request) for request in first]

    def _leave(self, request: str) -> bool:
        self.line.discard(request)
        self.place.pop(request, None)
        return self.since.pop(request, None) is not None

    def _new(self) -> str:
        self.count += 1
        return f"r{self.count:04d}"

    def _send(self, name: str, request: str, *args: Any, twice: bool) -> Any:
        call = script_call(name, _KEYS, [request, *args])
        self.bench.messages.clear()
        reply = self.bench.call(call)
        # a call that changed nothing may take effect when it is repeated, like a new call
        did = {
            "delay_queue/add": lambda: reply[0],
            "delay_queue/pop": lambda: reply[1:],
            "delay_queue/remove": lambda: reply,
        }.get(name)
        if did and did():
            self.sent[request] = _Sent(call, reply, self.bench.now)
        told = list(self.bench.messages)
        if twice and request in self.sent:
            assert self.bench.call(call, later=0) == reply, "a call that is sent again does nothing more"
            assert self.bench.messages == told
        return reply

    # -- rules ------------------------------------------------------------------------------------------------------

    @rule(
        ids=st.lists(st.sampled_from("abcdef"), min_size=1, max_size=4, unique=True),
        replace=st.booleans(),
        delay=st.sampled_from([0, 0, 1, 5, 30]),
        twice=st.booleans(),
    )
    def add(self, ids: list[str], replace: bool, delay: int, twice: bool) -> None:
        earliest = min(self.entries.values(), default=None)
        mode = "r" if replace else "k"
        reply = self._send("delay_queue/add", self._new(), mode, "", delay * SECOND, *ids, twice=twice)
        due = self.bench.now + delay * SECOND
        new = [id for id in ids if id not in self.entries or replace]
        self.entries.update(dict.fromkeys(new, due))
        for id in new:
            self.scores.setdefault(id, [7]).append(due)
        assert reply == [len(new), due]
        if not new:
            assert self.bench.messages == []
        elif not delay:
            assert self.bench.messages == self._told(len(new)), "as many are told as there is something for"
        else:
            sooner = earliest is None or due < earliest
            assert self.bench.messages == self._told(int(sooner)), "the first is told of what is due sooner"

    @rule(count=st.integers(1, 3), waits=st.booleans(), twice=st.booleans(), data=st.data())
    def pop(self, count: int, waits: bool, twice: bool, data: st.DataObject) -> None:
        request = data.draw(st.sampled_from([self._new(), *sorted(self.since)]))
        self._pop(request, count, waits, twice)

    @rule(crowd=st.integers(2, 4))
    def crowd(self, crowd: int) -> None:
        """Pop everything that is due, and then let several callers wait."""
        self._pop(self._new(), 9, waits=False, twice=False)
        for _ in range(crowd):
            self._pop(self._new(), 1, waits=True, twice=False)

    def _pop(self, request: str, count: int, waits: bool, twice: bool) -> None:
        look, *found = self._send("delay_queue/pop", request, count, CHANNEL if waits else "", twice=twice)
        due = [id for id in self._in_order() if self.entries[id] <= self.bench.now][:count]
        took = {id: self.entries.pop(id) for id in due}
        assert found == [part for id in due for part in (id.encode(), took[id])]
        left = self._in_order()
        if took or not waits:
            if took:
                self.sent[request].took = took
            goes_on = bool(left) and (self._leave(request) or self.entries[left[0]] <= self.bench.now)
            self._leave(request)
            assert self.bench.messages == self._told(int(goes_on)), "somebody watches over what comes next"
            return
        assert self.bench.messages == []
        self.since.setdefault(request, self.bench.now)
        self.place[request] = self.bench.now + _PLACE
        self.line.add(request)
        for ahead in sorted(self.line, key=lambda request: (self.since[request], request))[:3]:
            if self.place[ahead] <= self.bench.now:
                self._leave(ahead)
        rank = sorted(self.line, key=lambda request: (self.since[request], request)).index(request)
        wanted = _LOOK
        if left and rank <= 2:
            wanted = min(_LOOK, self.entries[left[0]] - self.bench.now + rank * 50_000)
        assert look == wanted

    @precondition(lambda self: self.since or any(sent.took for sent in self.sent.values()))
    @rule(data=st.data())
    def abandon(self, data: st.DataObject) -> None:
        recent = [id for id, sent in self.sent.items() if sent.took and self._fresh(sent)]
        if not (recent or self.since):
            return
        request = data.draw(st.sampled_from(sorted({*recent, *self.since})))
        back = self._send("delay_queue/abandon", request, twice=False)
        sent = self.sent.pop(request, None)
        took = (sent.took or {}) if sent and self._fresh(sent) else {}
        returned = {id: due for id, due in took.items() if id not in self.entries}
        self.entries.update(returned)
        assert back == len(returned)
        stood = self._leave(request)
        tell = max(1, back) if self.entries and (stood or back) else 0
        assert self.bench.messages == self._told(tell)
        late = script_call("delay_queue/pop", _KEYS, [request, 3, CHANNEL])
        assert self.bench.call(late) == [0], "an abandoned pop takes nothing"

    @rule(id=st.sampled_from("abcdef"), unless_moved=st.booleans(), back=st.integers(1, 2), twice=st.booleans())
    def remove(self, id: str, unless_moved: bool, back: int, twice: bool) -> None:
        score = self.scores.get(id, [7, 7])[-back] if unless_moved else ""
        reply = self._send("delay_queue/remove", self._new(), id, score, twice=twice)
        there = id in self.entries and (not unless_moved or self.entries[id] == score)
        assert reply == int(there)
        if there:
            del self.entries[id]

    @rule(twice=st.booleans(), rarely=st.integers(0, 2))
    def clear(self, twice: bool, rarely: int) -> None:
        if not rarely:
            assert self._send("delay_queue/remove", self._new(), twice=twice) == len(self.entries)
            self.entries.clear()

    @precondition(lambda self: self.sent)
    @rule(data=st.data())
    def sent_again(self, data: st.DataObject) -> None:
        """Repeat an earlier call after other calls."""
        recent = [request for request, sent in self.sent.items() if self._fresh(sent)]
        if recent:
            sent = self.sent[data.draw(st.sampled_from(recent[-6:]))]
            assert self.bench.call(sent.call) == sent.reply

    def _fresh(self, sent: _Sent) -> bool:
        return sent.at > self.bench.now - _REMEMBERED

    @rule(microseconds=st.sampled_from([1, SECOND, 5 * SECOND, 20 * SECOND, 45 * SECOND]))
    def wait(self, microseconds: int) -> None:
        self.bench.now += microseconds

    @rule(count=st.integers(1, 7), due=st.booleans())
    def read(self, count: int, due: bool) -> None:
        found = self.bench.run(delay_queue.peek(_KEYS, count, due=due))
        wanted = [id for id in self._in_order() if not due or self.entries[id] <= self.bench.now]
        assert found == [DelayQueueEntry(id, self.entries[id]) for id in wanted[:count]]
        assert self.bench.run(delay_queue.count(_KEYS)) == len(self.entries)
