"""A snapshot of a queue, read from all its keys. Every job has one place, and the records agree with it (Q10)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

from lockwork.ids import node_id
from lockwork.protocol.flows import flows
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queue.record_header import JobLimits
from simulator.server import Command
from simulator.world import Broken

Place = tuple[str, str, str]
"""Kind of place (ready, due, line, suspect, run, dead, ended, blocked, stored), then the line, session, flow or
outcome, then the number in line, token or due time (ms)."""
DELIVERIES = 3
LIVE = ("ready", "due", "line", "suspect", "run", "blocked")
LIMITS = {
    "": JobLimits(),
    "free": JobLimits(),
    "narrow": JobLimits(at_once=2),
    "one": JobLimits(at_once=1),
    "slow": JobLimits(jobs=2, per_ms=1000),
}


class Made(NamedTuple):
    """A job as its producer made it."""

    level: int
    key: str = ""
    group: str = ""
    lined: bool = False
    """True if the job waits in a line without a key or group: it has a unique name, or belongs to a flow."""
    most: int = 0
    """Cap of deliveries, 0 for none."""

    @property
    def plain(self) -> bool:
        return not (self.key or self.group or self.lined)


@dataclass
class View:
    """The parsed keys."""

    places: dict[str, Place] = field(default_factory=dict)
    blobs: dict[str, bytes] = field(default_factory=dict)
    """Outcomes as stored."""
    leases: dict[str, int] = field(default_factory=dict)
    """Deadline of each session, in ms of server time."""
    stats: dict[str, int] = field(default_factory=dict)
    expiry: dict[str, int] = field(default_factory=dict)
    """Expiry of each waiting job, in ms of server time."""
    holders: dict[str, str] = field(default_factory=dict)
    """The job that holds each key."""
    running: Counter[str] = field(default_factory=Counter)
    """Number of running jobs by group, without plain jobs."""
    marked: set[str] = field(default_factory=set)
    """Jobs with a cancellation request."""
    asleep: dict[str, int] = field(default_factory=dict)
    """Rate-limited groups, and the time when their next job may begin, in ms of server time."""
    idle: set[str] = field(default_factory=set)
    """Channels of idle workers."""
    unused: set[str] = field(default_factory=set)
    """Groups without jobs, whose rate the server will delete."""
    flows: dict[str, dict[str, Any]] = field(default_factory=dict)
    """The record of each flow."""
    ends: dict[str, bytes] = field(default_factory=dict)
    """First outcome of each job of a flow, by id."""
    parked: dict[str, str] = field(default_factory=dict)
    """The task of each parked job, which a worker returned because it did not know the task."""
    unfinished: set[str] = field(default_factory=set)
    """Flows with steps left to do."""
    messages: dict[tuple[str, int], list[Any]] = field(default_factory=dict)
    """Messages of flows to other queues, by queue and number."""
    reported: dict[str, bytes] = field(default_factory=dict)
    """The ends of jobs that a part of a flow has reported to its home, by id."""

    def kind(self, id: str) -> str:
        """Return the kind of a job's place; '' for an unknown job."""
        return self.places[id][0] if id in self.places else ""


def looks(queue: QueueKeys, sessions: Sequence[str]) -> list[Command]:
    """Return the reads of the whole queue."""
    return [
        ("HKEYS", queue.jobs),
        *(("LRANGE", key, 0, -1) for key in queue.ready),
        ("ZRANGE", queue.due, 0, -1, "WITHSCORES"),
        ("ZRANGE", queue.dead, 0, -1),
        *(("HGETALL", key) for key in queue.results),
        ("HGETALL", queue.stats),
        ("ZRANGE", queue.workers, 0, -1, "WITHSCORES"),
        ("SMEMBERS", queue.void),
        ("ZRANGE", queue.expiry, 0, -1, "WITHSCORES"),
        ("HGETALL", queue.job_notes),
        ("HKEYS", queue.tries),
        ("ZRANGE", queue.group_queue, 0, -1),
        ("HGETALL", queue.groups),
        ("ZRANGE", queue.throttled, 0, -1, "WITHSCORES"),
        *(("LRANGE", key, 0, -1) for key in queue.rounds),
        ("HGETALL", queue.flows),
        ("ZRANGE", queue.idle_workers, 0, -1, "WITHSCORES"),
        ("ZRANGE", queue.suspects, 0, -1),
        ("ZRANGE", queue.parked, 0, -1),
        ("HGETALL", queue.parked_since),
        *(("HGETALL", queue.run(session)) for session in sessions),
    ]


