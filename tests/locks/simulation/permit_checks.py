"""Rules of permits, checked on the fields of their hash after every script that touched it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import msgspec

from locks.simulation.lock_checks import LONGEST
from simulator.faults import MS, SECOND
from simulator.process import NEVER, Process
from simulator.server import Command
from simulator.world import EPOCH, Broken, Step, World

if TYPE_CHECKING:
    from locks.simulation.permits import Takers

_BOUND = SECOND
_LOOK = 5 * SECOND
_LATE = 400 * MS
"""Maximum delay of an unsubscribed waiter's check, as CHECK_DELAY_MS in receivers.lua."""
_SLACK = 250 * MS


@dataclass(frozen=True)
class Held:
    """One grant in the hash."""

    deadline: int
    owner: str
    request: str
    units: int


@dataclass(frozen=True)
class Waiting:
    """One waiter in the hash."""

    ticket: int
    deadline: int
    request: str
    units: int
    owner: str = ""
    promise: int = 0
    """Server time until it may get units although its process is not subscribed; 0 if it was subscribed at its call."""


@dataclass
class PermitsState:
    """The parsed hash."""

    used: int = 0
    head: int = 1
    """Waiters with a lower ticket were skipped."""
    holders: dict[int, Held] = field(default_factory=dict)
    line: list[Waiting] = field(default_factory=list)


