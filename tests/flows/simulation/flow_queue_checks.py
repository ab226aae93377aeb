"""Rules of flows, checked after every script: each job begins when all of its parents have ended, and each ends.

No job stays blocked after its last parent has ended, unless the flow is marked as unfinished. Compensations run one
after the other, the latest success first, when all jobs have ended and a job with policy `compensate` has failed or
was itself cancelled.
"""

from __future__ import annotations

from collections import Counter, defaultdict

from flows.simulation.flow_queue_actors import FlowPlant
from lockwork.ids import node_id
from queues.simulation.limit_queue_checks import WAITS, LimitChecker
from queues.simulation.queue_actors import WINDOW_MS
from queues.simulation.queue_view import LIVE, Place, View
from simulator.faults import MS, SECOND
from simulator.world import Broken, Step, World

_STORED = ("running", "compensating", "ended")
_KEPT = 600 * SECOND
"""Minimum time until the server deletes an incompletely stored flow, us."""


class FlowChecker(LimitChecker):
    """Checks every step on a queue with flows."""

    def __init__(self, world: World, plant: FlowPlant) -> None:
        super().__init__(world, plant)
        self._flows = plant
        self._first: dict[str, int] = {}
        """Server time of the first push of each flow."""
        self._begun: set[str] = set()
        self._over: dict[str, int] = {}
        """Server time when the checker first saw that a flow had ended."""
        self._stopped: set[str] = set()
        self._wins: dict[str, list[int]] = defaultdict(list)
        """Jobs that succeeded and have a compensation."""
        self._undoing: dict[str, list[str]] = defaultdict(list)
        """Compensations in the order of their arrival."""
        self._undone: set[str] = set()
        """Compensations that ended."""

    def applied(self, step: Step) -> None:
        """Check a step."""
        before = self.view
        if step.script == "flows/push":
            self._first.setdefault(str(step.args[2]), step.now)
        if step.script == "flows/cancel" and step.reply[0] in (b"cancelled", b"more"):
            self._stopped.add(str(step.args[2]))
        super().applied(step)
        after = self.view
        if step.script == "flows/push" and step.args[4] == 1:
            self._check_room(step, before, after)
        self._check_ends(step, before, after)
        for flow, record in after.flows.items():
            if record["state"] in _STORED:
                self._check_flow(flow, before, after)
            if record["state"] == "ended":
                self._over.setdefault(flow, step.now)
        gone = {flow for flow in before.flows.keys() - after.flows.keys() if flow in self._begun}
        if early := {flow for flow in gone if step.now - self._over.get(flow, step.now) < WINDOW_MS * MS}:
            raise Broken(f"{step.script} forgot {early}")
        self._flows.ends.update(after.ends)

    def forgotten(self, flow: str) -> bool:
        """Return True if a flow has ended and the server has deleted it."""
        return flow in self._over and flow not in self.view.flows

    def _check_room(self, step: Step, before: View, after: View) -> None:
        """Check that a queue accepts or refuses a flow as a whole."""
        flow, total = str(step.args[2]), int(step.args[3])
        waited = sum(place[0] in WAITS for place in before.places.values())
        full = self.size is not None and waited + total > self.size
        known = flow in before.flows
        if (step.reply == [waited, self.size]) != (full and not known) or (flow in after.flows) != (known or not full):
            raise Broken(f"{waited} jobs waited of {self.size}, {flow} has {total}, and the answer is {step.reply}")

    def _count(self, view: View) -> None:
        for flow, record in view.flows.items():
            if record["state"] in _STORED and flow not in self._begun:
                self._begun.add(flow)
                self._recount["enqueued"] += len(self._flows.plans[flow])
        super()._count(view)

    def _moved(self, step: Step, before: View, after: View, id: str, was: Place | None, is_: Place | None) -> None:
        member = self._flows.member(id)
        route = (was[0] if was else "", is_[0] if is_ else "")
        by_hand = step.script == "queue/cancel" and step.args[1] == id and route[0] != "blocked"
        if member is None:
            super()._moved(step, before, after, id, was, is_)
        elif id.endswith("u") and was is None:
            self._compensates(step, before, id, is_)
        elif was is None and id in self.cleared:
            raise Broken(f"{step.script} brought {id} back to {is_}, which was cleared away")
        elif route[1] in ("stored", "blocked"):
            if route[0] not in ("", "stored") or step.script != "flows/push":
                raise Broken(f"Q1: {step.script} moved {id} from {was} to {is_}")
        elif route == ("stored", ""):
            if step.now - self._first[member[0]] < _KEPT:
                raise Broken(f"{id} was forgotten before its producer could store the rest")
        elif route[1] == "due" and route[0] in ("", "stored", "blocked"):
            self._released(step, after, id, is_)
        elif is_ and is_[:2] in (("ended", "c"), ("ended", "n")) and route[0] != "run" and not by_hand:
            (self._dropped if is_[1] == "c" else self._skipped)(step, after, id, was)
        else:
            self._run_by_hand(step, after, id)
            super()._moved(step, before, after, id, was, is_)

    def _run_by_hand(self, step: Step, view: View, id: str) -> None:
        if step.script != "queue/revive" or id.endswith("u"):
            return
        flow, _ = self._flows.member(id) or ("", 0)
        for parent in (*self._flows.parents(id), *self._flows.causes(id)):
            if node_id(flow, parent) not in view.ends:
                raise Broken(f"{id} is run again, and job {parent}, for which it waited, has not ended")

    def _left_run(self, step: Step, before: View, after: View, id: str, was: Place, is_: Place | None) -> None:
        member = self._flows.member(id)
        if member is not None and member[0] in self._stopped and id in before.marked:
            self._cancelling.add(id)
        super()._left_run(step, before, after, id, was, is_)

    def _leased(self, step: Step, before: View, id: str, is_: Place) -> None:
        super()._leased(step, before, id, is_)
        member = self._flows.member(id)
        if member and not id.endswith("u") and id not in self.again:
            self._check_parents(before, id)

    # -- one job ------------------------------------------------------------------------------------------------------

    def _passes(self, view: View, id: str) -> bool | None:
        """Return True if this job's end lets its children run; None if it has not ended."""
        flow, number = self._flows.member(id) or ("", 0)
        end = view.ends.get(id)
        return None if end is None else end[:1] == b"s" or self._flows.plans[flow][number - 1].policy == "ignore"

    def _check_parents(self, view: View, id: str) -> None:
        flow, _ = self._flows.member(id) or ("", 0)
        for parent in self._flows.parents(id):
            if not self._passes(view, node_id(flow, parent)):
                end = view.ends.get(node_id(flow, parent))
                raise Broken(f"{id} may run, and job {parent}, for which it waits, ended {end!r}")
        if not self._flows.caused(id, view.ends):
            raise Broken(f"{id} may run, and waits for the failure of one of {self._flows.causes(id)}")

    def _released(self, step: Step, after: View, id: str, is_: Place | None) -> None:
        """Check a job that became due: the flow is complete and not cancelled, and its parents have passed."""
        flow, number = self._flows.member(id) or ("", 0)
        plan = self._flows.plans[flow]
        known = {node_id(flow, each) for each in range(1, len(plan) + 1)}
        if flow not in self._begun and (step.script != "flows/push" or not known <= after.places.keys()):
            raise Broken(f"{id} may run, and not all of {flow} is stored")
        if flow in self._stopped:
            raise Broken(f"{id} may run, and {flow} was cancelled")
        self._check_parents(after, id)
        due = step.now // 1000 + plan[number - 1].delay_ms
        if is_ is None or int(is_[2]) != due:
            raise Broken(f"Q6: {id} is to run at {is_}, not at {due}")

    def _dropped(self, step: Step, after: View, id: str, was: Place | None) -> None:
        """Check a job that was cancelled before its start: with its flow, or for a failure that its outcome names."""
        flow, _ = self._flows.member(id) or ("", 0)
        if flow in self._stopped or (step.script == "queue/cancel" and step.args[1] == id):
            return
        cause = after.blobs[id].split(b";")[0].partition(b">")[2].decode()
        parents = [node_id(flow, parent) for parent in self._flows.parents(id)]
        guilty = {other: after.ends.get(other, b"") for other in parents if self._passes(after, other) is False}
        named = {node_id(flow, int(end[1:])) if end[:1] == b"c" and end[1:] else id for id, end in guilty.items()}
        if was is None or was[0] != "blocked" or cause not in named:
            raise Broken(f"{step.script} cancelled {id} for {cause!r}, it was {was}; those that failed: {guilty}")

    def _skipped(self, step: Step, after: View, id: str, was: Place | None) -> None:
        """Check a job that was skipped: a failure that it waits for did not occur, or a job before it was skipped."""
        flow, _ = self._flows.member(id) or ("", 0)
        self._recount["skipped"] += 1
        parents = [node_id(flow, parent) for parent in self._flows.parents(id)]
        skipped = [other for other in parents if after.ends.get(other) == b"n" and not self._passes(after, other)]
        if was is None or was[0] != "blocked" or (self._flows.caused(id, after.ends) is not False and not skipped):
            raise Broken(
                f"{step.script} skipped {id}, it was {was}; its causes: {self._flows.causes(id)}, {after.ends}"
            )

    def _compensates(self, step: Step, before: View, id: str, is_: Place | None) -> None:
        if is_ is None or is_[0] != "due" or int(is_[2]) != step.now // 1000:
            raise Broken(f"Q1: {step.script} brought the compensation {id} to {is_}")
        self._recount["enqueued"] += 1
        self._undoing[id.rpartition(".")[0]].append(id)

    # -- whole flows --------------------------------------------------------------------------------------------------

    def _check_ends(self, step: Step, before: View, after: View) -> None:
        """Check that a flow notes the outcome of each of its jobs, correctly and only once."""
        for id, end in before.ends.items():
            if after.ends.get(id, end) != end:
                raise Broken(f"{id} had ended {end!r}, and now {after.ends[id]!r}")
        for id in after.places.keys() | before.places.keys():
            if self._flows.member(id) is None or before.kind(id) not in LIVE or after.kind(id) in LIVE:
                continue
            if id.endswith("u"):
                self._undone.add(id)
            elif id not in after.ends:
                raise Broken(f"{step.script} ended {id}, and its flow does not know")
        for id in after.ends.keys() - before.ends.keys():
            self._check_end(step, before, after, id)

    def _check_end(self, step: Step, before: View, after: View, id: str) -> None:
        flow, number = self._flows.member(id) or ("", 0)
        letter, value = after.ends[id][:1], after.ends[id][1:]
        place = after.places.get(id, ("", "", ""))
        places = {b"s": ("ended", "s"), b"f": ("dead", ""), b"c": ("ended", "c"), b"n": ("ended", "n")}
        fits = places[letter] == place[:2]
        cleared = letter == b"c" and id in self.cleared
        if before.kind(id) not in (*LIVE, "") or not (fits or cleared):
            raise Broken(f"{id} went from {before.places.get(id)} to {place}, and its flow notes {letter!r}")
        if letter == b"s":
            if value not in step.args:
                raise Broken(f"{id} succeeded with {step.args}, and what is passed on is {value!r}")
            if self._flows.plans[flow][number - 1].undo:
                self._wins[flow].append(number)

    def _check_flow(self, flow: str, before: View, after: View) -> None:
        record, plan = after.flows[flow], self._flows.plans[flow]
        ids = {number: node_id(flow, number) for number in range(1, len(plan) + 1)}
        ends = {number: after.ends[id] for number, id in ids.items() if id in after.ends}
        counted = Counter(end[:1] for end in ends.values())
        counts = [record["succeeded"], record["failed"], record["cancelled"], record.get("skipped", 0)]
        if counts != [counted[letter] for letter in (b"s", b"f", b"c", b"n")]:
            raise Broken(f"Q10: the record of {flow} is {record}, a recount {counted}")
        if record["stopped"] != (flow in self._stopped):
            raise Broken(f"{flow} is at {record}, and whether it was cancelled is another matter")
        own = [number for number, end in ends.items() if end[:1] == b"f" or end == b"c"]
        bad = [number for number in own if plan[number - 1].policy != "ignore"]
        if record["first_failure"] not in (bad or [0]):
            raise Broken(f"{flow} says that {record['first_failure']} failed first, and {bad} failed")
        if flow in after.unfinished:
            if f"flow {flow}" not in after.expiry:
                raise Broken(f"{flow} has something left to do, and nobody will do it")
        else:
            self._check_nobody_hangs(flow, ids, after)
        failed = any(plan[number - 1].policy == "compensate" for number in own)
        self._check_state(flow, len(ends) == len(plan), failed, after)

    def _check_nobody_hangs(self, flow: str, ids: dict[int, str], after: View) -> None:
        for id in ids.values():
            if flow in self._stopped and after.kind(id) in LIVE and not {id} & (after.marked | self.again):
                raise Broken(f"{flow} was cancelled, and {id} is {after.places[id]} and does not know")
            if after.kind(id) != "blocked":
                continue
            passed = [self._passes(after, ids[parent]) for parent in self._flows.parents(id)]
            passed += [None if node_id(flow, cause) not in after.ends else True for cause in self._flows.causes(id)]
            if None not in passed or False in passed or self._flows.caused(id, after.ends) is False:
                raise Broken(f"{id} is blocked, and will be: those that it waits for have passed {passed}")

    def _check_state(self, flow: str, ended: bool, failed: bool, after: View) -> None:
        """Check that compensations run one after the other when all jobs have ended, and that the flow then ends."""
        came = self._undoing[flow]
        wins = [f"{node_id(flow, number)}u" for number in reversed(self._wins[flow])] if failed else []
        if came != wins[: len(came)] or not self._undone.issuperset(came[:-1]) or (came and not ended):
            raise Broken(f"{flow} is compensated by {came}, and {wins} are due; ended: {ended}")
        under_way = bool(came) and came[-1] not in self._undone
        if ended and not under_way and len(came) < len(wins):
            raise Broken(f"{flow}: nothing compensates for {wins[len(came) :]}")
        state = "compensating" if under_way else "ended" if ended else "running"
        if after.flows[flow]["state"] != state:
            raise Broken(f"{flow} is at {after.flows[flow]}, it should be {state}")

    def at_end(self) -> None:
        """Check that every stored flow has ended with all its jobs."""
        super().at_end()
        for flow in {*self._flows.stored, *self._begun}:
            if not self.forgotten(flow) and self.view.flows.get(flow, {}).get("state") != "ended":
                raise Broken(f"{flow} never came to an end: {self.view.flows.get(flow)}")
