"""Schedules: every process that declares them ticks, and the server enqueues each slot once, for the first that asks.

The server keeps a cursor per schedule, the newest slot that is dealt with. A process that finds a slot due says from
where to where the cursor moves, and which slots are enqueued for that; a script does both in one step, if the cursor
is where the caller thinks. So there is no leader, and nobody waits for anybody.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from lockwork.protocol.effects import Argument, Clock, Protocol, script_call
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.scripts import codes

TURN = 20.0
"""Seconds between two declarations. schedules/parts/schedule.lua counts on it: three are a lease."""
_SHORTEST = 0.001
"""A pause below the clock's precision would be none."""
_PATIENCE = 2.0
_DECLARED = 100
"""Schedules per call."""
_FIRED = 1000
"""Slots per call, about."""
_PAGE = 500
MOST_MISSED = 1000
"""Slots that are counted as missed when a schedule fires again."""


@dataclass(frozen=True, slots=True)
class SchedulePlan:
    """A schedule as the code has it. All times are in ms since 1970, by the server's clock."""

    name: str
    digest: str
    """Of everything else: two plans with one digest are the same."""
    timing: str
    definition: bytes
    record: bytes
    after: Callable[[int], int]
    """The first slot after a moment."""
    latest: Callable[[int, int, int], list[int]]
    """The newest slots after a moment and up to another one, limited in number, in their order."""
    catch_up: int
    """How many of the slots that are due at the same time are enqueued, the newest."""
    late_ms: int
    """How late a slot may be to be enqueued; 0: as late as it comes."""
    overlap: bool


@dataclass(slots=True)
class _WatchedPlan:
    plan: SchedulePlan
    state: int = 0
    """A code of schedules/declare; 0: unknown."""
    cursor: int = 0
    next: int = 0
    known_until: int = 0
    """The last cursor that the server had while this definition was in force; 0 if it never was."""

    @property
    def in_force(self) -> bool:
        """Whether the server has this definition."""
        return bool(self.state == codes("schedules/declare").in_force)

    @property
    def is_unknown(self) -> bool:
        """Whether the server does not know the schedule."""
        return bool(self.state == codes("schedules/declare").unknown)


class Ticker:
    """Keeps the schedules of one queue going, for one process. Take turns as long as the process lives."""

    def __init__(self, queue: QueueKeys, plans: Sequence[SchedulePlan]) -> None:
        self._queue = queue
        self._watched = [_WatchedPlan(plan) for plan in plans]
        self._joined = False
        self._declare_at = 0.0
        self._offset: float | None = None
        """The server's clock, ms, when ours is 0; never more than it really is."""

    def turn(self) -> Protocol[float | None]:
        """Do what is due; returns seconds until the next turn, None when there is nothing to do ever again."""
        now: float = yield Clock()
        if self._offset is None or now >= self._declare_at:
            kept = yield from self._declare()
            if not kept and not self._watched:
                return None
            now = yield Clock()
            self._declare_at = now + TURN
        yield from self._fire()
        if self._lost:
            # the server has lost its data: the slots that are due wait for no other turn
            yield from self._declare()
            self._declare_at = (yield Clock()) + TURN
            yield from self._fire()
        now = yield Clock()
        assert self._offset is not None
        if any(each.is_unknown for each in self._watched):
            self._declare_at = min(self._declare_at, now + 1.0)
        wakes = [(each.next - self._offset) / 1000 for each in self._watched if each.in_force]
        return max(_SHORTEST, min([self._declare_at, *wakes]) - now)

    def forget(self) -> None:
        """Declare all schedules in the next turn, because the server may have lost them."""
        self._declare_at = 0.0

    @property
    def _lost(self) -> bool:
        """Whether the server does not know a schedule that it knew."""
        return any(each.is_unknown and each.known_until for each in self._watched)

    def _declare(self) -> Protocol[int]:
        """Declare all schedules, those whole that the server does not know; returns how many it keeps."""
        whole = [each for each in self._watched if not each.in_force]
        known = [each for each in self._watched if each.in_force]
        kept = 0
        for some in _batches(known):
            kept = yield from self._declared(some, whole=False)
        # what was known until now, and is not any more
        whole += [each for each in known if not each.in_force]
        for some in _batches(whole):
            kept = yield from self._declared(some, whole=True)
        if not self._watched:
            kept = yield from self._declared([], whole=False)
        self._joined = True
        return kept

    def _declared(self, some: list[_WatchedPlan], *, whole: bool) -> Protocol[int]:
        args: list[Argument] = [int(not self._joined)]
        for each in some:
            plan = each.plan
            args += (plan.name, plan.digest, each.known_until)
            args += (plan.timing, plan.definition, plan.record) if whole else ("", b"", b"")
        call = script_call("schedules/declare", self._queue, args, _PATIENCE)
        today, kept, *found = yield call
        yield from self._heard(today)
        for at, each in enumerate(some):
            self._learn(each, found[2 * at], found[2 * at + 1])
        return int(kept)

    def _fire(self) -> Protocol[None]:
        """Let the server enqueue what is due."""
        now = yield Clock()
        assert self._offset is not None
        today = int(now * 1000 + self._offset)
        due = [each for each in self._watched if each.in_force and each.next <= today]
        for some in _firing(due, today):
            args: list[Argument] = [today]
            for each, slots in some:
                plan = each.plan
                chosen = slots[-plan.catch_up :]
                args += (plan.name, plan.digest, each.cursor, slots[-1], plan.late_ms, int(not plan.overlap))
                args += (len(slots) - len(chosen), len(chosen))
                for slot in chosen:
                    args += (slot, slot_id(plan.name, slot))
            states = codes("schedules/declare")
            reply = yield script_call("schedules/fire", self._queue, args, _PATIENCE)
            yield from self._heard(reply[0])
            for at, (each, _) in enumerate(some):
                result, cursor = reply[2 * at + 1], reply[2 * at + 2]
                lost = result == codes("schedules/fire").not_in_force
                self._learn(each, states.unknown if lost else states.in_force, cursor)

    def _heard(self, server_ms: int) -> Protocol[None]:
        now = yield Clock()
        # the answer was made before it came, so this is the server's time or a little less: nobody comes too early
        self._offset = server_ms - now * 1000

    @staticmethod
    def _learn(each: _WatchedPlan, state: int, cursor: int) -> None:
        states = codes("schedules/declare")
        if state == states.in_force and (not each.in_force or cursor != each.cursor):
            each.next = each.plan.after(cursor)
        each.state, each.cursor = state, cursor
        if state != states.unknown:
            each.known_until = cursor if state == states.in_force else 0


