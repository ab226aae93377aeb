"""What must hold for queues: Q1 to Q3, Q5 to Q7 and Q10, judged by where every job is after every script.

And for single jobs: one whose worker was asked to cancel it does not run again, none begins after it had to, and only
the current delivery writes anything down.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from simulation.queue_actors import DELIVERIES, Plant
from simulation.server import Command
from simulation.world import Broken, Step, World

_HANDLING = ("jobs_cancel", "jobs_expire", "jobs_reschedule", "jobs_revive")
Place = tuple[str, str, str]
"""Kind of place (ready, due, run, dead, ended), then which session or how it ended, then the token or due time."""


@dataclass
class _View:
    """The queue at one moment."""

    places: dict[str, Place] = field(default_factory=dict)
    leases: dict[str, int] = field(default_factory=dict)
    """Deadline of each session, in ms of server time."""
    stats: dict[str, int] = field(default_factory=dict)
    expiry: dict[str, int] = field(default_factory=dict)
    """When a job that waits expires, in ms of server time."""


class QueueChecker:
    """Checks every step on a queue."""

    def __init__(self, world: World, plant: Plant) -> None:
        self._world = world
        self._plant = plant
        self._view = _View()
        self._deliveries: Counter[str] = Counter()
        """Deliveries of each job that count as attempts."""
        self._asked: list[str] = []
        self._cancelling: set[str] = set()
        self._revived: set[str] = set()

    def looks(self, script: str, keys: Sequence[str]) -> list[Command]:
        """Read the whole queue."""
        queue = self._plant.queue
        self._asked = list(self._plant.sessions)
        return [
            ("HKEYS", queue.jobs),
            *(("LRANGE", key, 0, -1) for key in queue.ready),
            ("ZRANGE", queue.due, 0, -1, "WITHSCORES"),
            ("ZRANGE", queue.dead, 0, -1),
            *(("HGETALL", key) for key in queue.results),
            ("HGETALL", queue.stats),
            ("ZRANGE", queue.workers, 0, -1, "WITHSCORES"),
            ("SMEMBERS", queue.withdrawn),
            ("ZRANGE", queue.expiry, 0, -1, "WITHSCORES"),
            ("HKEYS", queue.notes),
            *(("HGETALL", queue.run(session)) for session in self._asked),
        ]

    def applied(self, step: Step) -> None:
        """Judge what a script did to the queue's jobs."""
        before, after = self._view, self._read(step)
        self._single(step, before)
        for id in before.places.keys() | after.places.keys():
            was, is_ = before.places.get(id), after.places.get(id)
            if was != is_:
                self._moved(step, before, id, was, is_)
        self._count(after)
        self._view = after

    def _read(self, step: Step) -> _View:
        known, *ready, due, dead, newer, older, stats, workers, void, expiry, noted = step.seen[:13]
        view = _View()
        view.stats = {name.decode(): int(count) for name, count in stats.items()}
        view.leases = {session.decode(): int(deadline) for session, deadline in workers}
        view.expiry = {id.decode(): int(at) for id, at in expiry}
        lined = [id for ids in ready for id in ids]
        if len(lined) != len(set(lined)) or not set(void) <= set(lined):
            raise Broken(f"Q10: the ready lists hold {lined}, void are {void}")
        places: list[tuple[bytes, Place]] = [(id, ("ready", "", "")) for id in lined if id not in void]
        places += [(id, ("due", "", str(int(at)))) for id, at in due]
        places += [(id, ("dead", "", "")) for id in dead]
        for session, run in zip(self._asked, step.seen[13:], strict=True):
            places += [(id, ("run", session, token.decode())) for id, token in run.items()]
        for raw, place in places:
            id = raw.decode()
            if id in view.places:
                raise Broken(f"Q10: {id} is at {view.places[id]} and at {place}")
            view.places[id] = place
        if view.places.keys() != {id.decode() for id in known}:
            raise Broken(f"Q1: in one place only: {view.places.keys() ^ {id.decode() for id in known}}")
        if not set(noted) <= set(known):
            raise Broken(f"Q1: notes of jobs that have ended: {set(noted) - set(known)}")
        for raw, blob in (older | newer).items():
            id = raw.decode()
            if id not in view.places:
                view.places[id] = ("ended", blob[:1].decode(), "")
            elif view.places[id][0] != "dead":
                raise Broken(f"Q1: {id} has an outcome, and is {view.places[id]}")
        return view

    def _moved(self, step: Step, before: _View, id: str, was: Place | None, is_: Place | None) -> None:
        route = (was[0] if was else "", is_[0] if is_ else "")
        if was and was[0] == "run":
            self._left_run(step, before, id, was, is_)
        elif route in (("", "ready"), ("", "due")):
            if step.script not in ("jobs_push", "jobs_push_until"):
                raise Broken(f"Q1: {step.script} brought {id}")
        elif is_ and is_[0] == "run" and route[0] in ("ready", "due"):
            self._leased(step, before, id, is_)
        elif step.script in _HANDLING:
            self._handled(step, before, id, was, is_)
        elif not (step.script == "jobs_reserve" and route == ("due", "ready")):
            raise Broken(f"Q1: {step.script} moved {id} from {was} to {is_}")
        if was and was[0] == "due" and int(was[2]) > step.now // 1000 and step.script not in _HANDLING:
            raise Broken(f"Q6: {id} was due at {was[2]} and left at {step.now // 1000}")

    def _leased(self, step: Step, before: _View, id: str, is_: Place) -> None:
        if step.script != "jobs_reserve" or step.args[3] != is_[1]:
            raise Broken(f"Q2: {step.script} {step.args} leased {id} to {is_[1]}")
        if before.expiry.get(id, step.now) <= step.now // 1000:
            raise Broken(f"{id} began at {step.now // 1000}, and had to before {before.expiry[id]}")
        attempt = int(is_[2].split()[0])
        if attempt != self._deliveries[id] + 1:
            raise Broken(f"Q7: delivery {attempt} of {id} after {self._deliveries[id]}")

    def _handled(self, step: Step, before: _View, id: str, was: Place | None, is_: Place | None) -> None:
        """A job that waits, or has ended, was handled by itself."""
        route = (was[0] if was else "", is_[0] if is_ else "", is_[1] if is_ else "")
        if step.script == "jobs_cancel":
            fine = route in (("ready", "ended", "c"), ("due", "ended", "c")) and step.args[1] == id
        elif step.script == "jobs_expire":
            fine = route in (("ready", "ended", "x"), ("due", "ended", "x"))
            fine = fine and before.expiry.get(id, step.now) <= step.now // 1000
        elif step.script == "jobs_reschedule":
            fine = route[0] in ("ready", "due") and route[1] in ("ready", "due") and step.args[0] == id
        else:
            fine = route[0] in ("dead", "ended") and route[1] in ("ready", "due") and step.args[1] == id
            fine = fine and was is not None and was[1] != "s"
            self._deliveries[id] = 0
            self._revived.add(id)
        if not fine:
            raise Broken(f"Q1: {step.script} {step.args} moved {id} from {was} to {is_}")

    def _single(self, step: Step, before: _View) -> None:
        if step.script == "jobs_cancel" and step.reply[0] == b"running":
            self._cancelling.add(str(step.args[1]))
        elif step.script == "jobs_note" and step.reply == 1:
            place = before.places.get(str(step.args[0]))
            if place is None or place[0] != "run" or place[2] != _text(step.args[1]) or place[1] not in step.keys[0]:
                raise Broken(f"Q3: {step.args} was written down, and the job is {place}")

    def _left_run(self, step: Step, before: _View, id: str, was: Place, is_: Place | None) -> None:
        _, session, token = was
        asked = id in self._cancelling
        self._cancelling.discard(id)
        if asked and (is_ is None or is_[0] != "ended"):
            raise Broken(f"{id} was to be cancelled, and is {is_} after {step.script}")
        if step.script == "jobs_settle":
            given = [
                (step.args[at + 1], step.args[at + 2]) for at in range(1, len(step.args), 5) if step.args[at] == id
            ]
            kinds = {kind for its, kind in given if _text(its) == token}
            places = {"s": "ended", "r": "due", "d": "dead", "g": "ready", "z": "due", "c": "ended"}
            if f":run:{session}" not in step.keys[10] or not kinds:
                raise Broken(f"Q3: {step.keys[10]} settled {id} with {given}, leased to {session} by {token}")
            if is_ is None or (is_[0] not in {places[str(kind)] for kind in kinds} and not asked):
                raise Broken(f"Q1: {id} went to {is_} when it was settled by {kinds}")
            if not kinds & {"g", "z"}:
                self._deliveries[id] += 1
        elif step.script == "jobs_recover" and step.args[1] == session:
            lapsed = before.leases.get(session, 0) <= step.now // 1000
            if not lapsed and not (step.args[2] == 1 and session in self._plant.gone):
                raise Broken(f"Q2: {id} was taken from {session}, whose lease lasts")
            self._deliveries[id] += 1
            buried = self._deliveries[id] >= DELIVERIES
            if is_ is None or is_[0] != ("ended" if asked else "dead" if buried else "ready"):
                raise Broken(f"Q5: {id} went to {is_} after delivery {self._deliveries[id]}")
        else:
            raise Broken(f"Q2: {step.script} {step.args} took {id} from {session}; now {is_}")

    def _count(self, view: _View) -> None:
        kinds = Counter(place[0] for place in view.places.values())
        succeeded = sum(place[:2] == ("ended", "s") for place in view.places.values())
        unwell = kinds["ended"] - succeeded + kinds["dead"]
        counted = {"enqueued": len(view.places), "succeeded": succeeded, "running": kinds["run"]}
        for name, count in counted.items():
            if view.stats.get(name, 0) != count:
                raise Broken(f"Q10: the counter {name} says {view.stats.get(name, 0)}, a recount {count}")
        ended = sum(view.stats.get(name, 0) for name in ("dead", "cancelled", "expired")) - view.stats.get("revived", 0)
        if ended != unwell:
            raise Broken(f"Q10: the counters say that {ended} did not end well, a recount {unwell}")

    def settled(self) -> bool:
        """Whether every job known to the server has ended."""
        return all(place[0] in ("ended", "dead") for place in self._view.places.values())

    def at_end(self) -> None:
        """Every acknowledged job has ended, once, and callers were told the truth."""
        for id in self._plant.acknowledged:
            place = self._view.places.get(id)
            if place is None or place[0] not in ("ended", "dead"):
                raise Broken(f"Q1: {id} was acknowledged, and is {place} at the end")
        if not self.settled():
            raise Broken(f"Q1: not at an end: {[item for item in self._view.places.items() if item[1][0] != 'ended']}")
        for id, told in self._plant.told.items():
            if id in self._revived:
                continue
            if self._view.places[id][0] not in (told, "dead" if told == "ended" else told):
                raise Broken(f"Q9: {id} ended as {self._view.places[id]}, a caller was told {told}")


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