def read_state(fields: dict[bytes, bytes]) -> PermitsState:
    """Parse the hash; raises Broken if it contradicts itself."""
    found, heap, places, requests, tickets = PermitsState(), {}, {}, {}, {}
    for name, value in ((name.decode(), value) for name, value in fields.items()):
        if re.fullmatch(r"g\d+", name):
            deadline, owner, request, units, *_ = msgspec.msgpack.decode(value)
            found.holders[int(name[1:])] = Held(deadline, owner, request, units)
        elif re.fullmatch(r"w\d+", name):
            deadline, _, request, owner, _, looks, _, units, _, unsubscribed = msgspec.msgpack.decode(value)
            promise = looks + _LATE if unsubscribed else 0
            found.line.append(Waiting(int(name[1:]), deadline, request, units, owner, promise))
        elif name[0] == "p":
            heap[int(name[1:])] = tuple(map(int, value.split()))
        elif name[0] == "x":
            places[int(name[1:])] = int(value)
        elif name[0] == "r":
            requests[name[1:]] = int(value)
        elif name[0] == "i":
            tickets[name[1:]] = int(value)
    found.line.sort(key=lambda waiting: waiting.ticket)
    found.used, found.head = int(fields.get(b"u", 0)), int(fields.get(b"h", 1))
    whole = {
        "units in use": found.used == sum(held.units for held in found.holders.values()),
        "count": int(fields.get(b"k", 0)) == len(found.holders),
        "requests": requests == {held.request: fence for fence, held in found.holders.items()},
        "tickets": tickets == {waiting.request: waiting.ticket for waiting in found.line},
        "heap": places == {fence: at for at, (_, fence) in heap.items()}
        and sorted(heap) == list(range(1, len(found.holders) + 1))
        and set(places) == set(found.holders),
        "order": all(heap[at // 2][0] <= heap[at][0] for at in heap if at > 1 and at // 2 in heap),
        "keys": all(key <= found.holders[fence].deadline for key, fence in heap.values() if fence in found.holders),
        "line": all(_bottom(fields) <= waiting.ticket <= int(fields[b"t"]) for waiting in found.line)
        and len(found.line) == int(fields.get(b"m", 0)),
    }
    if wrong := [what for what, fine in whole.items() if not fine]:
        raise Broken(f"L9: the books contradict themselves ({', '.join(wrong)}): {fields}")
    return found


def _bottom(fields: dict[bytes, bytes]) -> int:
    return int(fields.get(b"b", fields[b"h"]))


class PermitChecker:
    """Checks every step."""

    def __init__(self, world: World, takers: Takers) -> None:
        self._world = world
        self._takers = takers
        self._before = PermitsState()
        self._fence = 0
        self._asked: dict[str, int] = {}
        self._handed: dict[int, tuple[Process, int]] = {}
        """Unclaimed grants by fence: the process that got the units, and the deadline."""
        self._silent: set[Process] = set()
        """Processes that have let a grant lapse unclaimed, and not called since."""
        self._passed_over: set[str] = set()
        """Requests that were skipped because their process was not subscribed, and have not called since."""
        self.grants: int = 0
        self.together: int = 0
        """Maximum number of holders at the same time."""

    def looks(self, script: str, keys: Sequence[str]) -> list[Command]:
        """Read the hash and its expiry."""
        return [("HGETALL", keys[0]), ("PTTL", keys[0])]

    def applied(self, step: Step) -> None:
        """Check a step."""
        before, after = self._before, read_state(step.seen[0])
        # the hash stores a clock, which continues when the server's clock is set back
        clock = step.seen[0]
        if b"c" in clock:
            ahead = max(int(clock[b"z"]), int(clock[b"c"]) - step.now)
            step = replace(step, now=step.now + ahead)
        self._unclaimed(step, after)
        self._pass_over(step, after)
        self._delay(step, before)
        for fence, held in before.holders.items():
            self._kept(step, fence, held, after.holders.get(fence))
        for fence, held in after.holders.items():
            grant, lasts = (self._takers.key, held.owner, fence), step.true + held.deadline - step.now
            self._takers.given[grant] = max(lasts, self._takers.given.get(grant, 0))
        new = {fence: held for fence, held in after.holders.items() if fence not in before.holders}
        for fence, held in sorted(new.items()):
            if fence <= self._fence:
                raise Broken(f"L2: fence {fence} of {held} after {self._fence}")
            self._fence = fence
            self._in_order(step, held, before, after)
            if held.request != step.args[1]:
                self._hand(fence, held)
        self.grants += len(new)
        self.together = max(self.together, len(after.holders))
        if after.used > self._takers.capacity:
            raise Broken(f"L8, L9: {after.used} of {self._takers.capacity} units in use: {after.holders}")
        if new:
            self._beliefs(step, after)
        self._line(step, before, after)
        self._expiry(step, after)
        if step.script == "permits/acquire" and step.args[4] == 1:
            self._asked.setdefault(str(step.args[1]), step.true)
        self._before = after

    def _kept(self, step: Step, fence: int, held: Held, now: Held | None) -> None:
        live = held.deadline > step.now
        name, args = step.script, [str(arg) for arg in step.args]
        if now is None:
            mine = (name == "permits/release" and args[1:3] == [held.owner, str(fence)]) or (
                name == "permits/abandon" and args[:2] == [held.owner, held.request]
            )
            if live and not mine:
                raise Broken(f"L3: {name} by {args[:3]} ended the live {held}")
            return
        if name == "permits/acquire":
            known = args[:2] == [held.owner, held.request]
        elif name == "permits/renew":
            known = [held.owner, str(fence)] in [args[at : at + 2] for at in range(0, len(args), 3)]
        else:
            known = args[:2] == [held.owner, str(fence)]
        if now.deadline != held.deadline and not (
            known and live and now.deadline > held.deadline and name in ("permits/renew", "permits/acquire")
        ):
            raise Broken(f"L1, L3: {name} by {args[:3]} made {now} of {held}")
        if now.units != held.units and not (known and live and now.units < held.units and name == "permits/downgrade"):
            raise Broken(f"L3: {name} by {args[:3]} made {now} of {held}")

    def _in_order(self, step: Step, held: Held, before: PermitsState, after: PermitsState) -> None:
        ticket = next((waiting.ticket for waiting in before.line if waiting.request == held.request), 1 << 60)
        passed = [
            waiting
            for waiting in after.line
            if waiting.ticket < ticket
            and waiting.deadline > step.now
            and self._is_there(waiting, step.now)
            and waiting.request not in self._passed_over
        ]
        if passed:
            raise Broken(f"L7: {held} was granted before {passed[0]}")

    def _hand(self, fence: int, held: Held) -> None:
        process = self._process(held.owner)
        if process is not None:
            if process in self._silent and not process.alive:
                raise Broken(f"L4: {held} was handed to the dead {process.name}, which had left others unclaimed")
            self._handed[fence] = process, held.deadline

    def _unclaimed(self, step: Step, after: PermitsState) -> None:
        """Mark processes that let a grant lapse unclaimed as silent, until their next call."""
        for fence, (process, deadline) in list(self._handed.items()):
            if fence not in after.holders and deadline <= step.now:
                self._silent.add(process)
            if fence not in after.holders or after.holders[fence].deadline != deadline:
                del self._handed[fence]
        self._silent.discard(step.task.process)

    def _pass_over(self, step: Step, after: PermitsState) -> None:
        """Check that only requests of processes that seem dead are skipped, and only until their next call."""
        for waiting in after.line:
            if waiting.ticket >= after.head:
                self._passed_over.discard(waiting.request)
            elif waiting.request not in self._passed_over:
                if waiting.deadline > step.now and self._is_there(waiting, step.now):
                    raise Broken(f"L7: {step.script} passed over {waiting}")
                self._passed_over.add(waiting.request)

    def _process(self, owner: str) -> Process | None:
        name = owner.partition(":")[0]
        return next((process for process in self._world.processes if process.name == name), None)

    def _is_there(self, waiting: Waiting, now: int) -> bool:
        """Return True if the server may assume that the waiter's process lives."""
        process = self._process(waiting.owner)
        if process is None or process in self._silent:
            return False
        return process.listens or waiting.promise > now

    def _line(self, step: Step, before: PermitsState, after: PermitsState) -> None:
        there = {waiting.request for waiting in after.line} | {held.request for held in after.holders.values()}
        if step.script == "permits/abandon" and step.args[1] in there:
            raise Broken(f"L6: {step.args[1]} was withdrawn, and is still there")
        for waiting in before.line:
            gave_up = str(step.args[1]) == waiting.request
            if waiting.deadline > step.now and waiting.request not in there and not gave_up:
                raise Broken(f"L7: {step.script} took {waiting} out of the line")

    def _beliefs(self, step: Step, after: PermitsState) -> None:
        """Check that no holder relies on units that the server grants to another."""
        if step.true - self._world.jumped <= LONGEST:
            return  # the clock jumped ahead of the holders; by LONGEST they have renewed their leases or lost them
        total = after.used
        for belief in self._takers.believed:
            if belief.held(step.true) and belief.fence not in after.holders:
                total += belief.units
        if total > self._takers.capacity:
            raise Broken(f"L8, L9: granted while others count on {total - after.used} units that they have lost")

    def _delay(self, step: Step, before: PermitsState) -> None:
        """Check that the first waiter gets its units within the bound when they are free."""
        if self._world.stepped > NEVER:
            return
        first = 0
        for waiting in before.line:
            task, _ = self._takers.asking.get(waiting.request, (None, 0))
            free = _fits(before, waiting, self._takers.capacity)
            since = max(first, free, self._asked.get(waiting.request, step.true), EPOCH) - EPOCH
            since = max(since, self._asked.get(waiting.request, step.true))
            if task is not None and task.undisturbed_since(since - 10 * SECOND):
                bound = _BOUND if task.process.unheard < since - 10 * SECOND else _BOUND + _LOOK
                if step.true - since > bound + _SLACK:
                    raise Broken(f"L4, L8: {waiting} waited for {(step.true - since) / SECOND:.2f} s for free units")
            first = max(first, waiting.deadline)

    def _expiry(self, step: Step, after: PermitsState) -> None:
        expiry = step.seen[1]
        if step.seen[0] and expiry <= 0:
            raise Broken("L4: a key without an expiry")
        deadlines = [held.deadline for held in after.holders.values()] + [waiting.deadline for waiting in after.line]
        if deadlines and expiry < (max(deadlines) - step.now) // 1000:
            raise Broken("L4: the key would go before its last lease ends")

    def at_end(self) -> None:
        """Check that all units are free an hour later."""
        world, every = self._world, self._takers.capacity
        later = world.server_now + 3600 * SECOND
        args = ("end", "end", 1000, 1000, 0, "sim:wake:end", every, every)
        reply = world.server.run(world.build.script("permits/acquire"), [self._takers.key], args, later).reply
        if reply[0] != 1:
            raise Broken("L9: an hour later not all units had come back")


def _fits(before: PermitsState, waiting: Waiting, capacity: int) -> int:
    """Return the server time when enough units are free, by the holders' deadlines; 0 if they are free already."""
    used, at = before.used, 0
    for held in sorted(before.holders.values(), key=lambda held: held.deadline):
        if used + waiting.units <= capacity:
            break
        used, at = used - held.units, held.deadline
    return at
