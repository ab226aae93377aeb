"""Search jobs in all places of queues, in bounded steps, and change the matching jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Self

from msgspec import Struct
from msgspec.structs import replace

from lockwork.errors import LockworkError
from lockwork.protocol.effects import Call, Calls, Protocol, script_call
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queue import records
from lockwork.protocol.queue.status import MOST_SESSIONS
from lockwork.protocol.search.search_position import BLOCKED, LISTS, PLACES, STAGES, Position
from lockwork.protocol.search.search_sources import STEP, Run, Source, StoredJob, Wanted

_SEARCH = 400
"""Limit per call of records to search for texts; more would take a large server longer than 5 ms."""
_SEARCH_DEAD = 200
"""The limit for dead jobs, which is lower because their errors are read as well."""


class StoredPage(Struct, frozen=True):
    """A page of jobs; `position` is the beginning of the next page, None after the last page."""

    jobs: list[StoredJob]
    searched: int
    total: int
    position: Position | None
    sampled: int
    """Number of successes that history did not record."""
    undecided: list[tuple[str, str]]
    """Queues and ids of jobs that may match: the stored or read part of the record is not enough to decide."""

    @property
    def next(self) -> str | None:
        """The position as text."""
        return None if self.position is None else self.position.text()


def search(
    queues: Sequence[QueueKeys], wanted: Wanted, after: Position | None, limit: int, budget: int
) -> Protocol[StoredPage]:
    """Read up to `limit` matching jobs; about `budget` records are read, or ten times this number of ids."""
    total = sampled = spent = 0
    sources: list[Source] = []
    for keys, places in zip(queues, (yield from _places(queues)), strict=True):
        total += sum(places.counts[place] for place in wanted.places) - places.void * ("ready:0" in wanted.places)
        sampled += places.left_out if "history" in wanted.places else 0
        sources += _sources(keys, places, wanted)
    jobs: list[StoredJob] = []
    undecided: list[tuple[str, str]] = []
    position = after or Position(0, wanted.newest)
    while position.stage < len(STAGES) and len(jobs) < limit and (spent < budget or not spent):
        some = [source for source in sources if source.kind in STAGES[position.stage]]
        for source in some:
            source.begin(position)
        read = _one_by_one if position.stage == BLOCKED else _merged
        matches, unsure, cost, position = yield from read(some, wanted, position, limit - len(jobs), budget - spent)
        jobs += matches
        undecided += unsure
        spent += cost
    while position.at < 0 and position.stage < len(STAGES):  # a next page would be empty
        if any(source.kind in STAGES[position.stage] for source in sources):
            break
        position = _behind(position)
    searched = min(total, sum(source.looked for source in sources))
    return StoredPage(jobs, searched, total, position if position.stage < len(STAGES) else None, sampled, undecided)


def _behind(position: Position) -> Position:
    return Position(position.stage + 1, position.newest)


_Read = tuple[list[StoredJob], list[tuple[str, str]], int, Position]
"""Jobs, undecided jobs, the number of records read, and the next position."""


def _merged(sources: Sequence[Source], wanted: Wanted, position: Position, need: int, budget: int) -> Protocol[_Read]:
    """Merge the places of a stage in order of time, reading from the place that is furthest behind."""
    if not sources:
        return [], [], 0, _behind(position)
    spent, reverse = 0, sources[0].newest and not sources[0].is_list
    for source in sources:
        if not source.all_read:
            spent += yield from source.read(wanted, _step(source, wanted, need, max(need, budget)), need)
    while True:
        unread = [(source.read_to, source) for source in sources if not source.all_read and source.read_to is not None]
        limit, last = (max if reverse else min)(unread, key=lambda each: each[0], default=(None, None))
        entries = [
            each for source in sources for each in source.found if limit is None or source.is_before(each[0], limit)
        ]
        if len(entries) >= need or last is None or spent >= budget:
            break
        spent += yield from last.read(wanted, _step(last, wanted, need, budget - spent), need)
    entries.sort(key=lambda each: each[0], reverse=reverse)
    jobs = [job for _, job in entries[:need]]
    if position.stage == LISTS:  # the page has entries of all lists, so sort it
        jobs.sort(key=lambda job: job.enqueued, reverse=wanted.newest)
    if len(entries) > need:
        limit = entries[need - 1][0]
    undecided = [
        (source.keys.name, id)
        for source in sources
        for order, id in source.undecided
        if limit is None or source.is_before(order, limit)
    ]
    if limit is None:
        return jobs, undecided, spent, _behind(position)
    at, behind = limit
    if position.stage == LISTS:
        return jobs, undecided, spent, position._replace(at=at, source=behind.decode())
    return jobs, undecided, spent, position._replace(at=at, id=records.name(behind))


def _one_by_one(
    sources: Sequence[Source], wanted: Wanted, position: Position, need: int, budget: int
) -> Protocol[_Read]:
    """Read the places of a stage one after the other, because their entries have no common order."""
    jobs: list[StoredJob] = []
    undecided: list[tuple[str, str]] = []
    spent = 0
    for source in sorted(sources, key=lambda each: each.mark):
        skip = int(position.id or 0) if source.mark == position.source else 0
        while not source.all_read:
            here = position._replace(at=source.scan, source=source.mark, id=str(skip))
            if len(jobs) >= need or (spent and spent >= budget):
                return jobs, undecided, spent, here
            source.found.clear()
            source.undecided.clear()
            spent += yield from source.read(wanted, _step(source, wanted, need, budget - spent), need + skip)
            matches = [job for _, job in source.found[skip:]]
            room = need - len(jobs)
            jobs += matches[:room]
            if len(matches) > room:
                return jobs, undecided, spent, here._replace(id=str(skip + room))
            undecided += [(source.keys.name, id) for _, id in source.undecided]
            skip = 0
    return jobs, undecided, spent, _behind(position)


def _step(source: Source, wanted: Wanted, need: int, budget: int) -> int:
    """Return the number of records for one call to read."""
    if wanted.texts:
        most = _SEARCH_DEAD if source.kind == "dead" else _SEARCH
    else:
        most = STEP if wanted.letters else min(STEP, need)
    return max(1, min(most, budget))


_CHANGEABLE = {
    "cancel": PLACES - {"dead", "history"},
    "retry": frozenset(("dead", "history")),
    "delete": PLACES - {"running"},
}


class BulkChange(int):
    """The number of changed jobs."""

    undecided: int
    """Number of unchanged jobs that may match: the stored part of their records is not enough to decide."""

    def __new__(cls, changed: int, undecided: int) -> Self:
        """Create the number."""
        instance = super().__new__(cls, changed)
        instance.undecided = undecided
        return instance


Progress = Callable[[int, int], object]
Change = Callable[[QueueKeys, str], Protocol[bool]]


def change_all(
    queues: Sequence[QueueKeys], wanted: Wanted, action: str, change: Change, most: int | None, progress: Progress
) -> Protocol[BulkChange]:
    """Change all matching jobs that the action can change, or `most` of them; return their number.

    Changed jobs move, so a page may miss jobs. The search repeats until it changes no further job.
    """
    places = wanted.places & _CHANGEABLE[action]
    letters = wanted.letters or ("cx" if action == "retry" else "")
    wanted = replace(wanted, places=places, letters=letters)
    by_name = {keys.name: keys for keys in queues}
    changed, undecided, searched = set[tuple[str, str]](), set[tuple[str, str]](), 0
    while True:
        before, after = len(changed), None
        while True:
            page = yield from search(queues, wanted, after, STEP // 2, STEP)
            searched += page.searched
            undecided.update(page.undecided)
            for job in page.jobs:
                if most is not None and len(changed) >= most:
                    return BulkChange(len(changed), len(undecided - changed))
                if (job.queue, job.id) not in changed and (yield from change(by_name[job.queue], job.id)):
                    changed.add((job.queue, job.id))
                    progress(len(changed), searched)
            progress(len(changed), searched)
            if page.position is None:
                break
            after = page.position
        if len(changed) == before:
            return BulkChange(len(changed), len(undecided - changed))


class _Places(NamedTuple):
    """Number of entries in each place of a queue, and its running jobs."""

    counts: dict[str, int]
    void: int
    left_out: int
    numbered: bool
    """True if jobs may have numbered priorities."""
    limited: bool
    """True if jobs may wait for limits of their tasks."""
    running: list[Run]
    """Start (µs), id, token and session of each running job."""


def _places(queues: Sequence[QueueKeys]) -> Protocol[list[_Places]]:
    """Count the entries of all queues, with the round trips per server of a single queue."""
    places: dict[QueueKeys, _Places] = {}
    sessions: dict[QueueKeys, list[str]] = {keys: [] for keys in queues}
    while remaining := [keys for keys in queues if keys not in places]:
        replies = yield Calls([_places_call(keys, sessions[keys][:MOST_SESSIONS]) for keys in remaining])
        for keys, reply in zip(remaining, replies, strict=True):
            if isinstance(reply, LockworkError):
                raise reply
            listed = [session.decode() for session in reply[14]]
            if set(listed) <= set(sessions[keys]):
                places[keys] = yield from _counted(keys, sessions[keys], reply)
            sessions[keys] = listed
    return [places[keys] for keys in queues]


def _places_call(keys: QueueKeys, sessions: Sequence[str]) -> Call:
    return script_call("search/places", keys, sessions, runs=[*map(keys.run, sessions)])


def _counted(keys: QueueKeys, sessions: Sequence[str], reply: Sequence[Any]) -> Protocol[_Places]:
    *lengths, left_out, numbered, limited, _ = reply[:15]
    running = list((yield from _running(keys, sessions, reply[15:])).values())
    names = ("ready:0", "ready:1", "ready:2", "void", "groups", "due", "dead", "history", "blocked", "came", "suspects")
    counts = dict(zip(names, lengths, strict=True)) | {"running": len(running)}
    counts["due"] -= counts["came"]
    return _Places(counts, counts.pop("void"), left_out, bool(numbered), bool(limited), running)


def _running(keys: QueueKeys, sessions: Sequence[str], first: Sequence[Any]) -> Protocol[dict[str, Run]]:
    """Read the running jobs of all sessions, by id; `first` is the first reply. Each further call is bounded, too."""
    running: dict[str, Run] = {}
    cursors = dict.fromkeys(sessions, b"0")
    batch, reply = sessions[:MOST_SESSIONS], first
    while True:
        for at, session in enumerate(batch):
            tokens, cursor = reply[2 * at : 2 * at + 2]
            # a scan may return a job twice
            for job in range(0, len(tokens), 2):
                run = (_started(tokens[job + 1]), records.name(tokens[job]), tokens[job + 1], session)
                running[run[1]] = max(run, running.get(run[1], run))
            if cursor == b"0":
                del cursors[session]
            elif cursor:
                cursors[session] = cursor
        batch = list(cursors)[:MOST_SESSIONS]
        if not batch:
            return running
        args = [cursors[session] for session in batch]
        reply = yield script_call("search/runs", [*map(keys.run, batch)], args)


def _sources(keys: QueueKeys, places: _Places, wanted: Wanted) -> Iterator[Source]:
    """Return the places to read, without empty places. With a key or a group, use the index of the group queue."""
    for kind in sorted(wanted.places):
        if not places.counts[kind] or ((wanted.key or wanted.group) and kind.startswith("ready:")):
            continue
        parts = [kind]
        if kind == "groups" and wanted.key:
            parts = [f"holder {wanted.key}", f"groups k {wanted.key}"]
        elif kind == "groups" and wanted.group:
            parts = ["groups k", *(f"groups g {level} {wanted.group}" for level in range(10 if places.numbered else 3))]
            parts += ["groups t"] if places.limited else []
        newest = wanted.newest != (kind == "due")
        held = places.running if kind == "running" else []
        held = sorted(held, key=lambda run: (run[0], records.raw(run[1])), reverse=wanted.newest)
        for place in parts:
            yield Source(keys, kind, place, newest, held)


def _started(token: bytes) -> int:
    words = token.split(b" ")
    return int(words[1]) if len(words) > 1 and words[1].isdigit() else 0
