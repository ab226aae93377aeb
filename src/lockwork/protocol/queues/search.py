"""Jobs in all places of some queues, filtered and read in bounded steps."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from heapq import heapify, heappop, heappush
from typing import Any, NamedTuple

import msgspec

from lockwork.errors import LockworkError
from lockwork.protocol.effects import Argument, Calls, Protocol, script_call
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queues import history, records
from lockwork.protocol.queues.history import EndedJob, PastAttempt

STEP = 1000
"""Records that one call reads at most."""
_SEARCH = 400
"""Records in which one call looks for texts; more would take a large server longer than 5 ms."""
_SEARCH_DEAD = 200
"""The same of dead jobs: their errors are read as well."""
_IDS = 2000
"""Ids that one call looks at, of which it reads only the records that may be meant."""
_IDS_PER_RECORD = 10
"""Ids that cost the server as much as one record."""
_SEEN = 2048
"""Bytes of a record that are read: the arguments of a longer one are not shown."""
_STAGES = (
    ("running",),
    ("ready:0", "ready:1", "ready:2", "groups", "came"),
    ("due",),
    ("blocked",),
    ("dead", "history"),
)
"""The places; pages show one stage after the other."""
PLACES: frozenset[str] = frozenset(place for stage in _STAGES for place in stage)


class StoredJob(NamedTuple):
    """A job as it was read; times in µs since 1970, 0 where there is none."""

    id: str
    queue: str
    place: str
    attempts: int
    record: bytes
    """Its beginning."""
    size: int
    error: records.Fault | None
    timeline: Sequence[PastAttempt]
    session: str
    enqueued: int
    due: int
    started: int
    ended: int
    letter: str
    """How it ended, as in history; f for a dead job."""

    @property
    def time(self) -> int:
        """When it ended, started, or was enqueued."""
        return self.ended or self.started or self.enqueued


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which jobs are meant."""

    places: frozenset[str] = PLACES
    letters: str = ""
    """Of history: s, c, x; '': all."""
    key: str | None = None
    group: str | None = None
    since: float | None = None
    """The earliest time, in seconds since 1970."""
    until: float | None = None
    texts: tuple[str, ...] = ()
    """What a job's id, record or error surely contains if the job is meant."""
    suffix: str = ""
    """A pattern for the suffixes of ids (`ids.suffix_pattern`); jobs whose ids have no suffix may be meant, too."""
    matches: Callable[[StoredJob], bool] = lambda _: True
    newest: bool = True
    """The newest first, and of scheduled jobs the next due; else the other way round."""

    def holds(self, job: StoredJob) -> bool:
        """Whether this job is meant."""
        late = self.since is None or job.time >= self.since * 1_000_000
        return late and (self.until is None or job.time <= self.until * 1_000_000) and self.matches(job)


@dataclass(frozen=True, slots=True)
class StoredPage:
    """Some jobs; `next` is what to give as `after` for those behind them, None when there are no more."""

    jobs: list[StoredJob]
    searched: int
    total: int
    next: str | None
    sampled: int
    """Successes that history left out."""


_Cursors = dict[tuple[str, str], list[str] | None]
_decode = msgspec.json.Decoder(list[tuple[str, str, list[str] | None]]).decode


def read_cursor(text: str) -> _Cursors:
    """Read the `next` of a page; raises ValueError."""
    try:
        return {(queue, place): at for queue, place, at in _decode(urlsafe_b64decode(text))}
    except msgspec.MsgspecError as error:
        raise ValueError(text) from error