def _firing(due: list[_WatchedPlan], today: int) -> Iterator[list[tuple[_WatchedPlan, list[int]]]]:
    some: list[tuple[_WatchedPlan, list[int]]] = []
    count = 0
    for each in due:
        slots = each.plan.latest(each.cursor, today, each.plan.catch_up + MOST_MISSED)
        some.append((each, slots))
        count += min(len(slots), each.plan.catch_up) + 1
        if count >= _FIRED:
            yield some
            some, count = [], 0
    if some:
        yield some


def _batches(some: list[_WatchedPlan]) -> Iterator[list[_WatchedPlan]]:
    for at in range(0, len(some), _DECLARED):
        yield some[at : at + _DECLARED]


def slot_id(name: str, slot: int) -> str:
    """The id of the job of a slot, the same for every process."""
    at = datetime.fromtimestamp(slot / 1000, UTC)
    text = at.strftime("%Y-%m-%dT%H:%M:%S")
    return f"{name}@{text}.{slot % 1000:03d}Z" if slot % 1000 else f"{name}@{text}Z"


def pause(queue: QueueKeys, name: str, *, paused: bool) -> Protocol[bool]:
    """Pause a schedule, or let it go on; False when the server does not know it."""
    return bool((yield script_call("schedules/pause", queue, [name, int(paused)])))


def run_now(queue: QueueKeys, name: str, id: str, *, overlap: bool) -> Protocol[tuple[int, str]]:
    """Enqueue a job of the schedule now, with this id; return a code of schedules/run, and the id of the job."""
    code, job = yield script_call("schedules/run", queue, [name, id, int(not overlap)])
    return code, job.decode()


@dataclass(frozen=True, slots=True)
class StoredSchedule:
    """A schedule as the server has it; times are ms since 1970."""

    name: str
    declared: bool
    """Whether a living process has it in its code."""
    definition: bytes
    cursor: int
    paused: bool
    job: str
    slot: int
    enqueued: int
    overlapped: int
    missed: int


def known(queue: QueueKeys, name: str) -> Protocol[tuple[int, StoredSchedule | None]]:
    """Read one schedule, and the server's clock, ms."""
    now, *found = yield script_call("schedules/list", queue, [name, 0, 0])
    return now, _known(found) if found else None


def listed(queue: QueueKeys) -> Protocol[tuple[int, list[StoredSchedule]]]:
    """Read all schedules of a queue that living processes have in their code, in the order of their names."""
    first, found = 0, dict[str, StoredSchedule]()
    while True:
        now, *page = yield script_call("schedules/list", queue, ["", first, first + _PAGE - 1])
        rows = [_known(page[at : at + 10]) for at in range(0, len(page), 10)]
        found.update((row.name, row) for row in rows)
        first += _PAGE
        if len(rows) < _PAGE:
            return now, [found[name] for name in sorted(found) if found[name].declared]


def _known(row: Sequence[Any]) -> StoredSchedule:
    name, declared, definition, cursor, paused, job, *counts = row
    return StoredSchedule(name.decode(), bool(declared), definition, cursor, bool(paused), job.decode(), *counts)
