"""Rules of keys and groups: one job per key at a time and in order, limits and rates of groups.

Also strict priorities for all jobs: a job waits for all ready jobs of a higher priority.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from queues.simulation.queue_view import LIMITS, Made, Place, View
from simulator.world import Broken, Step, World


class GroupChecker:
    """Checks every step on keys and groups."""

    def __init__(self, world: World, made: Mapping[str, Made]) -> None:
        self._world = world
        self._made = made
        self._expected: dict[str, float] = {}
        """Expected time of a group's next job at its rate (the generic cell rate algorithm), us of server time."""
        self._back: dict[str, int] = {}
        """Jobs that returned from a worker to their line, with the fence of that delivery."""

    def applied(self, step: Step, before: View, after: View) -> None:
        """Check a step; raises Broken."""
        self._check_keys(after)
        self._check_kept(step, before, after)
        leased = [
            id for id, place in after.places.items() if place[0] == "run" and before.places.get(id, place) != place
        ]
        self._check_order(before, after, set(leased))
        self._check_first_of_key(before, after)
        self._check_back(before, after)
        if leased:
            self._check_limits(after)
            if step.script != "queue/reserve_suspects":  # suspects have a queue of their own
                self._check_priority(after, leased)
            for id in leased:
                self._count(step, self._made[id].group)

    def _check_keys(self, after: View) -> None:
        for id, place in after.places.items():
            key = self._made[id].key
            if key and (place[0] == "run" or place[1].startswith("g ")) and after.holders.get(key) != id:
                raise Broken(f"one at a time per key: {id} is {place}, {key} has {after.holders.get(key)}")

    def _check_kept(self, step: Step, before: View, after: View) -> None:
        """Check that a job that will run again keeps its key."""
        for key, id in before.holders.items():
            handled = step.script == "queue/reschedule" and step.args[0] == id
            handled |= step.script == "queue/push_unique" and id.encode() in step.reply
            if after.holders.get(key) != id and after.kind(id) in ("due", "line", "suspect", "run") and not handled:
                raise Broken(f"in order: {id} is {after.places[id]}, and {after.holders.get(key)} has its key {key}")

    def _check_order(self, before: View, after: View, leased: set[str]) -> None:
        """Check that jobs are leased, or move to the next line, from the front of their line."""
        for line, standing in _lines(before).items():
            stay = [at for at, id in enumerate(standing) if after.places.get(id, ("", ""))[1] == line]
            went = [at for at, id in enumerate(standing) if id in leased or _promoted(line, after.places.get(id))]
            if went and stay and max(went) > min(stay):
                raise Broken(f"in order: of {line!r}, {standing}, went {went}, and {stay} stay")

    def _check_back(self, before: View, after: View) -> None:
        """Check that returned jobs come first in their line, in the order of their leases."""
        for id, place in before.places.items():
            if place[0] == "run" and after.kind(id) == "line":
                self._back[id] = int(place[2].split()[1])
        self._back = {id: fence for id, fence in self._back.items() if after.kind(id) == "line"}
        for line, standing in _lines(after).items() if self._back else ():
            first = sorted((self._back[id], id) for id in standing if id in self._back)
            if standing[: len(first)] != [id for _, id in first]:
                raise Broken(f"in order: {first} came back to {line!r}, where {standing} stand")

    def _check_first_of_key(self, before: View, after: View) -> None:
        """Check that a free key goes to the job that was due first."""
        for key, id in after.holders.items():
            if key in before.holders or before.kind(id) != "due":
                continue
            rivals = [
                (int(place[2]), other)
                for other, place in before.places.items()
                if place[0] == "due" and self._made[other].key == key and after.kind(other) in ("line", "run")
            ]
            if rivals and min(rivals)[1] != id:
                raise Broken(f"in order: {key} went to {id}, and {rivals} were due")

    def _check_limits(self, after: View) -> None:
        for group, count in after.running.items():
            if LIMITS[group].at_once and count > LIMITS[group].at_once:
                raise Broken(f"{count} jobs of {group} run, at most {LIMITS[group].at_once} may")

    def _check_priority(self, after: View, leased: list[str]) -> None:
        lowest = max(self._made[id].level for id in leased)
        for id, place in after.places.items():
            if place[0] == "ready" and self._made[id].level < lowest:
                raise Broken(f"strict priorities: {leased} were leased, and {id} waits")

    def _count(self, step: Step, group: str) -> None:
        limits = LIMITS[group]
        if not limits.jobs or self._world.mix.back:
            return
        each, per = limits.per_ms * 1000 / limits.jobs, limits.per_ms * 1000
        expected = max(self._expected.get(group, 0), step.now)
        if expected + each - step.now > per:
            raise Broken(f"{group} is over its rate by {expected + each - step.now - per} us")
        self._expected[group] = expected + each


def _lines(view: View) -> dict[str, list[str]]:
    """Return the ids of the jobs in each line, in order."""
    found: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for id, (kind, line, number) in view.places.items():
        if kind == "line":
            found[line].append((number, id))
    return {line: [id for _, id in sorted(standing)] for line, standing in found.items()}


def _promoted(line: str, is_: Place | None) -> bool:
    """Return True if a job has received its key and now waits in its group's line."""
    return line.startswith("k ") and is_ is not None and is_[1].startswith("g ")
