"""Rules Q1 to Q3, Q5 to Q7, Q10 and Q11 of queues, checked on the place of every job after every script.

Rules of single jobs: a running job with a cancellation request does not run again, no job begins after its expiry, and
only the current delivery may write notes. queue_group_checks has the rules of keys and groups, queue_watch the time
limits (Q4, Q6) and the answers to callers (Q9).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from lockwork.protocol.effects import Argument
from lockwork.protocol.keys import process
from lockwork.protocol.queue import leases, record_header, records
from lockwork.protocol.server_clock import TOLERANCE
from queues.simulation.queue_actors import LEASE, Plant
from queues.simulation.queue_group_checks import GroupChecker
from queues.simulation.queue_view import LIVE, Place, View, looks, read
from simulator.faults import SECOND
from simulator.server import Command
from simulator.world import Broken, Step, World

_HANDLING = ("queue/cancel", "queue/expire", "queue/reschedule", "queue/revive", "queue/clear")
_DEAD = ("dead/retry", "dead/delete")
_WAITS = ("ready", "due", "line", "suspect")


class QueueChecker:
    """Checks every step on a queue."""

    brings: tuple[str, ...] = ("queue/push_one", "queue/push", "queue/push_until")
    """Scripts that enqueue."""

    def __init__(self, world: World, plant: Plant) -> None:
        self._world = world
        self._plant = plant
        self._lines = GroupChecker(world, plant.made)
        self.view: View = View()
        self.since: dict[str, int] = {}
        """True time since each job is in its present place, us."""
        self.full: dict[str, int] = {}
        """True time of the last change in the number of a group's running jobs, us."""
        self._deliveries: Counter[str] = Counter()
        """Deliveries of each job that count as attempts."""
        self._crashes: Counter[str] = Counter()
        """Deliveries that ended with the death of the job's own process, or of a worker that ran no other job."""
        self._shared: Counter[str] = Counter()
        """Deliveries that ended with the death of a worker that ran other jobs, too."""
        self._unconfirmed: dict[str, str] = {}
        """Token of the job offered to each session that has not fetched since."""
        self._recount: Counter[str] = Counter()
        """Numbers of enqueued, cleared and forgotten jobs."""
        self._beaten: dict[str, int] = {}
        """True time of the last renewal of each session's lease, us."""
        self._asked: list[str] = []
        self._cancelling: set[str] = set()
        self.again: set[str] = set()
        """Jobs that a user retried or revived."""
        self.cleared: set[str] = set()

    def looks(self, script: str, keys: Sequence[str]) -> list[Command]:
        """Read the whole queue."""
        self._asked = list(self._plant.sessions)
        return looks(self._plant.queue, self._asked)

    def applied(self, step: Step) -> None:
        """Check a step on the queue's jobs."""
        before, after = self.view, read(step.seen, self._asked, self._plant.made)
        self._single(step, before)
        for session, deadline in after.leases.items():
            if deadline != before.leases.get(session):
                self._beaten[session] = step.true
        if step.script == "queue/reserve" and step.reply[0]:
            self._unconfirmed.pop(str(step.args[3]), None)
        elif step.script == "queue/forward_wakeup":
            self._unconfirmed.pop(process(str(step.args[0])), None)
        for id in before.places.keys() | after.places.keys():
            was, is_ = before.places.get(id), after.places.get(id)
            if was != is_:
                self.since[id] = self._world.now
                self._moved(step, before, after, id, was, is_)
        self._check_isolation(after)
        self._plant.leased |= {(id, *place[1:]) for id, place in after.places.items() if place[0] == "run"}
        self._lines.applied(step, before, after)
        self._count(after)
        for group in before.running.keys() | after.running.keys():
            if before.running[group] != after.running[group]:
                self.full[group] = self._world.now
        self.view = after

    def _moved(self, step: Step, before: View, after: View, id: str, was: Place | None, is_: Place | None) -> None:
        route = (was[0] if was else "", is_[0] if is_ else "")
        if was and was[0] == "run":
            self._left_run(step, before, after, id, was, is_)
        elif was is None:
            self._came(step, before, id, is_)
        elif route == ("line", "line"):
            # the end of another job passed the key on to this one, which now waits in its group's line
            if not (was[1].startswith("k ") and is_ and is_[1].startswith("g ")) or step.script == "queue/reserve":
                raise Broken(f"Q1: {step.script} moved {id} from {was} to {is_}")
        elif is_ and is_[0] == "run" and route[0] in _WAITS:
            self._leased(step, before, id, is_)
        elif step.script in _HANDLING:
            self._handled(step, before, id, was, is_)
        elif step.script in _DEAD:
            self._was_dead(step, id, was, is_)
        elif not (step.script == "queue/reserve" and route in (("due", "ready"), ("due", "line"))):
            raise Broken(f"Q1: {step.script} moved {id} from {was} to {is_}")
        claimed = step.script == "queue/reserve" and f"{before.parked.get(id)} " in str(step.args[7:])
        early = was and was[0] == "due" and int(was[2]) > step.now // 1000
        if was and early and step.script not in _HANDLING and not claimed:
            raise Broken(f"Q6: {id} was due at {was[2]} and left at {step.now // 1000}")

    def _came(self, step: Step, before: View, id: str, is_: Place | None) -> None:
        where = is_[0] if is_ else ""
        fine = where == "due" or (where in ("ready", "run") and self._plant.made[id].plain)
        if step.script not in self.brings or not fine:
            raise Broken(f"Q1: {step.script} brought {id} to {where}")
        if is_ and where == "run":
            self._offered(step, before, id, is_)
        self._recount["enqueued"] += 1
        if id in self.cleared:
            # the queue was cleared before the producer received the reply, so it sent the job again
            self.cleared.discard(id)
            self._anew(id)

    def _offered(self, step: Step, before: View, id: str, is_: Place) -> None:
        """Check a new job that was leased directly to an idle worker."""
        if step.script != "queue/push_one" or step.args[2] != is_[1] or step.args[3] not in before.idle:
            raise Broken(f"Q2: {step.script} {step.args} leased {id} to {is_[1]}, asleep are {before.idle}")
        if before.leases.get(is_[1], 0) <= step.now // 1000:
            raise Broken(f"Q2: {id} was leased to {is_[1]}, which is over")
        if any(place[0] == "ready" and self._plant.made[other].level == self._plant.made[id].level
               for other, place in before.places.items()):  # fmt: skip
            raise Broken(f"Q2: {id} was leased before those that wait")
        if any(place[:2] == ("run", is_[1]) for place in before.places.values()):
            raise Broken(f"Q2: {id} was leased to {is_[1]}, which runs others")
        if is_[2].split()[0] != "1":
            raise Broken(f"Q7: the first delivery of {id} is {is_[2]}")
        if self._plant.made[id].most:
            raise Broken(f"Q5: {id} was offered, and whether it begins then is not certain")
        self._unconfirmed[is_[1]] = is_[2]

    def _anew(self, id: str) -> None:
        """Reset the counted attempts of a job."""
        self._deliveries[id] = self._crashes[id] = self._shared[id] = 0

    def _leased(self, step: Step, before: View, id: str, is_: Place) -> None:
        script, session = ("queue/reserve_suspects", 2) if before.kind(id) == "suspect" else ("queue/reserve", 3)
        if step.script != script or step.args[session] != is_[1]:
            raise Broken(f"Q2: {step.script} {step.args} leased {id} to {is_[1]}")
        if before.expiry.get(id, step.now) <= step.now // 1000:
            raise Broken(f"{id} began at {step.now // 1000}, and had to before {before.expiry[id]}")
        counts = self._deliveries[id] + 1, self._crashes[id], self._shared[id]
        if records.counts(is_[2].encode()) != counts:
            raise Broken(f"Q7: delivery {is_[2]} of {id}, which has had {counts}")

    def _handled(self, step: Step, before: View, id: str, was: Place, is_: Place | None) -> None:
        """Check a job that a script cancelled, expired, rescheduled, cleared or revived."""
        waits, route = was[0] in _WAITS, is_[:2] if is_ else ("", "")
        if step.script == "queue/cancel":
            fine = waits and route == ("ended", "c") and step.args[1] == id
        elif step.script == "queue/expire":
            fine = waits and route == ("ended", "x") and before.expiry.get(id, step.now) <= step.now // 1000
        elif step.script == "queue/reschedule":
            fine = waits and route[0] in ("ready", "due") and step.args[0] == id
        elif step.script == "queue/clear":
            fine = waits and route in (("", ""), ("ended", "f"))
            self._recount["cleared"] += 1
            self.cleared.add(id)
        else:
            fine = was[0] in ("dead", "ended") and route[0] in ("ready", "due") and step.args[1] == id
            fine = fine and was[1] != "s"
            self._anew(id)
            self.again.add(id)
        if not fine:
            raise Broken(f"Q1: {step.script} {step.args} moved {id} from {was} to {is_}")

    def _was_dead(self, step: Step, id: str, was: Place, is_: Place | None) -> None:
        """Check a job that left the dead set, by a retry or a deletion."""
        if step.script == "dead/retry":
            fine = is_ is not None and is_[0] in ("ready", "due")
            self.again.add(id)
            if step.args[1] == 1:
                self._anew(id)
        else:
            fine = is_ is not None and is_[:2] == ("ended", "f")
            self._recount["forgotten"] += 1
        if was[0] != "dead" or not fine or id.encode() not in step.args:
            raise Broken(f"Q1: {step.script} {step.args} moved {id} from {was} to {is_}")

    def _single(self, step: Step, before: View) -> None:
        if step.script == "queue/cancel" and step.reply[0] == b"running":
            self._cancelling.add(str(step.args[1]))
        elif step.script == "queue/note" and step.reply == 1:
            place = before.places.get(str(step.args[0]))
            if place is None or place[0] != "run" or place[2] != _text(step.args[1]) or place[1] not in step.keys[-1]:
                raise Broken(f"Q3: {step.args} was written down, and the job is {place}")

    def _left_run(self, step: Step, before: View, after: View, id: str, was: Place, is_: Place | None) -> None:
        asked = id in self._cancelling
        self._cancelling.discard(id)
        if asked and (is_ is None or is_[0] != "ended"):
            raise Broken(f"{id} was to be cancelled, and is {is_} after {step.script}")
        if step.script == "queue/settle":
            self._settled(step, after, id, was, is_, asked)
        elif step.script == "queue/forward_wakeup" and was[2].endswith(" ~"):
            if f":run:{was[1]}" not in step.keys[-1] or is_ is None or is_[0] != "ready":
                raise Broken(f"Q1: {step.script} {step.args} moved {id} from {was} to {is_}")
        elif step.script == "queue/recover" and step.args[1] == was[1]:
            if not self._lapsed(step, before, was[1]) and not (step.args[2] == 1 and was[1] in self._plant.gone):
                raise Broken(f"Q2: {id} was taken from {was[1]}, whose lease lasts")
            again = self._recovered(step, before, id, was, gone=step.args[2] == 1, counted=step.args[5] == 1)
            if is_ is None or is_[0] != ("ended" if asked else again):
                raise Broken(f"Q5: {id} went to {is_} after delivery {self._deliveries[id]}")
        else:
            raise Broken(f"Q2: {step.script} {step.args} took {id} from {was[1]}; now {is_}")

    def _lapsed(self, step: Step, before: View, session: str) -> bool:
        """Return True if a session had no heartbeat for a whole lease of true time. Clock steps do not count."""
        if not before.leases.get(session, 0):
            return True
        unnoticed = TOLERANCE + 0.1 if self._world.mix.back or self._world.mix.forth else 0.01
        return step.true - self._beaten.get(session, 0) >= (LEASE - unnoticed) * SECOND

    def _recovered(self, step: Step, before: View, id: str, was: Place, *, gone: bool, counted: bool) -> str:
        """Count a delivery of an ended session, if the job may have begun; return the kind of the job's next place."""
        made = self._plant.made[id]
        back = "suspect" if _alone(was[2]) else "ready" if made.plain else "line"
        heard = gone or self._unconfirmed.get(was[1]) != was[2]
        if not heard or not (counted or made.most):
            return back
        # one call recovers the whole session, so `before` has all of its jobs
        shared = counted and sum(place[:2] == was[:2] for place in before.places.values()) > 1
        self._deliveries[id] += 1
        (self._shared if shared else self._crashes)[id] += 1
        if made.most:
            dead = self._deliveries[id] >= made.most
        else:
            dead = self._crashes[id] >= record_header.MAX_CRASHES
            if dead and shared:
                raise Broken(f"Q5: {id} is dead by a crash that it shared")
        return "dead" if dead else "suspect" if shared else back

    def _check_isolation(self, view: View) -> None:
        """Q11: check that a suspect runs alone, so that a crash is its own."""
        held = Counter(place[1] for place in view.places.values() if place[0] == "run")
        for id, (kind, session, token) in view.places.items():
            if kind == "run" and _alone(token) and held[session] > 1:
                raise Broken(f"Q11: the suspect {id} runs beside {held[session] - 1} others in {session}")

    def _settled(self, step: Step, after: View, id: str, was: Place, is_: Place | None, asked: bool) -> None:
        _, session, token = was
        args = step.args
        given = [(args[at + 1], args[at + 2], args[at + 3]) for at in range(2, len(args), 5) if args[at] == id]
        kinds = {kind: value for its, kind, value in given if _text(its) == token}
        back = "suspect" if _alone(token) else "ready" if self._plant.made[id].plain else "line"
        places = {"s": "ended", "r": "due", "d": "dead", "k": "due", "K": "dead", "g": back, "c": "ended"}
        places |= {"z": "due", "u": "due", "n": back}
        if f":run:{session}" not in step.keys[-1] or not kinds:
            raise Broken(f"Q3: {step.keys[-1]} settled {id} with {given}, leased to {session} by {token}")
        if is_ is None or (is_[0] not in {places[str(kind)] for kind in kinds} and not asked):
            raise Broken(f"Q1: {id} went to {is_} when it was settled by {kinds}")
        if is_[:2] == ("ended", "s") and after.blobs[id] not in (b"s", b"s" + _raw(kinds["s"])):
            raise Broken(f"Q3: {id} ended with {kinds}, and its result is {after.blobs[id]!r}")
        if not kinds.keys() & {"g", "n", "z", "u"}:
            self._deliveries[id] += 1
            self._crashes[id] += bool(kinds.keys() & {"k", "K"})

    def _count(self, view: View) -> None:
        """Q10: check the counters by a recount."""
        kinds = Counter(place[0] for place in view.places.values())
        ends = Counter(place[1] for place in view.places.values() if place[0] == "ended")
        counted = {**self._recount, "succeeded": ends["s"], "running": kinds["run"]}
        for name, count in counted.items():
            if view.stats.get(name, 0) != count:
                raise Broken(f"Q10: the counter {name} says {view.stats.get(name, 0)}, a recount {count}")
        ended = sum(view.stats.get(name, 0) for name in ("dead", "cancelled", "expired")) - view.stats.get("revived", 0)
        unwell = ends["c"] + ends["x"] + kinds["dead"] + self._recount["forgotten"]
        if ended != unwell:
            raise Broken(f"Q10: the counters say that {ended} did not end well, a recount {unwell}")

    def settled(self) -> bool:
        """Return True if every job on the server has ended."""
        return not any(place[0] in LIVE for place in self.view.places.values())

    def at_end(self) -> None:
        """Check that every acknowledged job has ended, and that no key or group is in use."""
        for id in self._plant.acknowledged:
            if self.view.kind(id) not in ("ended", "dead") and id not in self.cleared:
                raise Broken(f"Q1: {id} was acknowledged, and is {self.view.places.get(id)} at the end")
        if not self.settled():
            left = [item for item in self.view.places.items() if item[1][0] in LIVE]
            raise Broken(f"Q1: not at an end: {left}")
        if self.view.holders or self.view.running:
            raise Broken(f"Q10: all has ended, and {self.view.holders} have keys, {self.view.running} run")


def _alone(token: str) -> bool:
    """Return True for the token of a delivery to an isolation process."""
    return token.rpartition(" ")[2].startswith(leases.ALONE)


def _raw(value: Argument) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
