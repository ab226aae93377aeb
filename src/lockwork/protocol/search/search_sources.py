"""Read the entries of one place of one partition in bounded steps, from a position."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from msgspec import Struct, field

from lockwork.protocol.effects import Argument, Protocol, script_call
from lockwork.protocol.history import history
from lockwork.protocol.history.history import EndedJob, PastAttempt
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queue import records
from lockwork.protocol.queue.envelope import shown_text
from lockwork.protocol.search.search_position import BLOCKED, LISTS, PLACES, STAGES, Position, mark

STEP = 1000
"""Limit of records per call."""
_IDS = 2000
"""Limit of ids to check per call; the call reads only the records whose ids may match."""
_IDS_PER_RECORD = 10
"""Number of ids that cost the server the same as one record."""
_SEEN = 2048
"""Bytes of each record to show; the arguments of a longer record are not shown."""
_WHOLE = 1 << 22
"""Bytes of a record to read if it is read whole. After a megabyte of records, a call reads no more records."""
Order = tuple[int, bytes]
"""Position of an entry in its stage: its score and id; or, in a list, its index and the list."""
Run = tuple[int, str, bytes, str]
"""A running job: its start (µs), id, token and session."""


class StoredJob(NamedTuple):
    """A job, at the time of the read; times in µs since 1970, or 0."""

    id: str
    queue: str
    place: str
    attempts: int
    record: bytes
    """The beginning of the record."""
    size: int
    error: records.Fault | None
    timeline: Sequence[PastAttempt]
    session: str
    enqueued: int
    due: int
    started: int
    ended: int
    letter: str
    """Outcome, as in history; f for a dead job."""

    @property
    def time(self) -> int:
        """Time of its end, else of its start, else of its enqueue."""
        return self.ended or self.started or self.enqueued


class Wanted(Struct, frozen=True):
    """A filter of jobs."""

    places: frozenset[str] = PLACES
    letters: str = ""
    """Outcomes of jobs in history: s, c, x; '': all."""
    key: str | None = None
    group: str | None = None
    since: float | None = None
    """Earliest time, in seconds since 1970."""
    until: float | None = None
    texts: tuple[str, ...] = ()
    """Texts that the id, record or error of every matching job contains."""
    suffix: str = ""
    """A pattern for the suffixes of ids (`ids.suffix_pattern`); jobs whose ids have no suffix may match, too."""
    matches: Callable[[StoredJob], bool | None] = lambda _: True
    """Returns None if the part of the record that was read is not enough to decide."""
    whole: bool = False
    """True if `matches` needs more of a record than its beginning."""
    guarded: bool = False
    """True if the server must not search texts in hidden arguments: the number of records read would reveal them."""
    newest: bool = True
    """Newest first, and scheduled jobs by next due time; else in the opposite order."""

    def holds(self, job: StoredJob) -> bool | None:
        """Return True if the job matches; None if the part of its record that was read is not enough to decide."""
        late = self.since is None or job.time >= self.since * 1_000_000
        return late and (self.until is None or job.time <= self.until * 1_000_000) and self.matches(job)


class Source(Struct):
    """The entries of one place of one partition."""

    keys: QueueKeys
    kind: str
    place: str
    newest: bool
    """True if the highest scores, or the end of the list, come first."""
    held: list[Run]
    """The running jobs, in order."""
    looked: int = 0
    """Number of entries that were read."""
    all_read: bool = False
    found: list[tuple[Order, StoredJob]] = field(default_factory=list)
    """Matching jobs, with their positions."""
    undecided: list[tuple[Order, str]] = field(default_factory=list)
    """Ids of jobs that may match, because only a part of their records was read and it is not enough to decide."""
    read_to: Order | None = None
    """The last entry that was read; None at the beginning."""
    scan: int = 0
    """The cursor of a scan, for blocked jobs."""

    @property
    def mark(self) -> str:
        """Short name of this place."""
        return mark(self.keys.name, self.place)

    def begin(self, position: Position) -> None:
        """Start after a position in the stage of this place."""
        if position.at < 0:
            return
        if position.stage == LISTS:
            passed = position.at - (self.mark > position.source)
            self.read_to = (passed, self.mark.encode()) if passed >= 0 else None
        elif position.stage == BLOCKED:
            self.all_read = self.mark < position.source
            self.scan = position.at if self.mark == position.source else 0
        elif self.kind == "dead":  # scores in the dead set are ms, in history µs
            ms, rest = divmod(position.at, 1000)
            self.read_to = ((ms + 1) * 1000, b"") if rest else (position.at, _raw(position.id))
        else:
            self.read_to = (position.at, _raw(position.id))

    def read(self, wanted: Wanted, most: int, matches: int) -> Protocol[int]:
        """Read up to `most` more records, or until `matches` jobs match; return the cost, in records."""
        behind = self._behind() if self.kind == "running" else []
        place, score, id = self._from()
        time_bounds = self._made(wanted)
        entries = max(most, _IDS) if wanted.suffix or any(time_bounds) else most
        ids = [_raw(run[1]) for run in behind[:entries]]
        args: list[Argument] = [
            place, int(self.newest), score, id, *self._scores(wanted), entries, most, matches,
            _WHOLE if wanted.whole else _SEEN, *time_bounds,
            wanted.suffix, wanted.letters, int(wanted.guarded), len(wanted.texts), *wanted.texts, *ids,
        ]  # fmt: skip
        _, _, looked, read, more, last_score, last, _, *rows = yield script_call("search/page", self.keys, args)
        runs = {run[1]: run for run in behind}
        for start in range(0, len(rows), 8):
            row = rows[start : start + 8]
            job = self._job(row, runs)
            if job is None or (meant := wanted.holds(job)) is False:
                continue
            order = self._order(row[0], row[1], job)
            if meant:
                self.found.append((order, job._replace(record=job.record[:_SEEN])))
            else:
                self.undecided.append((order, job.id))
        if self.kind == "running":
            self.all_read = looked >= len(behind)
            if looked:
                self.read_to = (behind[looked - 1][0], _raw(behind[looked - 1][1]))
        elif self.kind == "blocked":
            self.scan, self.all_read = int(last_score or 0), not more
        else:
            self.all_read = not more
            if looked:
                self.read_to = self._order(last_score, last, None)
        self.looked += looked
        return max(1, int(read), int(looked) // _IDS_PER_RECORD)

    def _behind(self) -> list[Run]:
        """Return the running jobs that were not yet read."""
        at = self.read_to
        return [run for run in self.held if at is None or self._is_behind((run[0], _raw(run[1])), at)]

    def _from(self) -> tuple[str, str, bytes]:
        """Return the place to read, and the score and id of the entry before the first entry to read."""
        if self.kind == "running":
            return "ids", "", b""
        if self.kind == "blocked":
            return self.place, str(self.scan), b""
        if self.is_list:
            return self.place, str(self.read_to[0] + 1 if self.read_to else 0), b""
        if self.read_to is None:
            return self.place, "", b""
        return self.place, str(self.read_to[0] // (1000 if self.kind == "dead" else 1)), self.read_to[1]

    @property
    def is_list(self) -> bool:
        """True if its entries are counted from an end."""
        return self.kind in STAGES[LISTS]

    def is_before(self, one: Order, other: Order) -> bool:
        """Return True if `one` comes before `other`, or equals it."""
        return one == other or not self._is_behind(one, other)

    def _is_behind(self, one: Order, other: Order) -> bool:
        return one < other if self.newest and not self.is_list else one > other

    def _order(self, score: Any, id: Any, job: StoredJob | None) -> Order:
        if self.kind == "running" and job is not None:
            return job.started, _raw(job.id)
        if self.is_list:
            return int(score) - 1, self.mark.encode()
        if self.kind == "blocked":
            return len(self.found), self.mark.encode()
        return round(float(score)) * (1000 if self.kind == "dead" else 1), bytes(id)

    def _scores(self, wanted: Wanted) -> list[Argument]:
        """Return the least and the greatest score; ms for dead jobs, µs for history."""
        unit = {"dead": 1000, "history": 1_000_000}.get(self.kind)
        times = (wanted.since, wanted.until)
        return ["" if unit is None or time is None else f"{time * unit:.0f}" for time in times]

    def _made(self, wanted: Wanted) -> list[str]:
        """Return the earliest and latest creation time (ms) of ids, in places that have only the time of enqueue."""
        if self.kind in ("running", "dead", "history"):
            return ["", ""]
        return ["" if time is None else f"{time * 1000:.0f}" for time in (wanted.since, wanted.until)]

    def _job(self, row: Sequence[Any], runs: dict[str, Run]) -> StoredJob | None:
        score, raw, tried, size, record, fault, timeline, ended = row
        id, queue = records.name(raw), self.keys.name
        if self.kind == "history":
            return _ended(id, queue, history.read_row(ended, score))
        started, _, token, session = runs.get(id, (0, "", b"", ""))
        past = history.read_timeline(timeline)
        attempts = records.counts(token or tried).attempts
        due = int(float(score) * 1000) if self.kind in ("due", "came") else 0
        died = int(float(score) * 1000) if self.kind == "dead" else 0
        if died and past:
            started, died, session = past[-1].started, past[-1].ended, past[-1].session
        error = records.fault(fault) if died else _fault(past[-1]) if past else None
        letter = "f" if died else ""
        return StoredJob(
            id, queue, self.kind, attempts, record, size, error, past, session, _enqueued(id, record), due,
            started, died, letter,
        )  # fmt: skip


def _ended(id: str, queue: str, row: EndedJob | None) -> StoredJob | None:
    if row is None:
        return None
    enqueued = _enqueued(id, row.record)
    last = row.timeline[-1] if row.timeline else None
    error = _fault(last) if last and row.letter != "s" else None
    return StoredJob(
        id, queue, "history", row.attempts, row.record, row.size, error, row.timeline, row.session, enqueued, 0,
        row.started, row.ended, row.letter,
    )  # fmt: skip


def _fault(attempt: PastAttempt) -> records.Fault:
    return records.Fault(attempt.type, shown_text(attempt.text), None)


def _enqueued(id: str, record: bytes) -> int:
    seconds = records.made(id, record)
    return 0 if seconds is None else int(seconds * 1_000_000)


_raw = records.raw
