"""Schedules: every process that declares them has a ticker; the server enqueues each slot once, for the first caller.

The server stores a cursor per schedule: the newest slot that was processed. A process that finds a due slot sends the
cursor that it knows, the new cursor, and the slots to enqueue. If the stored cursor is the same, a script moves it and
enqueues the jobs in one step. So there is no leader, and no process waits for another.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct

from lockwork.logs import Log
from lockwork.protocol.effects import Argument, Clock, Protocol, script_call
from lockwork.protocol.keys import QueueKeys, channel
from lockwork.protocol.schedules.created import NEVER, CreatedSchedules, DueSchedule, ReadRules, SlotRules
from lockwork.protocol.scripts import codes

log: Log = Log("lockwork.worker")

TURN = 20.0
"""Seconds between two declarations. schedules/parts/schedule.lua depends on it: a lease is three of them."""
_SHORTEST = 0.001
"""Shortest pause in seconds; a shorter pause would be below the clock's precision."""
_PATIENCE = 2.0
_DECLARED = 100
"""Number of schedules per call."""
_FIRED = 1000
"""Approximate number of slots per call."""
_PAGE = 500
MOST_MISSED = 1000
"""Limit of slots that count as missed when a schedule fires again."""


class SchedulePlan(Struct, frozen=True):
    """A schedule in the code, or one to create."""

    name: str
    digest: str
    """Digest of all other fields: two plans with the same digest are equal."""
    timing: str
    definition: bytes
    record: bytes
    rules: SlotRules
    begin: int = 0
    """Where its cursor begins when it is created (ms); 0: at present."""


class _WatchedPlan(Struct):
    plan: SchedulePlan
    state: int = 0
    """A code of schedules/declare: in_force; replaced: the server has another definition; or unknown."""
    cursor: int = 0
    next: int = 0
    known_until: int = 0
    """Last cursor on the server while this definition was in force; 0 if it never was."""

    @property
    def in_force(self) -> bool:
        """Whether the server has this definition."""
        return bool(self.state == codes("schedules/declare").in_force)

    @property
    def is_unknown(self) -> bool:
        """Whether the server does not know the schedule."""
        return bool(self.state == codes("schedules/declare").unknown)


