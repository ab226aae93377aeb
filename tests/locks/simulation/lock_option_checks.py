"""Rules besides L1 to L4 for locks that are sticky, exported, force-released, or held for a minimum time."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from locks.simulation.lock_actors import Belief
from locks.simulation.lock_checks import LONGEST, Held, LockChecker
from simulator.faults import MS, SECOND
from simulator.process import Process
from simulator.world import EPOCH, Broken, Step, World

if TYPE_CHECKING:
    from locks.simulation.lock_options import Veterans

_SOON = SECOND
"""Maximum time to release an idle sticky lock after a request, and to notice a forced release, us."""


class LockOptionChecker(LockChecker):
    """Checks every step, as the plain lock's checker does."""

    def __init__(self, world: World, players: Veterans) -> None:
        super().__init__(world, players)
        self._veterans = players
        self._asked: dict[tuple[str, int], int] = {}
        """True time of the first refused request for an idle sticky lock, by key and fence."""
        self._least: dict[str, int] = {}
        """True time when a released lock's minimum time ends, us; until then the lock must stay taken."""

    @staticmethod
    def alone(world: World, belief: Belief, others: Sequence[Belief], forced: Container[int]) -> None:
        """Check that no other task relies on the lock when one begins to."""
        for other in others:
            if world.moved_forward or other.fence in forced or belief.fence in forced:
                continue
            if belief.held(world.now) and other.held(world.now):
                raise Broken(f"L1: {belief.task.name} uses fence {belief.fence}, and {other.task.name} {other.fence}")

    def applied(self, step: Step) -> None:
        """Check a step."""
        key = str(step.keys[0])
        before = self._locks[key].held if key in self._locks else Held()
        if step.script == "locks/force" and before.live(step.now) and before.fence == step.args[1]:
            self._veterans.forced.setdefault(before.fence, step.true)
        super().applied(self._as_known(step))
        after = self._locks[key].held if key in self._locks else Held()
        self._minimum(step, key, before, after)
        if step.script == "locks/adopt" and step.reply[0] and after.fence != step.reply[0]:
            raise Broken(f"L6: {step.args[1]!r} was told of fence {step.reply[0]}, and there is {after}")
        self._kept(step, key, after)
        self._told(step, key)

    def _as_known(self, step: Step) -> Step:
        """Translate a step for the plain checker, for example a forced release into one by the holder."""
        if step.script == "locks/force":
            held = self._locks[str(step.keys[0])].held if str(step.keys[0]) in self._locks else Held()
            return replace(step, script="locks/release", args=(0, held.owner, step.args[1]))
        if step.script == "locks/adopt":
            key = str(step.keys[0])
            held = self._locks[key].held if key in self._locks else Held()
            if (held.owner, held.request) == (step.args[0], step.args[1]):
                return replace(step, script="locks/acquire", args=(step.args[0], step.args[1], 0, 0, 0))
            return replace(step, script="locks/release", args=(0, *step.args[3:5]))
        if step.script == "locks/state":
            return replace(step, args=("", ""))
        if step.script == "locks/renew" and len(set(step.keys)) < len(step.keys):
            return self._without_doubles(step)
        return step

    def _without_doubles(self, step: Step) -> Step:
        """Keep one grant per lock if a renewal has two: the live one, because only that can be renewed."""
        chosen: dict[str, int] = {}
        for at, key in enumerate(map(str, step.keys)):
            if key not in chosen or self._locks[key].held.fence == step.args[3 * at + 1]:
                chosen[key] = at
        return replace(
            step,
            keys=list(chosen),
            args=[part for at in chosen.values() for part in step.args[3 * at : 3 * at + 3]],
            seen=[part for at in chosen.values() for part in step.seen[2 * at : 2 * at + 2]],
        )

    def _beliefs(self, step: Step, key: str, after: Held) -> None:
        # the holder learns of a forced release only later; `_told` checks the delay
        kept = self._veterans.beliefs.get(key, [])
        self._veterans.beliefs[key] = [one for one in kept if one.fence not in self._veterans.forced]
        try:
            super()._beliefs(step, key, after)
        finally:
            self._veterans.beliefs[key] = kept

    def _minimum(self, step: Step, key: str, before: Held, after: Held) -> None:
        until = self._least.get(key, 0)
        if step.script == "locks/force" and before.fence == step.args[1]:
            self._least.pop(key, None)
        elif until > step.true > self._world.jumped + LONGEST and after.owner and after.fence != before.fence:
            raise Broken(
                f"at_least: {key} was granted {(until - step.true) / SECOND:.2f} s before its minimum was over"
            )
        elif after.owner:
            self._least.pop(key, None)  # the minimum is over, even if the clock is set back later
        ended = (step.args[1], step.args[2]) == (before.owner, before.fence) if len(step.args) > 3 else False
        if step.script == "locks/release" and ended and before.live(step.now):
            self._least[key] = step.true + int(step.args[3]) * 1000
            # the lock becomes free after its minimum
            self._locks[key].ended = step.true + int(step.args[3]) * 1000

    def _delay(self, step: Step, key: str, before: Held) -> None:
        if not before.owner and before.deadline > 0:
            self._locks[key].ended = max(self._locks[key].ended, before.deadline - EPOCH)
        super()._delay(step, key, before)

    def _kept(self, step: Step, key: str, after: Held) -> None:
        """Check that a process releases an idle sticky lock soon after a request for it."""
        found = self._veterans.idle.get(key)
        if found is None or found[1] != after.fence or not after.live(step.now):
            return
        process, fence, since = found
        asked = self._asked.get((key, fence))
        late = 0 if asked is None else step.true - max(asked, since)
        if late > _SOON + 250 * MS and self._unhindered(process, min(asked or 0, since)):
            raise Broken(f"{process.name} keeps {key} unused {late / SECOND:.2f} s after it was asked for")
        if step.script == "locks/acquire" and step.reply[0] == 0:
            self._asked.setdefault((key, fence), step.true)

    def _told(self, step: Step, key: str) -> None:
        """Check that a holder soon notices a forced release."""
        for belief in self._veterans.beliefs.get(key, ()):
            at = self._veterans.forced.get(belief.fence)
            process = belief.task.process
            if at is None or not belief.held(step.true) or step.true - at <= _SOON + 250 * MS:
                continue
            # after a fault in its own call, the holder may have received its grant late
            if self._unhindered(process, at) and belief.task.undisturbed_since(at - 10 * SECOND):
                raise Broken(f"L5: {belief.task.name} was not told that {key} was taken away")

    def _unhindered(self, process: Process, since: int) -> bool:
        engine = [task for task in self._world.tasks if task.process is process and task.background]
        start = since - 10 * SECOND
        return process.unheard < start and all(task.undisturbed_since(start) for task in engine)