def search(
    queues: Sequence[QueueKeys], wanted: Wanted, after: _Cursors, limit: int, budget: int
) -> Protocol[StoredPage]:
    """Read up to `limit` jobs that are meant; about `budget` records are read for those, or ten times as many ids."""
    total = sampled = spent = 0
    sources: list[_Source] = []
    for keys, places in zip(queues, (yield from _places(queues)), strict=True):
        total += sum(places.counts[place] for place in wanted.places) - places.void * ("ready:0" in wanted.places)
        sampled += places.left_out if "history" in wanted.places else 0
        sources += _sources(keys, places, wanted, after)
    jobs: list[StoredJob] = []
    for stage in _STAGES:
        some = [source for source in sources if source.kind in stage and not source.over]
        while some and len(jobs) < limit and (spent < budget or not spent):
            need = limit - len(jobs)
            spent += yield from _read(some, wanted, need, budget - spent)
            jobs += _merged(some, wanted.newest, need)
            some = [source for source in some if not source.over]
    searched = sum(source.looked for source in sources)
    left = any(not source.over for source in sources)
    cursors = [(source.keys.name, source.place, None if source.over else source.cursor) for source in sources]
    ended = [(queue, place, None) for (queue, place), at in after.items() if at is None]
    known = {(queue, place) for queue, place, _ in cursors}
    cursors += [each for each in ended if each[:2] not in known]
    next = urlsafe_b64encode(msgspec.json.encode(cursors)).decode() if left else None
    return StoredPage(jobs, searched, total, next, sampled)


_CHANGEABLE = {
    "cancel": PLACES - {"dead", "history"},
    "retry": frozenset(("dead", "history")),
    "delete": PLACES - {"running"},
}
Progress = Callable[[int, int], object]
Change = Callable[[QueueKeys, str], Protocol[bool]]