def read(seen: Sequence[Any], sessions: Sequence[str], made: Mapping[str, Made]) -> View:
    """Parse the replies; raises Broken if a job has two places or none, or if the records contradict the places."""
    known, *ready, due, dead, newer, older, stats, workers, void, expiry, noted, tried = seen[:14]
    lines, raw_books, sleeping, *rings = seen[14:20]
    view = View()
    view.stats = {name.decode(): int(count) for name, count in stats.items() if count.isdigit()}
    view.leases = {session.decode(): int(deadline) for session, deadline in workers}
    view.expiry = {id.decode(): int(at) for id, at in expiry}
    lined = [id for ids in ready for id in ids]
    if len(lined) != len(set(lined)) or not set(void) <= set(lined):
        raise Broken(f"Q10: the ready lists hold {lined}, void are {void}")
    _put(view, ((id, ("ready", "", "")) for id in lined if id not in void))
    _put(view, ((id, ("due", "", str(int(at)))) for id, at in due))
    _put(view, ((id, ("dead", "", "")) for id in dead))
    _put(view, map(_in_line, lines))
    _add_flows(view, seen[20], known)
    view.idle = {channel.decode() for channel, since in seen[21] if since >= 0}
    _put(view, ((id, ("suspect", "", "")) for id in seen[22]))
    if bool(seen[22]) != (b"suspects" in stats):
        raise Broken(f"Q10: suspects are {seen[22]}, and the counters say {stats.get(b'suspects')!r}")
    for session, run in zip(sessions, seen[25:], strict=True):
        _put(view, ((id, ("run", session, token.decode())) for id, token in run.items()))
    _add_parked(view, seen[23], seen[24])
    if view.places.keys() != {id.decode() for id in known}:
        raise Broken(f"Q1: in one place only: {view.places.keys() ^ {id.decode() for id in known}}")
    if not set(noted) | set(tried) <= set(known):
        raise Broken(f"Q1: notes or attempts of jobs that have ended: {(set(noted) | set(tried)) - set(known)}")
    view.marked = {id.decode() for id, note in noted.items() if note[:1] == b"1"}
    books = {name.decode(): value.decode() for name, value in raw_books.items()}
    view.asleep = {entry.decode(): int(at) for entry, at in sleeping if at >= 0}
    view.unused = {entry.decode().removeprefix("- ") for entry, at in sleeping if at < 0}
    _check_books(view, made, books, [[group.decode() for group in ring] for ring in rings])
    _add_outcomes(view, older | newer)
    return view


def _add_parked(view: View, entries: Sequence[bytes], since: Mapping[bytes, bytes]) -> None:
    """Add the jobs that workers returned because they did not know the task."""
    for entry in entries:
        label, id = entry.decode().split("\n")
        view.parked[id] = label.split(" ")[0]
    given_back = {id.decode() for id in since}
    if view.parked.keys() != {id for id in given_back if view.kind(id) == "due"}:
        raise Broken(f"Q10: parked are {view.parked}, given back {given_back}")
    if not all(view.kind(id) in ("ready", "due", "line", "run", "suspect") for id in given_back):
        raise Broken(f"Q10: {given_back} were given back, and have ended: {[view.places.get(id) for id in given_back]}")
    if bool(view.stats.get("parked")) != bool(given_back):
        raise Broken(f"Q10: {given_back} were given back, and the queue says {view.stats.get('parked')}")


def _put(view: View, places: Iterable[tuple[bytes, Place]]) -> None:
    for raw, place in places:
        id = raw.decode()
        if id in view.places:
            raise Broken(f"Q10: {id} is at {view.places[id]} and at {place}")
        view.places[id] = place


def _in_line(entry: bytes) -> tuple[bytes, Place]:
    line, rest = entry.split(b"\n")
    number, id = rest.split(b" ")
    return id, ("line", line.decode(), number.decode())


def _add_message(view: View, flow: str, number: str, packed: bytes) -> None:
    if number:
        view.messages[flow[1:], int(number)] = msgspec.msgpack.decode(packed)


