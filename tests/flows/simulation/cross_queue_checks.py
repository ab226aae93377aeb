"""Rules of flows across queues, checked after every script on the queue that it ran on.

A job begins when its parents have ended by the record of its flow's home, and never after the home has recorded its
end. The home records the first end of each job, as it was in its queue. No job, and no compensation, starts twice. At
the end, each complete flow has ended, no other has begun, and nothing is left of either.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from flows.simulation.cross_queue_actors import CrossPlant
from lockwork.ids import node_id
from lockwork.protocol.flows.flows import FlowDetails
from queues.simulation.queue_actors import WINDOW_MS
from queues.simulation.queue_view import LIVE, View, looks, read
from simulator.faults import SECOND
from simulator.server import Command
from simulator.world import Broken, Step, World

_STORED = ("running", "compensating", "ended")
_BY_HAND = ("queue/revive", "dead/retry")
_PROMPT = 2 * SECOND
_LONG = 60 * SECOND


class CrossChecker:
    """Checks every step on any queue."""

    def __init__(self, world: World, plant: CrossPlant, *, faultless: bool) -> None:
        self._world = world
        self._plant = plant
        self._flows = plant.crossing[0]
        self._faultless = faultless
        self.views: dict[str, View] = {desk.queue.name: View() for desk in plant.crossing}
        self._asked: list[str] = []
        self._begun: set[str] = set()
        """Flows that are stored completely."""
        self._again: set[str] = set()
        """Jobs that an operator has retried."""
        self._first: dict[str, str] = {}
        """The letter of the first end of each job in its own queue."""
        self._values: dict[str, set[bytes]] = defaultdict(set)
        """Values with which each job succeeded."""
        self._wins: dict[str, list[set[int]]] = defaultdict(list)
        """Jobs with a compensation, in the order in which the home recorded their success; some by one call."""
        self._undoing: dict[str, list[str]] = defaultdict(list)
        """Compensations in the order of their arrival."""
        self._since: dict[tuple[str, str, int], int] = {}
        """True time since a message waits, by its queue, destination and number."""
        self._stopped: set[str] = set()
        """Cancelled flows."""
        self._over: set[str] = set()
        """Flows that have ended. When the clock moves, the server may also have deleted them."""

    def looks(self, script: str, keys: Sequence[str]) -> list[Command]:
        """Read the queue of the script."""
        self._asked = list(self._plant.sessions)
        return looks(self._desk(keys).queue, self._asked)

    def _desk(self, keys: Sequence[str]):  # type: ignore[no-untyped-def]
        return next(desk for desk in self._plant.crossing if keys[0].startswith(desk.queue.base))

    def applied(self, step: Step) -> None:
        """Check a step."""
        desk = self._desk(step.keys)
        name = desk.queue.name
        before, after = self.views[name], read(step.seen, self._asked, self._plant.made)
        self.views[name] = after
        desk.leased |= {(id, *place[1:]) for id, place in after.places.items() if place[0] == "run"}
        if step.script == "flows/cancel" and step.reply[0] in (b"cancelled", b"more"):
            self._stopped.add(str(step.args[2]))
        for flow, record in after.flows.items():
            if "home" not in record and record["state"] in _STORED and flow not in self._begun:
                self._begins(flow)
            if "home" not in record and record["state"] == "ended":
                self._over.add(flow)
        self._note_messages(name, after)
        if step.script == "queue/settle":
            self._note_values(step)
        self._check_home(step, name, before, after)
        for id in before.places.keys() | after.places.keys():
            if before.kind(id) != after.kind(id) and self._flows.member(id):
                self._moved(step, before, after, id)
        self._flows.ends.update(after.ends)

    def _begins(self, flow: str) -> None:
        self._begun.add(flow)
        for number in range(1, len(self._flows.plans[flow]) + 1):
            id = node_id(flow, number)
            if not self.views[self._flows.queue_of(id)].kind(id):
                raise Broken(f"{flow} begins, and {id} is not stored")

    def _note_messages(self, name: str, view: View) -> None:
        keys = {(name, *message) for message in view.messages}
        self._since = {key: at for key, at in self._since.items() if key[0] != name or key in keys}
        for key in keys:
            self._since.setdefault(key, self._world.now)

    def _note_values(self, step: Step) -> None:
        for at in range(2, len(step.args), 5):
            id, _, _, value, _ = step.args[at : at + 5]
            self._values[str(id)].add(value if isinstance(value, bytes) else str(value).encode())

    # -- one job ------------------------------------------------------------------------------------------------------

    def _moved(self, step: Step, before: View, after: View, id: str) -> None:
        flow, _ = self._flows.member(id) or ("", 0)
        was, is_ = before.kind(id), after.kind(id)
        if step.script in _BY_HAND and is_ in LIVE and was not in LIVE:
            self._again.add(id)
        elif id.endswith("u") and was == "" and is_ in LIVE:
            self._compensates(step, flow, id)
        elif is_ in LIVE and was not in ("", "stored", *LIVE):
            raise Broken(f"{step.script} let {id} run again, which had ended as {before.places[id]}")
        elif is_ in ("due", "ready", "line") and was in ("stored", "blocked", ""):
            self._started(step, id)
        if is_ == "run" and id not in self._again and not id.endswith("u"):
            self._started(step, id)
            self._check_stopped(flow, id)
        if (was in LIVE or was == "stored") and is_ in ("ended", "dead", ""):
            letter = {"dead": "f", "": "c"}.get(is_, after.places[id][1] if is_ == "ended" else "")
            if is_ or was != "stored":  # else the server forgot an incomplete flow
                self._first.setdefault(id, letter)

    def _started(self, step: Step, id: str) -> None:
        flow, _ = self._flows.member(id) or ("", 0)
        if flow not in self._begun:
            raise Broken(f"{step.script} lets {id} run, and not all of {flow} is stored")
        ends = self.views[self._flows.homes[flow]].ends
        if id in ends and id not in self._again:
            raise Broken(f"{step.script} lets {id} run, which has ended as {ends[id]!r} for its flow")
        for parent in self._flows.parents(id):
            end = ends.get(node_id(flow, parent))
            if end is None or not self._passes(flow, parent, end):
                raise Broken(f"{step.script} lets {id} run, and job {parent}, for which it waits, is {end!r}")
        if not self._flows.caused(id, ends):
            raise Broken(f"{step.script} lets {id} run, which waits for a failure of {self._flows.causes(id)}")

    def _check_stopped(self, flow: str, id: str) -> None:
        """Check that a job does not begin after its queue knows that the flow was cancelled."""
        home, name = self._flows.homes[flow], self._flows.queue_of(id)
        delivering = any(source == home and to == name for source, to, _ in self._since)
        if flow in self._stopped and not delivering and flow not in self.views[home].unfinished:
            marked = self.views[name].marked
            if id not in marked:
                raise Broken(f"{id} begins, and {flow} was cancelled")

    def _passes(self, flow: str, number: int, end: bytes) -> bool:
        return end[:1] == b"s" or self._flows.plans[flow][number - 1].policy == "ignore"

    def _compensates(self, step: Step, flow: str, id: str) -> None:
        if id in self._undoing[flow]:
            raise Broken(f"{step.script} let {id} compensate for the second time")
        home = self.views[self._flows.homes[flow]]
        if home.flows[flow]["state"] != "compensating":
            raise Broken(f"{step.script} let {id} compensate, and its flow is {home.flows[flow]}")
        for other in self._undoing[flow]:
            if self.views[self._flows.queue_of(other)].kind(other) in LIVE and other not in self._again:
                raise Broken(f"{step.script} let {id} compensate, and {other} has not ended")
        self._undoing[flow].append(id)

    # -- whole flows --------------------------------------------------------------------------------------------------

    def _check_home(self, step: Step, name: str, before: View, after: View) -> None:
        for id, end in before.ends.items():
            if after.ends.get(id, end) != end:
                raise Broken(f"{id} had ended {end!r}, and now {after.ends[id]!r}")
        wins: dict[str, set[int]] = defaultdict(set)
        for id in after.ends.keys() - before.ends.keys():
            flow, number = self._flows.member(id) or ("", 0)
            letter, value = after.ends[id][:1].decode(), after.ends[id][1:]
            if letter == "s" and value not in self._values[id]:
                raise Broken(f"{id} succeeded with {self._values[id]}, and its flow notes {value!r}")
            if letter == "s" and self._flows.plans[flow][number - 1].undo:
                wins[flow].add(number)
            first = self._first.get(id)
            if letter not in "cn" and self._flows.queue_of(id) != name and letter != first:
                raise Broken(f"{id} ended as {first}, and its flow notes {letter}")
        for flow, numbers in wins.items():
            self._wins[flow].append(numbers)
        self._check_counts(after)

    def _check_counts(self, view: View) -> None:
        for flow, record in view.flows.items():
            if "home" in record or record["state"] not in _STORED:
                continue
            counted = Counter(end[:1] for id, end in view.ends.items() if id.startswith(f"{flow}."))
            counts = [record["succeeded"], record["failed"], record["cancelled"], record.get("skipped", 0)]
            if counts != [counted[letter] for letter in (b"s", b"f", b"c", b"n")]:
                raise Broken(f"Q10: the record of {flow} is {record}, a recount {counted}")

    def told(self, flow: str, found: FlowDetails | None) -> None:
        """Check that a caller in any queue of a flow learns its state."""
        home = self.views[self._flows.homes[flow]].flows
        if found is None and flow not in self._over:
            raise Broken(f"{flow} was stored, and is said to be unknown")
        if found and found.state == "ended" and flow not in self._over:
            raise Broken(f"Q9: a caller was told that {flow} has ended, and it is {home[flow]}")

    def look(self) -> None:
        """Check that messages do not wait for long while workers run."""
        bound = _PROMPT if self._faultless else _LONG
        for (name, to, number), since in self._since.items():
            if self._world.now - since > bound:
                message = self.views[name].messages[to, number]
                raise Broken(f"{message} waits in {name} for {(self._world.now - since) / SECOND:.1f} s")

    def settled(self) -> bool:
        """Return True if every job on the server has ended, and no message waits."""
        incomplete = {flow for view in self.views.values() for flow in view.flows if flow not in self._begun}
        live = [
            id for view in self.views.values() for id, place in view.places.items()
            if place[0] in LIVE and (self._flows.member(id) or ("",))[0] not in incomplete
        ]  # fmt: skip
        return not live and not self._since and not any(view.unfinished for view in self.views.values())

    def at_end(self) -> None:
        """Check that every complete flow has ended with all its jobs, and was compensated."""
        for flow in {*self._flows.stored, *self._begun}:
            home = self.views[self._flows.homes[flow]]
            if flow not in self._over:
                raise Broken(f"{flow} never came to an end: {home.flows.get(flow)}")
            if home.flows.get(flow, {}).get("state") != "ended":
                continue
            for number in range(1, len(self._flows.plans[flow]) + 1):
                id = node_id(flow, number)
                view = self.views[self._flows.queue_of(id)]
                if view.kind(id) in LIVE:
                    raise Broken(f"{flow} has ended, and {id} is {view.places[id]}")
                if (
                    id in self._first
                    and home.ends[id][:1] not in (b"c", b"n")
                    and home.ends[id][:1].decode() != self._first[id]
                ):
                    raise Broken(f"{id} ended as {self._first[id]}, and its flow notes {home.ends[id]!r}")
            self._check_compensations(flow, home)
            for name, view in self.views.items():
                if (part := view.flows.get(flow)) and part["state"] not in ("ended", "removing"):
                    raise Broken(f"{flow} has ended, and its part in {name} is {part}")

    def _check_compensations(self, flow: str, home: View) -> None:
        plan, ends = self._flows.plans[flow], {id: end for id, end in home.ends.items() if id.startswith(f"{flow}.")}
        own = [int(id.rpartition(".")[2]) for id, end in ends.items() if end[:1] == b"f" or end == b"c"]
        failed = any(plan[number - 1].policy == "compensate" for number in own)
        came = list(self._undoing[flow])
        for numbers in reversed(self._wins[flow]) if failed else ():
            due = {f"{node_id(flow, number)}u" for number in numbers}
            if set(came[: len(due)]) != due:
                raise Broken(f"{flow} was compensated by {self._undoing[flow]}, and {self._wins[flow]} were due")
            came = came[len(due) :]
        if came:
            raise Broken(f"{flow} was compensated by {came}, which were not due")

    def check_nothing_is_left(self) -> None:
        """Check that the queues delete flows that ended, and parts of flows that never began."""
        build, server = self._world.build, self._world.server
        relay, receive, expire = map(build.script, ("flows/relay", "flows/receive", "queue/expire"))
        later = self._world.server_now + (WINDOW_MS + 7_300_000) * 1000
        for round_ in range(40):
            later += 700 * SECOND
            for desk in self._plant.crossing:
                keys = expire.declared.keys(desk.queue, {})
                for _ in range(200):
                    if not server.run(expire, keys, [WINDOW_MS], later).reply:
                        break
                keys = relay.declared.keys(desk.queue, {})
                args: list[object] = [0, WINDOW_MS, "", "", 0, f"t{round_}"]
                while batch := server.run(relay, keys, args, later).reply:  # type: ignore[arg-type]
                    name, last, *messages = batch
                    other = self._plant.desk(name.decode()).queue
                    given = [WINDOW_MS, desk.queue.name, *messages]
                    reply = server.run(receive, receive.declared.keys(other, {}), given, later).reply
                    start = last - len(messages)
                    unknown = [start + each for each in reply[3]]
                    args = [0, WINDOW_MS, args[5], name, start + reply[0], f"{args[5]}'", *unknown]
        for desk in self._plant.crossing:
            if left := server.command("HGETALL", desk.queue.flows):
                raise Broken(f"of flows that ended or never began is left in {desk.queue.name}: {left}")
            strays = {id.decode() for id in server.command("HKEYS", desk.queue.jobs)} - set(desk.dead())
            if strays:
                raise Broken(f"{strays} are left in {desk.queue.name} of flows that never began")
