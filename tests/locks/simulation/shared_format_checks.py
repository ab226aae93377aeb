"""Rules L1, L3 and L4 of locks in shared formats, checked on the key after every script that touched it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from locks.simulation.lock_actors import Players
from simulator.faults import MS, SECOND
from simulator.server import Command
from simulator.world import EPOCH, Broken, Step, World

KEY = "goods"
_BOUND = SECOND + 250 * MS
_ENDING = ("formats/plain_release", "formats/timestamp_release", "foreign_delete")


@dataclass(frozen=True)
class Value:
    """The key's value: its owner, its end in server time (0: no end), and the key's expiry (0: none)."""

    text: str = ""
    owner: str = ""
    ends: int = 0
    expiry: int = 0
    since: int = 0
    """True time when the owner took it."""

    def live(self, now: int) -> bool:
        """Return True if the value keeps others out at server time `now`."""
        return bool(self.owner) and (self.ends == 0 or self.ends > now)


class SharedChecker:
    """Checks every step on the key."""

    def __init__(self, world: World, players: Players, kind: str) -> None:
        self._world = world
        self._players = players
        self._kind = kind
        self._value = Value()
        self._free = 0
        """True time since the key is free."""
        self._asked: dict[str, int] = {}
        """True time when the server first received each token."""
        self.grants: int = 0

    def looks(self, script: str, keys: Sequence[str]) -> list[Command]:
        """Read the value, and when it expires in virtual time."""
        return [("GET", KEY), ("GET", f"{KEY}:ends")]

    def applied(self, step: Step) -> None:
        """Check a step."""
        before, after = self._value, self._read(step)
        self._asked.setdefault(_caller(step), step.true)
        self._value = after
        if before.owner and not before.live(step.now):
            self._free = (
                min(self._free or step.true, max(0, before.ends - EPOCH)) if not self._world.ahead else step.true
            )
            if "renew" in step.script and after.owner == before.owner and step.reply[0] and not self._world.ahead:
                raise Broken(f"L1: {step.script} revived {before}, which had ended")
        if after.owner != before.owner:
            self._changed(step, before, after)
        elif before.live(step.now) and after.ends > before.ends > 0 and _caller(step) != before.owner:
            raise Broken(f"L3: {step.script} by {_caller(step)!r} extended {before}")
        if self._ours(after) and not after.expiry:
            raise Broken(f"L4: {after} has no expiry")
        if step.script == "formats/plain_acquire" and step.reply[0] == 0 and not after.expiry:
            raise Broken(f"L4: {step.task.name} waits for {after}, which has no expiry")
        self._beliefs(step, after)

    def _ours(self, value: Value) -> bool:
        """Return True for a Lockwork value: foreign tokens begin with an f, and foreign times have no decimals."""
        return bool(value.owner) and (value.owner[0] != "f" if self._kind == "plain" else value.owner != value.text)

    def _read(self, step: Step) -> Value:
        value, expiry = step.seen
        if value is None:
            return Value()
        text, expires = value.decode(), int(expiry or 0)
        if self._kind == "plain":
            owner, ends = text, expires
        else:
            whole, _, digits = text.partition(".")
            # a time without decimals was cut to whole seconds, and lasts until the end of that second
            owner, ends = digits or text, int(whole) * SECOND + (int(digits) // 1000 if digits else SECOND)
            ends = min(ends, expires or ends)
        since = self._value.since if owner == self._value.owner else step.true
        return Value(text, owner, ends, expires, since)

    def _changed(self, step: Step, before: Value, after: Value) -> None:
        if before.live(step.now):
            ended = step.script in _ENDING and _caller(step) == before.owner
            if not ended:
                raise Broken(f"L1, L3: {step.script} {step.args} ended {before}; now {after}")
            self._free = step.true
        if after.owner:
            self.grants += 1
            self._delay(step)
            self._free = 0

    def _delay(self, step: Step) -> None:
        """Check that a waiter without faults of its own takes the free key within the bound."""
        if self._world.ahead or not self._free:
            return
        for task, asked in self._players.waiting.get(KEY, {}).items():
            since = max(self._free, self._asked.get(asked.owner, step.true))
            if task.undisturbed_since(since - 10 * SECOND) and step.true - since > _BOUND:
                raise Broken(f"L4: it lay free for {(step.true - since) / SECOND:.2f} s while {asked.owner} waited")

    def _beliefs(self, step: Step, after: Value) -> None:
        """Check that no holder relies on the lock while the key has another owner."""
        if self._world.moved_forward:
            return  # clients have measured less time than the server
        for belief in self._players.beliefs.get(KEY, ()):
            owner = belief.lease.renewal.owner
            if belief.held(step.true) and owner != after.owner:
                raise Broken(f"L1: the key holds {after} while {belief.task.name} counts on {owner!r}")

    def at_end(self) -> None:
        """Check that a remaining Lockwork value has an expiry."""
        if self._ours(self._value) and not self._value.expiry:
            raise Broken(f"L4: {self._value} is left without an expiry")


def _caller(step: Step) -> str:
    return str(step.args[1 if step.script in ("formats/plain_release", "formats/timestamp_release") else 0])
