"""A recount of all keys of a queue: each job is in one place, and no note belongs to an unknown job."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from lockwork.ids import node_id
from lockwork.protocol.history.history import read_row, read_timeline
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queue.record_header import JobLimits
from lockwork.protocol.queue.records import counts
from simulator.server import Command, Server


def _parts(record: bytes) -> list[str]:
    """Return the parts of the header: priority, deliveries, key, group, limits, unique."""
    return [*record.split(b";", 1)[0].decode().split(","), "", "", "", ""]


@dataclass(frozen=True)
class _Line:
    name: str
    number: int
    id: str


def _read(server: Server, queue: QueueKeys, sessions: Collection[str]) -> dict[str, Any]:
    """Return the contents of all keys of a queue, read in one round trip."""
    hashes = [queue.jobs, queue.flows, queue.groups, queue.stats, queue.job_notes, queue.tries, queue.timelines]
    hashes += [queue.history, queue.errors, queue.watch, queue.parked_since, *queue.results, *map(queue.run, sessions)]
    scored = [queue.due, queue.dead, queue.expiry, queue.group_queue, queue.suspects, queue.throttled]
    scored += [queue.history_order, queue.parked]
    reads: dict[str, Command] = {key: ("HGETALL", key) for key in hashes}
    reads |= {key: ("ZRANGE", key, 0, -1, "WITHSCORES") for key in scored}
    reads |= {key: ("LRANGE", key, 0, -1) for key in (*queue.ready, *queue.rounds)}
    reads[queue.void] = ("SMEMBERS", queue.void)
    return dict(zip(reads, server.commands(list(reads.values())), strict=True))


class Recount:
    """The contents of all keys of a queue at one moment."""

    def __init__(self, server: Server, queue: QueueKeys, sessions: Collection[str]) -> None:
        self._replies = _read(server, queue, sessions)
        self.records = self._hash(queue.jobs)
        self.listed: list[str] = [id for key in queue.ready for id in self._list(key)]
        self.void = {id.decode() for id in self._replies[queue.void]}
        self.due, self.dead, self.expiry = (self._scores(key) for key in (queue.due, queue.dead, queue.expiry))
        self.lines = [self._line(entry) for entry in self._scores(queue.group_queue)]
        self.suspects = self._scores(queue.suspects)
        self.runs = {id: token for session in sessions for id, token in self._hash(queue.run(session)).items()}
        self.flows, self.books, self.stats = (self._hash(key) for key in (queue.flows, queue.groups, queue.stats))
        self.asleep = self._scores(queue.throttled)
        self.rings = [f"{level} {group}" for level, key in enumerate(queue.rounds) for group in self._list(key)]
        self.noted = {id for key in (queue.job_notes, queue.tries) for id in self._hash(key)}
        self.tries, self.timelines = self._hash(queue.tries), self._hash(queue.timelines)
        self.history, self.ended = self._hash(queue.history), self._scores(queue.history_order)
        self.errors, self.watch = self._hash(queue.errors), self._hash(queue.watch)
        kept = {id: blob for key in queue.results for id, blob in self._hash(key).items()}
        self.outcomes = {id: blob for id, blob in kept.items() if not id.endswith(" p")}
        self.told = {id.removesuffix(" p") for id in kept.keys() - self.outcomes.keys()}
        """Ended jobs whose progress is still stored."""
        parked = [entry.split("\n") for entry in self._scores(queue.parked)]
        self.parked: dict[str, str] = {id: label for label, id in parked}
        """Label of each parked job."""
        self.parked_since = self._hash(queue.parked_since)
        fields = [field.split(" w") for field in self.flows if " w" in field]
        ended = {(flow, number) for flow, number in fields if f"{flow} r{number}" in self.flows}
        self.blocked = {node_id(flow, int(number)) for flow, number in fields if (flow, number) not in ended}
        self.cancelled = {node_id(flow, int(number)) for flow, number in ended}
        """Jobs that were cancelled while blocked; some parents have not ended yet."""

    def _hash(self, key: str) -> dict[str, bytes]:
        return {name.decode(): value for name, value in self._replies[key].items()}

    def _list(self, key: str) -> list[str]:
        return [entry.decode() for entry in self._replies[key]]

    def _scores(self, key: str) -> dict[str, float]:
        return {name.decode(): at for name, at in self._replies[key]}

    @staticmethod
    def _line(entry: str) -> _Line:
        name, rest = entry.split("\n")
        number, id = rest.split(" ")
        return _Line(name, int(number), id)

    def check(self, held: Collection[str], limits: Mapping[str, JobLimits], overran: Collection[str]) -> None:
        """Raise AssertionError unless all keys agree.

        held: jobs that workers hold. overran: jobs that succeeded although they ignored their time-out.
        """
        self._check_places(held)
        self._check_books(limits)
        self._check_flows()
        self._check_history(overran)
        self._check_parked()
        known = set(self.records)
        assert self.noted <= known, "notes and attempts are of jobs that have not ended"
        assert self.errors.keys() <= self.dead.keys(), "errors are of dead jobs"
        alive = known - self.dead.keys()
        assert not alive & self.outcomes.keys(), "an outcome is of a job that has ended"
        assert self.told <= self.outcomes.keys(), "progress is told as long as the outcome is"
        begun = self.runs.keys() | self.dead.keys()
        assert not begun & self.expiry.keys(), "only who waits expires"

    def _check_places(self, held: Collection[str]) -> None:
        ready = [id for id in self.listed if id not in self.void]
        assert len(set(self.listed)) == len(self.listed), "an id is listed once"
        assert self.void <= set(self.listed), "a void place is one in a list"
        stand = [line.id for line in self.lines]
        places = Counter([*ready, *self.due, *self.dead, *stand, *self.suspects, *self.runs, *self.blocked])
        assert set(places.values()) <= {1}, f"in one place each: {places}"
        assert places.keys() == self.records.keys(), (
            f"who has a place has a record: {places.keys() ^ self.records.keys()}"
        )
        assert self.runs.keys() == set(held), f"in hands: {self.runs.keys() ^ set(held)}"
        assert bool(self.suspects) == ("suspects" in self.stats), "there are suspects"
        assert int(self.stats.get("running", 0)) == len(self.runs), "running"

    def _check_parked(self) -> None:
        alive = self.records.keys() - self.dead.keys()
        assert self.parked_since.keys() <= alive, "only jobs that have not ended were given back"
        assert ("parked" in self.stats) == bool(self.parked_since), "a queue without parked jobs pays nothing"
        assert self.parked.keys() == self.parked_since.keys() & self.due.keys(), "parked jobs wait until they are due"
        labels = {id: self.parked_since[id].decode().split(" ", 2)[2] for id in self.parked}
        assert labels == self.parked, "a parked job is found by its label"

    def _check_books(self, limits: Mapping[str, JobLimits]) -> None:
        kinds: dict[str, dict[str, str]] = {kind: {} for kind in "hnltrs@u#"}
        for field, value in self.books.items():
            kinds[field[0]][field[2:]] = value.decode()
        running = Counter(_parts(self.records[id])[3] for id, token in self.runs.items() if b"*" in token)
        assert kinds["n"] == {group: str(count) for group, count in running.items()}, "jobs that run, by group"
        alive = self.records.keys() - self.dead.keys()
        assert set(kinds["h"].values()) <= alive, "a key is of a job that will end"
        assert all(_parts(self.records[id])[2] == key for key, id in kinds["h"].items())
        assert {value.split(" ")[0] for value in kinds["u"].values()} <= alive, "a name is of a job that will end"
        assert kinds["@"] == {line.id: str(line.number) for line in self.lines}, "numbers of those in line"
        assert sorted(kinds["r"]) == sorted(self.rings), "groups in rings"
        waits = {line.name[4:] for line in self.lines if line.name[0] == "g"}
        for line in self.lines:
            group, name = line.name[4:], line.name[2:]
            if line.name[0] == "k":
                assert name in kinds["h"], f"{line} waits for a key that nobody has"
            else:
                most = limits.get(group, JobLimits()).at_once
                full = most and running[group] >= most
                assert full or name in self.rings or name in self.asleep, f"{line} waits for a turn that never comes"
        unused = {entry.removeprefix("- ") for entry in self.asleep if entry.startswith("- ")}
        assert kinds["t"].keys() <= waits | running.keys() | unused, "a rate that nobody will forget"

    def _check_history(self, overran: Collection[str]) -> None:
        assert self.history.keys() == self.ended.keys(), "history has an order"
        assert not self.history.keys() & self.records.keys(), "history is of jobs that have ended"
        rows = {id: read_row(row, b"%d" % int(self.ended[id])) for id, row in self.history.items()}
        assert None not in rows.values(), "each row can be read"
        letters = {id: row.letter for id, row in rows.items() if row}
        for id, blob in self.outcomes.items():
            if blob[:1] in (b"c", b"x") and id not in self.records:
                assert letters.get(id) == blob[:1].decode(), f"{id} was cancelled or expired, which history has"
        successes = Counter(letters.values())["s"] + int(self.stats.get("left_out", 0))
        assert successes == int(self.stats.get("succeeded", 0)), "a success is in history or counted as left out"
        marked = {id for id, row in rows.items() if row and row.overran}
        assert marked == set(overran), "history has all jobs that overran, and marks no other"
        assert self.timelines.keys() <= self.records.keys(), "attempts are of jobs that have not ended, or are dead"
        assert self.tries.keys() <= self.timelines.keys(), "each attempt that failed is known"
        for id, tried in self.tries.items():
            assert read_timeline(self.timelines[id])[-1].number == counts(tried).attempts, f"attempts of {id}"

    def _check_flows(self) -> None:
        assert int(self.flows.get("#", 0)) == len(self.blocked), "blocked"
        assert not self.cancelled & self.records.keys(), "who is run again does not wait any more"
        for flow in [field for field in self.flows if field != "#" and " " not in field]:
            record: dict[str, Any] = msgspec.msgpack.decode(self.flows[flow])
            state, ends = record["state"], record["succeeded"] + record["failed"] + record["cancelled"]
            if state in ("running", "compensating", "ended"):
                assert ends == sum(field.startswith(f"{flow} r") for field in self.flows), f"ends of {flow}: {record}"
                assert state == "running" or ends == record["jobs"]
                assert f"{flow} t" not in self.flows or f"flow {flow}" in self.expiry, f"nobody goes on with {flow}"
            if state == "compensating" and record["compensating"]:
                assert node_id(flow, record["compensating"]) + "u" in self.records, f"a compensation of {flow} is lost"
            assert state != "ended" or f"flow {flow}" in self.expiry, f"nobody will forget {flow}"

    def nothing_left(self) -> None:
        """Raise AssertionError unless only dead jobs and counters are left."""
        assert self.records.keys() == self.dead.keys(), f"never ended: {self.records.keys() - self.dead.keys()}"
        assert not self.flows, f"flows that nobody has forgotten: {self.flows}"
        assert self.books.keys() <= {"#"}, f"notes of nobody: {self.books}"
        rest = (
            self.parked,
            self.listed,
            self.suspects,
            self.void,
            self.due,
            self.lines,
            self.rings,
            self.asleep,
            self.expiry,
            self.watch,
        )
        assert not any(rest), f"left behind: {rest}"
