"""Rules of whole queues: no job begins in a pause, and the limits hold for jobs that begin, run or wait.

The checker reads the limits from the scripts that set them, in the server's order, and counts independently.
"""

from __future__ import annotations

from collections.abc import Sequence

from lockwork.protocol.effects import Argument
from queues.simulation.queue_actors import Plant
from queues.simulation.queue_checks import QueueChecker
from queues.simulation.queue_view import View
from simulator.world import Broken, Step, World

_PUSHES = {"queue/push_one": 0, "queue/push": 2, "queue/push_until": 2, "locks/release_and_push": 4}
"""Index of the first job in each script's arguments."""
WAITS = ("ready", "due", "line", "suspect", "blocked", "stored")


class LimitChecker(QueueChecker):
    """Checks every step on a queue with limits."""

    def __init__(self, world: World, plant: Plant) -> None:
        super().__init__(world, plant)
        self.paused: int | None = None
        """Start of the pause, ms of server time."""
        self.concurrency: int | None = None
        self.size: int | None = None
        self.rate: tuple[int, int] | None = None
        self.changed: int = 0
        """True time of the last change of a limit, us."""
        self.free_since: int | None = 0
        """True time since one more job may begin, without regard to a rate, us; None if it may not."""
        self.empty_since: int | None = 0
        """True time since no job waits or runs, us; None if one does."""
        self.ended_running: bool = False
        """True if the end of a running job emptied the queue: only then does the server notify waiting callers."""
        self.emptied: int = 0
        """True time when the queue was last empty, us; valid if it is not empty now."""
        self.begun: list[int] = []
        """Server times when jobs began under the present rate, us."""
        self.refused: set[str] = set()
        """Jobs whose producers received QueueFull."""

    def applied(self, step: Step) -> None:
        """Check a step."""
        before = self.view
        if step.script == "queue/set_rules":
            self._changed(step)
        super().applied(step)
        after = self.view
        leased = [id for id in after.places if after.kind(id) == "run" and before.places.get(id) != after.places[id]]
        came = after.places.keys() - before.places.keys()
        if came & self.refused:
            raise Broken(f"{came & self.refused} were enqueued, and their producer heard that they were not")
        if leased:
            self._check_begun(step, after, leased)
        if step.script in _PUSHES:
            self._check_size(step, before, after, came)
        self._note_times(step, after)

    def _changed(self, step: Step) -> None:
        for name, value in zip(step.args[::2], step.args[1::2], strict=True):
            self._change(str(name), value, step.now)
            self.changed = self._world.now
        rate = f"{self.rate[0]}/{self.rate[1]}" if self.rate else None
        rules = ["" if rule is None else str(rule) for rule in (self.paused, rate, self.concurrency, self.size)]
        found = [rule.decode() if isinstance(rule, bytes) else str(rule) for rule in step.reply[1:]]
        if found != rules:
            raise Broken(f"the rules are {rules}, and whoever sets them is told {found}")

    def _change(self, name: str, value: Argument, now: int) -> None:
        if name == "paused":
            self.paused = None if value == "" else now // 1000 if self.paused is None else self.paused
        elif name == "concurrency":
            self.concurrency = None if value == "" else int(value)
        elif name == "size":
            self.size = None if value == "" else int(value)
        else:
            jobs, _, per = str(value).partition("/")
            self.rate, self.begun = (int(jobs), int(per)) if value else None, []

    def _check_begun(self, step: Step, after: View, leased: Sequence[str]) -> None:
        if self.paused is not None:
            raise Broken(f"{leased} began, and the queue is paused since {self.paused}")
        running = sum(place[0] == "run" for place in after.places.values())
        if self.concurrency is not None and running > self.concurrency:
            raise Broken(f"{leased} began, and now {running} run, at most {self.concurrency} may")
        self.begun += [step.now] * len(leased)
        if self.rate is None or self._world.mix.back:
            return
        count, per = self.rate
        for at, first in enumerate(self.begun):
            if len(self.begun) - at > count + (step.now - first) * count / (per * 1000) + 1e-6:
                raise Broken(f"{len(self.begun) - at} jobs began within {step.now - first} us, the rate is {self.rate}")

    def _check_size(self, step: Step, before: View, after: View, came: set[str]) -> None:
        waited, waits = (sum(place[0] in WAITS for place in view.places.values()) for view in (before, after))
        if not isinstance(step.reply, list):
            if came and self.size is not None and waits > self.size:
                raise Broken(f"{came} came, and now {waits} jobs wait, at most {self.size} may")
            return
        begin = _PUSHES[step.script]
        asked = [str(id) for id in step.args[begin : begin + 1 if step.script == "queue/push_one" else None : 3]]
        new, size, (_, _, *first) = {*asked} - before.places.keys(), self.size or 0, step.reply
        if (
            came - {*asked[: sum(first)]}
            or (first and waits < size)
            or not new
            or step.reply[:2] != [waits, self.size]
            or waited + len(new) <= size
        ):
            raise Broken(f"{step.reply} was said, {waited} waited, at most {self.size} may; {came} came of {new}")

    def _note_times(self, step: Step, after: View) -> None:
        """Update `free_since` and the times of an empty queue."""
        now, kinds = self._world.now, [place[0] for place in after.places.values()]
        free = self.paused is None and (self.concurrency is None or kinds.count("run") < self.concurrency)
        self.free_since = (now if self.free_since is None else self.free_since) if free else None
        if any(kind in (*WAITS, "run") for kind in kinds):
            if self.empty_since is not None:
                self.emptied, self.empty_since = now, None
        elif self.empty_since is None:
            self.empty_since, self.ended_running = now, step.script in ("queue/settle", "queue/recover")