def change_all(
    queues: Sequence[QueueKeys], wanted: Wanted, action: str, change: Change, most: int | None, progress: Progress
) -> Protocol[int]:
    """Change all jobs that are meant and that the action can change, or `most` of them; returns how many.

    What is changed moves, so that a page may miss some: it is searched again until nothing was left to change.
    """
    places = wanted.places & _CHANGEABLE[action]
    letters = wanted.letters or ("cx" if action == "retry" else "")
    wanted = replace(wanted, places=places, letters=letters)
    by_name = {keys.name: keys for keys in queues}
    changed, searched = set[tuple[str, str]](), 0
    while True:
        before, after = len(changed), _Cursors()
        while True:
            page = yield from search(queues, wanted, after, STEP // 2, STEP)
            searched += page.searched
            for job in page.jobs:
                if most is not None and len(changed) >= most:
                    return len(changed)
                if (job.queue, job.id) not in changed and (yield from change(by_name[job.queue], job.id)):
                    changed.add((job.queue, job.id))
                    progress(len(changed), searched)
            progress(len(changed), searched)
            if page.next is None:
                break
            after = read_cursor(page.next)
        if len(changed) == before:
            return len(changed)


class _Places(NamedTuple):
    """How many entries each place of a queue has, and what its workers run."""

    counts: dict[str, int]
    void: int
    left_out: int
    running: list[tuple[int, str, bytes, str]]
    """When it started (µs), id, token and session."""


def _places(queues: Sequence[QueueKeys]) -> Protocol[list[_Places]]:
    """Count for all queues: as many round trips as for one, on each server."""
    found: dict[QueueKeys, _Places] = {}
    sessions: dict[QueueKeys, list[str]] = {keys: [] for keys in queues}
    while left := [keys for keys in queues if keys not in found]:
        replies = yield Calls(
            [script_call("jobs_places", keys, sessions[keys], runs=[*map(keys.run, sessions[keys])]) for keys in left]
        )
        for keys, reply in zip(left, replies, strict=True):
            if isinstance(reply, LockworkError):
                raise reply
            listed = [session.decode() for session in reply[11]]
            if set(listed) <= set(sessions[keys]):
                found[keys] = _counted(sessions[keys], reply)
            sessions[keys] = listed
    return [found[keys] for keys in queues]


def _counted(sessions: Sequence[str], reply: Sequence[Any]) -> _Places:
    *lengths, left_out, _ = reply[:12]
    running = [
        (_started(tokens[at + 1]), records.name(tokens[at]), tokens[at + 1], session)
        for session, tokens in zip(sessions, reply[12:], strict=True)
        for at in range(0, len(tokens), 2)
    ]
    names = ("ready:0", "ready:1", "ready:2", "void", "groups", "due", "dead", "history", "blocked", "came")
    counts = dict(zip(names, lengths, strict=True)) | {"running": len(running)}
    counts["due"] -= counts["came"]
    return _Places(counts, counts.pop("void"), left_out, running)


def _sources(keys: QueueKeys, places: _Places, wanted: Wanted, after: _Cursors) -> Iterator[_Source]:
    """Return where to read, as far as there is something; what is indexed is not searched."""
    for kind in sorted(wanted.places):
        if not places.counts[kind] or ((wanted.key or wanted.group) and kind.startswith("ready:")):
            continue
        parts = [kind]
        if kind == "groups" and wanted.key:
            parts = [f"holder {wanted.key}", f"groups k {wanted.key}"]
        elif kind == "groups" and wanted.group:
            parts = ["groups k", *(f"groups g {level} {wanted.group}" for level in range(3))]
        for place in parts:
            at = after.get((keys.name, place), [])
            held = sorted(places.running, reverse=wanted.newest) if kind == "running" else []
            yield _Source(keys, kind, place, at or [], at is None, held)


@dataclass(slots=True)
class _Source:
    """The entries of one place of one partition."""

    keys: QueueKeys
    kind: str
    place: str
    cursor: list[str]
    """Behind the last job that was shown; empty at the beginning."""
    over: bool
    held: list[tuple[int, str, bytes, str]]
    """The jobs that run, in order."""
    looked: int = 0
    """Entries that were looked at."""
    read_to: list[str] = field(default_factory=list)
    all_read: bool = False
    found: list[tuple[StoredJob, list[str]]] = field(default_factory=list)
    """Jobs that are meant and not shown yet, and the cursor behind each."""

    def read(self, wanted: Wanted, most: int, matches: int) -> Protocol[int]:
        """Read up to `most` more records; returns what that cost, in records."""
        at = self.read_to or self.cursor
        first, second = (*at, "", "")[:2]
        behind: list[tuple[int, str, bytes, str]] = []
        place = self.place
        if self.kind == "running":
            key = (int(first), second) if at else None
            behind = [job for job in self.held if key is None or (job[:2] < key if wanted.newest else job[:2] > key)]
            place, first, second = "ids", "", ""
        skip = int(second or 0) if self.kind == "blocked" else 0
        texts = wanted.texts
        newest = wanted.newest != (self.kind == "due")
        made = self._made(wanted)
        entries = max(most, _IDS) if wanted.suffix or any(made) else most
        ids = [records.raw(job[1]) for job in behind[:entries]]
        args: list[Argument] = [
            place, int(newest), first, "" if skip else records.raw(second), *self._scores(wanted), entries, most,
            matches + skip, _SEEN, *made, wanted.suffix, wanted.letters, len(texts), *texts, *ids,
        ]  # fmt: skip
        _, _, looked, read, more, score, last, _, *rows = yield script_call("jobs_search", self.keys, args)
        tokens = {job[1]: job for job in behind}
        for number, start in enumerate(range(0, len(rows), 8)):
            if number < skip:
                continue
            job = self._job(rows[start : start + 8], tokens)
            if job is not None and wanted.holds(job):
                self.found.append((job, self._behind(rows[start], job, first, number)))
        if self.kind == "running":
            self.read_to = [str(behind[looked - 1][0]), behind[looked - 1][1]] if looked else at
            self.all_read = looked >= len(behind)
        else:
            self.read_to = [_text(score), "" if self.kind == "blocked" else records.name(last)] if looked else at
            self.all_read = not more
        self.looked += looked
        return max(1, int(read), int(looked) // _IDS_PER_RECORD)

    def _scores(self, wanted: Wanted) -> list[Argument]:
        """The least and the greatest score; ms of the dead, µs of history."""
        unit = {"dead": 1000, "history": 1_000_000}.get(self.kind)
        times = (wanted.since, wanted.until)
        return ["" if unit is None or time is None else f"{time * unit:.0f}" for time in times]

    def _made(self, wanted: Wanted) -> list[str]:
        """The earliest and the latest ms at which ids were made, of the places whose time is that of the enqueue."""
        if self.kind in ("running", "dead", "history"):
            return ["", ""]
        return ["" if time is None else f"{time * 1000:.0f}" for time in (wanted.since, wanted.until)]

    def _behind(self, mark: Any, job: StoredJob, scan: str, number: int) -> list[str]:
        """Return where to go on behind this job."""
        if self.kind == "running":
            return [str(job.started), job.id]
        return [scan or "0", str(number + 1)] if self.kind == "blocked" else [_text(mark), job.id]

    def _job(self, row: Sequence[Any], tokens: dict[str, tuple[int, str, bytes, str]]) -> StoredJob | None:
        mark, raw, tried, size, record, fault, timeline, ended = row
        id, queue = records.name(raw), self.keys.name
        made = records.made(id)
        enqueued = 0 if made is None else int(made * 1_000_000)
        if self.kind == "history":
            return _ended(id, queue, enqueued, history.read_row(ended, mark))
        started, _, token, session = tokens.get(id, (0, "", b"", ""))
        past = history.read_timeline(timeline)
        attempts = records.counts(token or tried).attempts
        due = int(float(mark) * 1000) if self.kind in ("due", "came") else 0
        died = int(float(mark) * 1000) if self.kind == "dead" else 0
        if died and past:
            started, died, session = past[-1].started, past[-1].ended, past[-1].session
        error = records.fault(fault) if died else records.Fault(past[-1].type, past[-1].text, None) if past else None
        letter = "f" if died else ""
        return StoredJob(
            id, queue, self.kind, attempts, record, size, error, past, session, enqueued, due, started, died, letter
        )  # fmt: skip


def _read(sources: Iterable[_Source], wanted: Wanted, need: int, budget: int) -> Protocol[int]:
    """Read from each source until it has as many jobs as are needed, or the budget is used up; returns the cost."""
    spent = 0
    for source in sources:
        first = True
        while not source.all_read and len(source.found) < need and (first or spent < budget):
            if wanted.texts:
                most = _SEARCH_DEAD if source.kind == "dead" else _SEARCH
            else:
                most = STEP if wanted.letters else min(STEP, need - len(source.found))
            most = max(1, min(most, budget - spent)) if not first else min(most, max(need, budget))
            spent += yield from source.read(wanted, most, need - len(source.found))
            first = False
    return spent


def _merged(sources: Sequence[_Source], newest: bool, most: int) -> list[StoredJob]:
    """Take the first jobs of all sources, and move the sources' cursors behind those that were taken."""
    taken: list[StoredJob] = []
    heads = [(_order(source.found[0][0], newest), number, 0) for number, source in enumerate(sources) if source.found]
    heapify(heads)
    counts = [0] * len(sources)
    while heads and len(taken) < most:
        _, number, at = heappop(heads)
        found = sources[number].found
        taken.append(found[at][0])
        counts[number] = at + 1
        if at + 1 < len(found):
            heappush(heads, (_order(found[at + 1][0], newest), number, at + 1))
    for source, count in zip(sources, counts, strict=True):
        if count == len(source.found):
            source.cursor, source.over = source.read_to or source.cursor, source.all_read
        elif count:
            source.cursor = source.found[count - 1][1]
        source.found = source.found[count:]
    return taken


def _order(job: StoredJob, newest: bool) -> int:
    if job.place == "due":
        return job.due if newest else -job.due
    return -job.time if newest else job.time


def _ended(id: str, queue: str, enqueued: int, row: EndedJob | None) -> StoredJob | None:
    if row is None:
        return None
    last = row.timeline[-1] if row.timeline else None
    error = records.Fault(last.type, last.text, None) if last and row.letter != "s" else None
    return StoredJob(
        id, queue, "history", row.attempts, row.record, row.size, error, row.timeline, row.session, enqueued, 0,
        row.started, row.ended, row.letter,
    )  # fmt: skip


def _started(token: bytes) -> int:
    words = token.split(b" ")
    return int(words[1]) if len(words) > 1 and words[1].isdigit() else 0


def _text(value: Any) -> str:
    return value.decode(errors="surrogateescape") if isinstance(value, bytes) else str(value)