def _add_flows(view: View, stored: Mapping[bytes, bytes], known: Sequence[bytes]) -> None:
    """Add flows: the jobs that wait for others, and outcomes."""
    fields: dict[str, list[tuple[str, bytes]]] = {"q": [], "r": [], "d": [], "w": []}
    for raw, value in stored.items():
        flow, _, rest = raw.decode().partition(" ")
        if flow[0] == ">":
            _add_message(view, flow, rest, value)
        elif not rest and flow != "#":
            view.flows[flow] = msgspec.msgpack.decode(value)
        elif rest == "t":
            view.unfinished.add(flow)
        elif rest[:1] in fields:
            id = node_id(flow, int(rest[1:]))
            fields[rest[0]].append((id, value))
    waits, elsewhere = [id for id, _ in fields["w"]], {id for id, _ in fields["q"]}
    view.ends, view.reported = dict(fields["r"]), dict(fields["d"])
    kinds = {flow: "blocked" if record["state"] == "running" else "stored" for flow, record in view.flows.items()}
    ended = view.ends.keys() | view.reported.keys() | elsewhere
    waits = [id for id in waits if id not in ended]  # a cancelled job waits only if it runs again
    placed = [id for id in waits if id.encode() in known or "home" not in view.flows[flows.flow_of(id)]]  # else deleted
    _put(view, ((id.encode(), (kinds[flows.flow_of(id)], flows.flow_of(id), "")) for id in placed))
    blocked = sum(kinds[flows.flow_of(id)] == "blocked" for id in waits)
    if int(stored.get(b"#", 0)) != blocked:
        raise Broken(f"Q10: {blocked} jobs wait for others of their flows, and the count says {stored.get(b'#')!r}")


def _add_outcomes(view: View, outcomes: Mapping[bytes, bytes]) -> None:
    for raw, blob in outcomes.items():
        id, _, progress = raw.decode().partition(" ")
        if progress:
            if id.encode() not in outcomes:
                raise Broken(f"Q1: the progress of {id} outlives its outcome")
            continue
        view.blobs[id] = blob
        if id not in view.places:
            view.places[id] = ("ended", blob[:1].decode(), "")
        elif view.places[id][0] != "dead":
            raise Broken(f"Q1: {id} has an outcome, and is {view.places[id]}")


def _check_books(view: View, made: Mapping[str, Made], books: dict[str, str], rings: list[list[str]]) -> None:
    """Check the records of keys and groups by a recount, and that no job is stuck."""
    by_kind: dict[str, dict[str, str]] = defaultdict(dict)
    for name, value in books.items():
        by_kind[name[0]][name[2:]] = value
    view.holders = by_kind["h"]
    standing = {id: int(place[2]) for id, place in view.places.items() if place[0] == "line"}
    if {id: int(number) for id, number in by_kind["@"].items()} != standing:
        raise Broken(f"Q10: in line are {standing}, the books say {by_kind['@']}")
    view.running = Counter(
        made[id].group for id, place in view.places.items() if place[0] == "run" and not made[id].plain
    )
    if {group: int(count) for group, count in by_kind["n"].items()} != dict(view.running):
        raise Broken(f"Q10: {dict(view.running)} run by group, the books say {by_kind['n']}")
    used = {line[4:] for kind, line, _ in view.places.values() if kind == "line" and line[0] == "g"} | {*view.running}
    if not by_kind["t"].keys() <= used | view.unused:
        raise Broken(f"L10: nobody will forget the rates of {by_kind['t'].keys() - used - view.unused}")
    turns = [f"{level} {group}" for level, ring in enumerate(rings) for group in ring]
    if sorted(turns) != sorted(by_kind["r"]):
        raise Broken(f"Q10: the rings hold {turns}, the books say {sorted(by_kind['r'])}")
    _check_nobody_is_stuck(view, made, {*turns, *view.asleep})


def _check_nobody_is_stuck(view: View, made: Mapping[str, Made], turns: set[str]) -> None:
    """Check that each key's holder will end, and that each job in a line waits for a holder, a limit or a turn."""
    for key, id in view.holders.items():
        if made[id].key != key or view.kind(id) not in ("due", "line", "suspect", "run"):
            raise Broken(f"Q1: the key {key} is kept for {id}, which is {view.places.get(id)}")
    for id, (kind, line, _) in view.places.items():
        if kind != "line":
            continue
        if line[0] == "k" and line[2:] not in view.holders:
            raise Broken(f"Q1: {id} waits for the key {line[2:]}, which nobody has")
        group = made[id].group
        full = view.running[group] >= (LIMITS[group].at_once or 10**6)
        if line[0] == "g" and not full and line[2:] not in turns:
            raise Broken(f"Q1: {id} waits for a turn of {group!r}, which never comes")