class Ticker:
    """The ticker of one queue's schedules in one process. Call `turn` repeatedly while the process lives.

    read: reads the definitions of created schedules; None: this ticker fires only its plans.
    """

    def __init__(self, queue: QueueKeys, plans: Sequence[SchedulePlan], read: ReadRules | None = None) -> None:
        self._queue = queue
        self._watched = [_WatchedPlan(plan) for plan in plans]
        self._created = None if read is None else CreatedSchedules(queue, read)
        self._joined = False
        self._declare_at = 0.0
        self._offset: float | None = None
        """The server's clock (ms) when the client's is 0; never more than the true value."""

    def turn(self) -> Protocol[float | None]:
        """Enqueue due slots and declare schedules.

        Return seconds until the next turn; None if no turn is needed until `look` or `forget`.
        """
        now: float = yield Clock()
        if self._offset is None or now >= self._declare_at:
            stored_count = yield from self._declare()
            if not stored_count and not self._watched and not (self._created and self._created.count):
                self._declare_at = 0.0
                return None
            now = yield Clock()
            self._declare_at = now + TURN
        yield from self._fire()
        if self._lost:
            # the server has lost its data: declare again at once, because due slots must not wait for another turn
            yield from self._declare()
            self._declare_at = (yield Clock()) + TURN
            yield from self._fire()
        if self._created is not None:
            yield from self._fire_created(self._created)
        now = yield Clock()
        assert self._offset is not None
        if any(each.is_unknown for each in self._watched):
            self._declare_at = min(self._declare_at, now + 1.0)
        wakes = [(each.next - self._offset) / 1000 for each in self._watched if each.in_force]
        if self._created is not None:
            wakes.append((self._created.look_at - self._offset) / 1000)
        return max(_SHORTEST, min([self._declare_at, *wakes]) - now)

    def look(self) -> None:
        """Look at the created schedules in the next turn, because one has changed."""
        if self._created is not None:
            self._created.look()

    def forget(self) -> None:
        """Declare all schedules in the next turn, because the server may have lost them."""
        self._declare_at = 0.0

    @property
    def _lost(self) -> bool:
        """True if a schedule has disappeared from the server."""
        return any(each.is_unknown and each.known_until for each in self._watched)

    def _declare(self) -> Protocol[int]:
        """Declare all schedules, with full definitions if the server lacks them; return how many it stores."""
        whole = [each for each in self._watched if not each.in_force]
        plans_in_force = [each for each in self._watched if each.in_force]
        stored_count = 0
        for some in _batches(plans_in_force):
            stored_count = yield from self._declared(some, whole=False)
        # schedules that the server had, and no longer has
        whole += [each for each in plans_in_force if not each.in_force]
        for some in _batches(whole):
            stored_count = yield from self._declared(some, whole=True)
        if not self._watched:
            stored_count = yield from self._declared([], whole=False)
        self._joined = True
        return stored_count

    def _declared(self, some: list[_WatchedPlan], *, whole: bool) -> Protocol[int]:
        args: list[Argument] = [int(not self._joined)]
        for each in some:
            plan = each.plan
            args += (plan.name, plan.digest, each.known_until)
            args += (plan.timing, plan.definition, plan.record) if whole else ("", b"", b"")
        call = script_call("schedules/declare", self._queue, args, _PATIENCE)
        today, stored_count, created_count, *fields = yield call
        yield from self._heard(today)
        if self._created is not None:
            self._created.count = created_count
            if created_count:
                self._created.look()
        for at, each in enumerate(some):
            self._learn(each, fields[2 * at], fields[2 * at + 1])
        return int(stored_count)

    def _fire(self) -> Protocol[None]:
        """Enqueue the due slots."""
        now = yield Clock()
        assert self._offset is not None
        today = int(now * 1000 + self._offset)
        due = [each for each in self._watched if each.in_force and each.next <= today]
        for some in _firing(due, today):
            args: list[Argument] = [today]
            for each, slots in some:
                plan = each.plan
                args += _fired(DueSchedule(plan.name, plan.digest, each.cursor, plan.rules), slots, "")
            states = codes("schedules/declare")
            reply = yield script_call("schedules/fire", self._queue, args, _PATIENCE)
            yield from self._heard(reply[0])
            for at, (each, _) in enumerate(some):
                result, cursor = reply[2 * at + 1], reply[2 * at + 2]
                lost = result == codes("schedules/fire").not_in_force
                self._learn(each, states.unknown if lost else states.in_force, cursor)

    def _fire_created(self, created: CreatedSchedules) -> Protocol[None]:
        """Enqueue the due slots of one page of created schedules; look in the next turn if there may be more."""
        now = yield Clock()
        assert self._offset is not None
        if created.look_at > now * 1000 + self._offset:
            return
        page = yield from created.due(_PATIENCE)
        yield from self._heard(page.at_ms)
        today = page.at_ms
        some, count = list[Argument](), 0
        for schedule in page.schedules:
            slots = schedule.rules.latest(schedule.cursor, today, schedule.rules.catch_up + MOST_MISSED)
            next_look = schedule.rules.after(slots[-1] if slots else schedule.cursor)
            some += _fired(schedule, slots, 0 if next_look >= NEVER else next_look)
            count += len(slots) + 1
            if count >= _FIRED:
                yield script_call("schedules/fire", self._queue, [today, *some], _PATIENCE)
                some, count = [], 0
        if some:
            yield script_call("schedules/fire", self._queue, [today, *some], _PATIENCE)
        if page.schedules:
            # others may have become due; a change that found these due has sent no message
            created.look()

    def _heard(self, server_ms: int) -> Protocol[None]:
        now = yield Clock()
        # the server read its clock before its reply arrived, so this is its time or slightly less: no process fires
        # early
        self._offset = server_ms - now * 1000

    @staticmethod
    def _learn(each: _WatchedPlan, state: int, cursor: int) -> None:
        states = codes("schedules/declare")
        if state == states.in_force and (not each.in_force or cursor != each.cursor):
            each.next = each.plan.rules.after(cursor)
        if state == states.taken and each.state != state:
            name = each.plan.name
            log.warning(
                "schedule %r of the code does not fire, because one of this name was created at run time: rename it, "
                "or delete the other with lw.schedule(%r, queue=...).delete()",
                name, name,
            )  # fmt: skip
        each.state, each.cursor = state, cursor
        if state != states.unknown:
            each.known_until = cursor if state == states.in_force else 0


