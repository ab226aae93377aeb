"""Rules L1 to L4 of locks, checked on a lock's fields after every script that touched it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from locks.simulation.lock_actors import Players
from simulator.faults import MS, SECOND
from simulator.process import NEVER, Task
from simulator.server import Command
from simulator.world import EPOCH, Broken, Step, World

_BOUND = SECOND
LONGEST = 20 * SECOND
"""The longest lease in these runs."""
_LOOK = 5 * SECOND
"""Time until a waiter checks again after a lost wake-up."""
_SLACK = 250 * MS
"""Latencies of the call that a waiter's timer starts."""


@dataclass(frozen=True)
class Held:
    """The grant in a lock's hash."""

    owner: str = ""
    request: str = ""
    fence: int = 0
    deadline: int = 0
    length: int = 0
    """Time from the setting of the deadline to the deadline, us."""

    def live(self, now: int) -> bool:
        """Return True if the grant keeps others out at server time `now`."""
        return bool(self.owner) and self.deadline > now


@dataclass
class _Seen:
    held: Held = field(default_factory=Held)
    fence: int = 0
    ended: int = 0
    """True time of the newest grant's release. Without a release, its deadline counts."""
    asked: dict[tuple[Task, str], int] = field(default_factory=dict)
    """True time when the server first received each waiter's request."""
    handed: dict[str, int] = field(default_factory=dict)
    """Number of grants to each dead process by calls of others, since that process's last own call."""


