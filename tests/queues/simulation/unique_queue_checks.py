"""Rules of unique jobs: a name has one job, a call meets the job that holds its name, and no name stays taken.

The checker derives the holder of a name from the history of the jobs, not from the server's records of names.
"""

from __future__ import annotations

from queues.simulation.limit_queue_checks import WAITS, LimitChecker
from queues.simulation.queue_view import LIVE, Place, View
from queues.simulation.unique_queue_actors import NAMES, UniquePlant
from simulator.world import Broken, Step, World

_FIRST = 6
"""Index of the first job in the arguments, from 1."""


class UniqueChecker(LimitChecker):
    """Checks every step on a queue with unique jobs."""

    brings = (*LimitChecker.brings, "queue/push_unique")

    def __init__(self, world: World, plant: UniquePlant) -> None:
        super().__init__(world, plant)
        self._unique = plant
        self._named: dict[str, str] = {}
        """Names of the jobs that hold them until they begin or end, by job id."""
        self._times: dict[str, tuple[str, int]] = {}
        """Holder of each name with a fixed time, and the end of that time, ms of server time."""
        self._latest: dict[str, int] = {}
        """Latest due time of each debounced job, ms."""
        self._records: dict[str, bytes] = {}
        """Record of each job, from the last call that replaced it."""
        self._met: dict[str, tuple[str, int | None]] = {}
        """The jobs that calls met in this step: the reply's sign, and the new due time, ms."""

    def applied(self, step: Step) -> None:
        """Check a step."""
        before, self._met = self.view, {}
        full = step.script == "queue/push_unique" and isinstance(step.reply[0], int)
        if step.script == "queue/push_unique" and not full:
            self._arrived(step, before)
        super().applied(step)
        after = self.view
        if step.script == "queue/push_unique":
            self._check_room(step, before, after, full)
        if step.script == "queue/reserve":
            self._check_records(step)
        for id, (sign, due) in self._met.items():
            if due is not None and after.places.get(id) != ("due", "", str(due)):
                raise Broken(f"{id} was met ({sign}), it is {after.places.get(id)}, and is to be due at {due}")
        self._follow(step, before, after)

    # -- calls --------------------------------------------------------------------------------------------------------

    def _arrived(self, step: Step, before: View) -> None:
        again, longest = step.args[0] == 1, int(step.args[4])
        reply = [part.decode() for part in step.reply]
        for at, (met, sign) in enumerate(zip(reply[::2], reply[1::2], strict=True)):
            id, delay = str(step.args[_FIRST - 1 + 3 * at]), int(step.args[_FIRST + 1 + 3 * at])
            name = self._unique.calls[id].name
            if again and id in before.places:
                if (met, sign) != (id, "n"):
                    raise Broken(f"{id} was there already, and when it was sent again it met {met} ({sign})")
                continue
            holder = self._holder(name, before, step.now // 1000)
            if self._world.mix.back and isinstance(NAMES[name].until, int):
                holder = None if sign == "n" else met  # before the clock was set back, the time may have been over
            if holder is None:
                if (met, sign) != (id, "n"):
                    raise Broken(f"the name {name} is free, and {id} met {met} ({sign}), {before.places.get(met)}")
                self._take(name, id, longest, step.now // 1000)
            elif met != holder:
                raise Broken(f"{holder} has the name {name}, and {id} met {met} ({sign}), {before.places.get(met)}")
            else:
                self._meet(step, before, id, met, sign, delay)

    def _check_room(self, step: Step, before: View, after: View, full: bool) -> None:
        """Check that new jobs are refused if the queue has no room for the whole batch, and only then."""
        waited, waits = (sum(place[0] in WAITS for place in view.places.values()) for view in (before, after))
        came = after.places.keys() - before.places.keys()
        if not full:
            if came and self.size is not None and waits > self.size:
                raise Broken(f"{came} came, and now {waits} jobs wait, at most {self.size} may")
            return
        ids = {str(id) for id in step.args[_FIRST - 1 :: 3]} - (before.places.keys() if step.args[0] == 1 else set())
        names = {self._unique.calls[id].name for id in ids}
        new = [name for name in names if self._holder(name, before, step.now // 1000) is None]
        wrong = not new or waited + len(new) <= (self.size or 0)
        if came or step.reply != [waited, self.size] or (wrong and not self._world.mix.back):
            raise Broken(f"{step.reply} was said, {waited} waited of {self.size}; {new} are free, {came} came")

    def _holder(self, name: str, view: View, today: int) -> str | None:
        """Return the job that holds a name, if any."""
        if isinstance(NAMES[name].until, int):
            id, until = self._times.get(name, ("", 0))
            return id if until > today else None
        there = [id for id, its in self._named.items() if its == name and not self._overdue(id, view, today)]
        return there[0] if there else None

    def _overdue(self, id: str, view: View, today: int) -> bool:
        """Return True if a job has expired. A job that came or was met in this step has a new expiry."""
        return id not in self._met and view.expiry.get(id, today + 1) <= today

    def _take(self, name: str, id: str, longest: int, today: int) -> None:
        until = NAMES[name].until
        self._met[id] = "n", None
        self._records[id] = self._unique.calls[id].record
        if isinstance(until, int):
            self._times[name] = id, today + until
            return
        for other in [other for other, its in self._named.items() if its == name]:
            del self._named[other]  # overdue: it will not run
        self._named[id] = name
        if longest:
            self._latest[id] = today + longest

    def _meet(self, step: Step, before: View, id: str, met: str, sign: str, delay: int) -> None:
        """Check a call that met a job: it replaces a waiting job, unless the terms keep the job."""
        meaning, today = NAMES[self._unique.calls[id].name].meaning, step.now // 1000
        waits = before.kind(met) in ("due", "line") or self._met.get(met, ("", None))[0] == "n"
        moves = delay or meaning == "debounce"
        expected = "k" if meaning == "keep" or not waits else "m" if moves else "r"
        if sign != expected:
            raise Broken(f"{id} met {met}, {before.places.get(met)}, the answer is {sign}, and not {expected}")
        if sign == "k":
            return
        due = max(today, min(today + delay, self._latest.get(met, today + delay))) if moves else None
        self._met[met] = sign, due if moves else self._met.get(met, ("", None))[1]
        self._records[met] = self._unique.calls[id].record
        self._plant.made[met] = self._unique.calls[id].made
        self._anew(met)

    # -- jobs ---------------------------------------------------------------------------------------------------------

    def _moved(self, step: Step, before: View, after: View, id: str, was: Place | None, is_: Place | None) -> None:
        changed = step.script == "queue/push_unique" and was is not None and self._met.get(id, ("n", None))[0] in "rm"
        if changed and was and is_ and was[0] in ("due", "line") and is_[0] == "due":
            return  # `applied` checks its due time
        super()._moved(step, before, after, id, was, is_)

    def _check_records(self, step: Step) -> None:
        """Check that a leased job has the record of the last call."""
        for at in range(3, len(step.reply) - 2, 3):
            id, record = step.reply[at].decode(), step.reply[at + 2]
            if self._records.get(id, record) != record:
                raise Broken(f"{id} begins as {record!r}, and has become {self._records[id]!r}")

    def _follow(self, step: Step, before: View, after: View) -> None:
        """Update the holders: a job frees its name when it begins or ends, and takes a free name when it is revived."""
        for id in [id for id in self._named if after.kind(id) not in LIVE]:
            del self._named[id]
        for id, place in after.places.items():
            call = self._unique.calls.get(id)
            if call is None or place[0] not in LIVE or isinstance(NAMES[call.name].until, int):
                continue
            if place[0] == "run" and before.kind(id) != "run" and NAMES[call.name].until == "start":
                self._named.pop(id, None)
            elif before.kind(id) in ("dead", "ended"):
                if others := [other for other, its in self._named.items() if its == call.name]:
                    raise Broken(f"{step.script} lets {id} run again, and {others} has the name {call.name}")
                self._named[id] = call.name
                self._latest.pop(id, None)
        self._check_alone(after, step.now // 1000)

    def _check_alone(self, after: View, today: int) -> None:
        """Check that each name with the term `done` has at most one job that waits or runs."""
        alone: dict[str, str] = {}
        for id, place in after.places.items():
            call = self._unique.calls.get(id)
            if call is None or place[0] not in LIVE or NAMES[call.name].until != "done":
                continue
            if self._named.get(id) is None and after.expiry.get(id, today + 1) <= today:
                continue  # it has expired, and another job may have taken the name
            if call.name in alone and not self._world.mix.back:
                raise Broken(f"{id} and {alone[call.name]} have the name {call.name}")
            alone[call.name] = id
