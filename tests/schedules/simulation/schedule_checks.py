"""Rule Q8 of schedules: each slot is enqueued once, never early, and missed only as its policy says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from lockwork.protocol.schedules.schedules import MOST_MISSED, SchedulePlan, slot_id
from simulator.faults import SECOND
from simulator.process import Task
from simulator.server import Command
from simulator.world import Broken, Step, World

_LEASE = 60 * SECOND
_SLACK = 5 * SECOND
"""Allowance for steps of the server's clock, us."""


@dataclass
class Book:
    """The expected state of a schedule."""

    digest: str
    timing: str
    cursor: int
    paused: int = 0
    job: str = ""
    slot: int = 0
    enqueued: int = 0
    overlapped: int = 0
    missed: int = 0
    declared: int = field(default=0, compare=False)
    """Server time of the last declaration, us."""

    def state(self) -> list[Any]:
        """Return the state in the server's format."""
        return list(vars(self).values())[:-1]


@dataclass
class ScheduleChecker:
    """Checks every step against the expected states. plans: every plan, by its digest."""

    world: World
    plans: dict[str, SchedulePlan]
    kept: int
    """Time without a declaration until a schedule may be deleted, us."""
    jobs_key: str
    books: dict[str, Book] = field(default_factory=dict)
    jobs: set[str] = field(default_factory=set)
    """Ids of jobs that wait or run."""
    ever: set[str] = field(default_factory=set)
    repeatable: set[str] = field(default_factory=set)
    """Jobs from before a loss of data, which the server may enqueue again."""
    lost: set[str] = field(default_factory=set)
    """Schedules that the server has lost. A process that knew one declares it again with its last cursor."""

    def lose(self) -> None:
        """Delete all schedules, like a server that restarts without its data."""
        base = self.jobs_key.removesuffix("jobs")
        self.world.server.command("DEL", f"{base}schedules", f"{base}schedules:seen")
        self.repeatable |= self.ever
        self.lost |= self.books.keys()
        self.books.clear()

    def looks(self, script: str, keys: Sequence[str]) -> list[Command]:
        """Read all keys of schedules, and the job ids."""
        base = self.jobs_key.removesuffix("jobs")
        return [("HGETALL", f"{base}schedules"), ("HKEYS", self.jobs_key), ("ZCARD", f"{base}schedules:seen")]

    def applied(self, step: Step) -> None:
        """Check a step."""
        stored, ids, _ = step.seen
        found = {key[1:].decode(): value for key, value in stored.items() if key[:1] == b"s"}
        states = {name: msgspec.msgpack.decode(value) for name, value in found.items()}
        now_there = {id.decode() for id in ids}
        new = now_there - self.jobs
        if twice := (new & self.ever) - self.repeatable:
            raise Broken(f"{twice} was enqueued twice")
        wanted: set[str] = set()
        if step.script.startswith("schedules/"):
            wanted = getattr(self, f"_{step.script.partition('/')[2]}")(step, states) or set()
        elif states.keys() != self.books.keys():
            raise Broken(f"{step.script} touched the schedules")
        if new - self.repeatable != wanted - self.repeatable:
            raise Broken(f"{step.script} enqueued {sorted(new)}, not {sorted(wanted)}")
        self.jobs = now_there
        self.ever |= new
        if {name: book.state() for name, book in self.books.items()} != states:
            raise Broken(f"{step.script}: it is {states}, not {self.books}")

    def _fire(self, step: Step, states: dict[str, Any]) -> set[str]:
        today, wanted, at = step.now // 1000, set[str](), 1
        while at < len(step.args):
            name, count = str(step.args[at]), int(step.args[at + 7])
            book = self.books.get(name)
            moved = name in states and book is not None and states[name][2] != book.cursor
            if moved and book is not None:
                wanted |= self._fired(book, name, states[name][2], today)
            at += 9 + 2 * count
        return wanted

    def _fired(self, book: Book, name: str, cursor: int, today: int) -> set[str]:
        plan = self.plans[book.digest]
        if cursor < book.cursor:
            raise Broken(f"the cursor of {name} goes back")
        if cursor > today:
            raise Broken(f"a slot of {name} comes {cursor - today} ms early")
        if plan.rules.after(cursor) < today - _SLACK // 1000 - 100:
            raise Broken(f"{name} was fired by somebody who was late, and newer slots were due")
        wanted = set[str]()
        slots = plan.rules.latest(book.cursor, cursor, plan.rules.catch_up + MOST_MISSED)
        book.missed += 0 if book.paused else max(0, len(slots) - plan.rules.catch_up)
        for slot in slots[-plan.rules.catch_up :]:
            if book.paused:
                continue
            if plan.rules.late_ms and today - slot > plan.rules.late_ms:
                book.missed += 1
                continue
            if not plan.rules.overlap and (book.job in self.jobs or book.job in wanted):
                book.overlapped += 1
                continue
            id = slot_id(name, slot)
            wanted.add(id)
            book.job, book.slot, book.enqueued = id, slot, book.enqueued + 1
        book.cursor = cursor
        return wanted

    def _declare(self, step: Step, states: dict[str, Any]) -> None:
        today = step.now // 1000
        for at in range(1, len(step.args), 6):
            name, digest = str(step.args[at]), str(step.args[at + 1])
            book, state = self.books.get(name), states.get(name)
            if book is None:
                known_until = int(step.args[at + 2])
                if known_until and name not in self.lost:
                    raise Broken(f"{step.task.name} knows {name} before anybody has declared it")
                if state is not None:
                    cursor = min(known_until, today) if known_until else today
                    self.books[name] = Book(digest, self.plans[digest].timing, cursor, declared=step.now)
                continue
            if book.digest == digest:
                book.declared = step.now
            elif state is not None and state[0] == digest:
                if not step.args[0] and step.now - book.declared < _LEASE - _SLACK:
                    raise Broken(f"another definition of {name} is in force, and {step.task.name} took its place")
                plan = self.plans[digest]
                if plan.timing != book.timing:
                    book.cursor = max(book.cursor, today)
                book.digest, book.timing, book.declared = digest, plan.timing, step.now
        self._forget(step, states)

    def _forget(self, step: Step, states: dict[str, Any]) -> None:
        for name in self.books.keys() - states.keys():
            if step.now - self.books[name].declared < self.kept - _SLACK:
                raise Broken(f"{name} was forgotten too soon")
            del self.books[name]
        if not self.books and step.seen[0]:
            raise Broken(f"there is no schedule, and this is left: {step.seen[0]}")

    def _pause(self, step: Step, states: dict[str, Any]) -> None:
        name, paused = str(step.args[0]), int(step.args[1])
        book = self.books.get(name)
        if bool(step.reply) != (book is not None):
            raise Broken(f"{name} was to be paused, and the answer is {step.reply}")
        if book is not None and book.paused != paused:
            book.paused = paused
            if not paused:
                book.cursor = max(book.cursor, step.now // 1000)

    def _run(self, step: Step, states: dict[str, Any]) -> set[str]:
        name, id, alone = str(step.args[0]), str(step.args[1]), bool(step.args[2])
        book = self.books.get(name)
        if book is None or book.job == id or id in self.ever or (alone and book.job in self.jobs):
            return set()
        book.job, book.enqueued = id, book.enqueued + 1
        return {id}

    def due(self, name: str) -> int:
        """Return the delay of a schedule's next slot, us; negative if the slot is not due yet."""
        book = self.books[name]
        return self.world.server_now - self.plans[book.digest].rules.after(book.cursor) * 1000

    def watch(self, tickers: dict[Task, Any], bound: int) -> None:
        """Check that no ticker sleeps while a slot is due."""
        for name, book in self.books.items():
            late = self.due(name)
            late = min(late, self.world.now - self.world.stepped)  # a clock step may have made the slot due
            if late <= bound:
                continue
            for task, ticker in tickers.items():
                mine = {
                    each.plan.name for each in ticker._watched if each.state == 1 and each.plan.digest == book.digest
                }
                if name in mine and task.undisturbed_since(self.world.now - late - 6 * SECOND) and not task.calling:
                    raise Broken(f"{task.name} sleeps, and {name} is due for {late / SECOND:.2f} s")