class LockChecker:
    """Checks every step on a lock."""

    asks_all = True
    """True if an acquiring call updates all of its locks."""

    def __init__(self, world: World, players: Players) -> None:
        self._world = world
        self._players = players
        self._locks: dict[str, _Seen] = {}
        self.grants: int = 0

    def held(self, key: str) -> Held:
        """Return the grant of a lock after the last step."""
        return self._locks[key].held if key in self._locks else Held()

    def looks(self, script: str, keys: Sequence[str]) -> list[Command]:
        """Read the lock and its expiry."""
        return [command for key in keys for command in (("HGETALL", key), ("PTTL", key))]

    def applied(self, step: Step) -> None:
        """Check the locks of a step."""
        for at, key in enumerate(step.keys):
            fields, expiry = step.seen[2 * at], step.seen[2 * at + 1]
            seen = self._locks.setdefault(key, _Seen())
            before, after = seen.held, _held(fields)
            if step.script == "locks/renew":
                caller = (str(step.args[3 * at]), "", int(step.args[3 * at + 1]))
            elif step.script == "locks/release":
                caller = (str(step.args[1]), "", int(step.args[2]))
            else:
                caller = (str(step.args[0]), str(step.args[1]), 0)
            if after.fence != before.fence or (after.owner, after.request) != (before.owner, before.request):
                self._changed(step, key, before, after, caller)
            elif after.deadline != before.deadline:
                self._moved(step, before, after, caller)
            if fields:
                self._lasts(step, at, expiry, before, after)
            seen.held = after
            if after.live(step.now):
                grant, lasts = (key, after.owner, after.fence), step.true + after.deadline - step.now
                self._players.given[grant] = max(lasts, self._players.given.get(grant, 0))
            if step.script == "locks/acquire":
                seen.handed.pop(step.task.process.name, None)
            if step.script == "locks/acquire" and step.args[4] == 1:
                seen.asked.setdefault((step.task, str(step.args[1])), step.true)

    def _lasts(self, step: Step, at: int, expiry: int, before: Held, after: Held) -> None:
        """Check that the grant ends within its lease, and that the key expires, but after its lease and its fence."""
        key = step.keys[at]
        if expiry <= 0:
            raise Broken(f"L4: {key} has no expiry")
        # PTTL counts real time: after a step of the virtual clock it is valid only if this script has set it
        told = (after.fence, after.request) != (before.fence, before.request) or self._world.stepped == NEVER
        if told and after.live(step.now) and expiry < (after.deadline - step.now) // 1000:
            raise Broken(f"L4: {key} would go before its lease ends")
        if told and expiry < (after.fence - step.now) // 1000:
            raise Broken(f"L2: {key} would forget its fence {after.fence} before the clock has passed it")
        looked = (step.script == "locks/acquire" and self.asks_all) or (step.script == "locks/renew" and step.reply[at])
        if looked and after.live(step.now) and after.deadline - step.now > min(after.length, LONGEST):
            raise Broken(f"L4: {key} is kept from everybody for longer than a lease: {after} at {step.now}")

    def _changed(self, step: Step, key: str, before: Held, after: Held, caller: tuple[str, str, int]) -> None:
        seen = self._locks[key]
        if before.live(step.now) and not _may_end(step.script, before, caller):
            raise Broken(f"L1, L3: {step.script} by {caller} ended the live grant {before}; now {after}")
        if before.live(step.now):
            seen.ended = step.true
        if not after.owner:
            return
        if after.fence <= seen.fence:
            raise Broken(f"L2: fence {after.fence} of {after} after {seen.fence}")
        seen.fence = after.fence
        self.grants += 1
        self._beliefs(step, key, after)
        self._delay(step, key, before)
        self._dead(step, key, after)

    def _dead(self, step: Step, key: str, after: Held) -> None:
        """Check that a dead process gets the lock only once: its unclaimed grant marks all of its waiters."""
        handed, name = self._locks[key].handed, after.owner.partition("/")[0]
        holder = next((process for process in self._world.processes if process.name == name), None)
        if step.task.process is holder:
            handed.pop(name, None)
        elif holder is not None and not holder.alive:
            handed[name] = handed.get(name, 0) + 1
            if handed[name] > 1:
                raise Broken(f"L4: {key} was handed to the dead {name} {handed[name]} times")

    def _moved(self, step: Step, before: Held, after: Held, caller: tuple[str, str, int]) -> None:
        owner, request, fence = caller
        if after.deadline > before.deadline:
            known = fence == before.fence if step.script == "locks/renew" else request == before.request
            if owner != before.owner or not known or step.script not in ("locks/renew", "locks/acquire"):
                raise Broken(f"L3: {step.script} by {caller} extended {before}")
            if not before.live(step.now):
                raise Broken(f"L1: {step.script} revived {before}, which had ended")
        elif before.live(step.now):
            if before.deadline > step.now + before.length and after.deadline >= step.now + before.length:
                return  # the clock was set back, and the script cut the rest of the lease to one lease
            if not _may_end(step.script, before, caller):
                raise Broken(f"L3: {step.script} by {caller} shortened {before}")
            self._locks[str(step.keys[0])].ended = step.true

    def _beliefs(self, step: Step, key: str, after: Held) -> None:
        """Check that no other holder relies on the lock when the server grants it."""
        if step.true - self._world.jumped <= LONGEST:
            return  # the clock jumped ahead of the holders; by LONGEST they have renewed their leases or lost them
        for belief in self._players.beliefs.get(key, ()):
            if belief.held(step.true) and belief.fence != after.fence:
                raise Broken(f"L1: {after} was granted while {belief.task.name} counts on fence {belief.fence}")

    def _delay(self, step: Step, key: str, before: Held) -> None:
        """Check that a waiter without faults of its own gets a free lock within the bound."""
        seen = self._locks[key]
        if self._world.stepped > NEVER:
            return
        ended = min(seen.ended, step.true) if seen.ended else 0
        if before.owner and before.deadline and not before.live(step.now):
            ended = max(0, before.deadline - EPOCH)
        seen.ended = 0
        for (task, request), asked in seen.asked.items():
            current = self._players.waiting.get(key, {}).get(task)
            since = max(asked, ended)
            patient = current is not None and current.request == request and task.undisturbed_since(since - 10 * SECOND)
            bound = _BOUND if task.process.unheard < since - 10 * SECOND else _BOUND + _LOOK
            if patient and step.true - since > bound + _SLACK:
                raise Broken(
                    f"L4: {key} lay free for {(step.true - since) / SECOND:.2f} s while {task.name} waited ({request})"
                )

    def at_end(self) -> None:
        """Check that every remaining lock has an expiry."""
        for key in self._locks:
            if self._world.server.command("PTTL", key) == -1:
                raise Broken(f"L4: {key} is left without an expiry")


def _held(fields: dict[bytes, bytes]) -> Held:
    return Held(
        fields.get(b"o", b"").decode(),
        fields.get(b"r", b"").decode(),
        int(fields.get(b"f", 0)),
        int(fields.get(b"d", 0)),
        int(fields.get(b"l", 0)) * 1000,
    )


def _may_end(script: str, held: Held, caller: tuple[str, str, int]) -> bool:
    owner, request, fence = caller
    if owner != held.owner:
        return False
    if script == "locks/release":
        return fence == held.fence
    # an owner that acquires again never received its earlier grant; abandoning a request ends only its own grant
    return script == "locks/acquire" or (script == "locks/abandon" and request == held.request)