def _firing(due: list[_WatchedPlan], today: int) -> Iterator[list[tuple[_WatchedPlan, list[int]]]]:
    some: list[tuple[_WatchedPlan, list[int]]] = []
    count = 0
    for each in due:
        rules = each.plan.rules
        slots = rules.latest(each.cursor, today, rules.catch_up + MOST_MISSED)
        some.append((each, slots))
        count += min(len(slots), rules.catch_up) + 1
        if count >= _FIRED:
            yield some
            some, count = [], 0
    if some:
        yield some


def _fired(schedule: DueSchedule, slots: list[int], next_look: int | str) -> list[Argument]:
    """Return the arguments of schedules/fire for a schedule."""
    name, rules = schedule.name, schedule.rules
    chosen = slots[-rules.catch_up :]
    upto = slots[-1] if slots else schedule.cursor
    args: list[Argument] = [name, schedule.digest, schedule.cursor, upto, rules.late_ms, int(not rules.overlap)]
    args += (len(slots) - len(chosen), len(chosen), next_look)
    for slot in chosen:
        args += (slot, slot_id(name, slot))
    return args


def _batches(some: list[_WatchedPlan]) -> Iterator[list[_WatchedPlan]]:
    for at in range(0, len(some), _DECLARED):
        yield some[at : at + _DECLARED]


def slot_id(name: str, slot: int) -> str:
    """Return the id of a slot's job, which is identical in every process."""
    at = datetime.fromtimestamp(slot / 1000, UTC)
    text = at.strftime("%Y-%m-%dT%H:%M:%S")
    return f"{name}@{text}.{slot % 1000:03d}Z" if slot % 1000 else f"{name}@{text}Z"


def pause(queue: QueueKeys, name: str, *, paused: bool) -> Protocol[bool]:
    """Pause or resume a schedule; return False when the server does not have it."""
    args: list[Argument] = [name, int(paused), channel(queue.prefix, "")]
    return bool((yield script_call("schedules/pause", queue, args)))


def run_now(queue: QueueKeys, name: str, id: str, *, overlap: bool) -> Protocol[tuple[int, str]]:
    """Enqueue its job now, as job `id`.

    Return a code of schedules/run: started, and the id; overlaps, and the id of the unended job that prevents it; or
    unknown.
    """
    code, job = yield script_call("schedules/run", queue, [name, id, int(not overlap)])
    return code, job.decode()


class StoredSchedule(Struct, frozen=True):
    """A stored schedule; times are ms since 1970."""

    name: str
    declared: bool
    """True if a live process declares it, or it was created at run time."""
    created: bool
    """True if it was created at run time."""
    definition: bytes
    cursor: int
    paused: bool
    job: str
    slot: int
    enqueued: int
    overlapped: int
    missed: int


def known(queue: QueueKeys, name: str) -> Protocol[tuple[int, StoredSchedule | None]]:
    """Read the server's clock (ms), and one schedule."""
    now, _, *fields = yield script_call("schedules/list", queue, [name, 0, 0])
    return now, _known(fields) if fields else None


def listed(queue: QueueKeys, limit: int | None = None) -> Protocol[tuple[int, list[StoredSchedule]]]:
    """Read the server's clock (ms), and by name the schedules that live processes declare or that were created.

    limit: return only the first.
    """
    first, by_name = 0, dict[str, StoredSchedule]()
    while True:
        now, created_count, *page = yield script_call("schedules/list", queue, ["", first, first + _PAGE - 1])
        rows = _rows(page)
        by_name.update((row.name, row) for row in rows)
        first += _PAGE
        if len(rows) < _PAGE:
            break
    after, more, read = "", created_count > 0, 0
    while more and (limit is None or read < limit):
        now, last, *page = yield script_call("schedules/list_created", queue, [after, _PAGE])
        by_name.update((row.name, row) for row in _rows(page))
        after, more, read = last.decode(), bool(last), read + _PAGE
    return now, [by_name[name] for name in sorted(by_name) if by_name[name].declared][:limit]


def _rows(page: Sequence[Any]) -> list[StoredSchedule]:
    return [_known(page[at : at + 10]) for at in range(0, len(page), 10)]


def _known(row: Sequence[Any]) -> StoredSchedule:
    name, kind, definition, cursor, paused, job, *counts = row
    return StoredSchedule(name.decode(), bool(kind), kind == 2, definition, cursor, bool(paused), job.decode(), *counts)
