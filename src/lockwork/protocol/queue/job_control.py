"""Inspect, cancel, move, delete and revive one job, and write its progress and finished steps."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import Struct, field

from lockwork.protocol.effects import Argument, Clock, Protocol, script_call
from lockwork.protocol.history import history
from lockwork.protocol.history.history import EndedJob, PastAttempt
from lockwork.protocol.keys import QueueKeys, channel
from lockwork.protocol.messages import Hints, listen
from lockwork.protocol.queue import records
from lockwork.protocol.queue.leases import RECHECK, WINDOW_MS, Leased, expire
from lockwork.protocol.queue.records import Counts

SOON = 0.05
"""Seconds until a worker checks again for a job that the server announced but that has not arrived yet."""


class Note(Struct, frozen=True):
    """Note of a job: its progress, and its finished steps with their values; all values are JSON."""

    progress: str = ""
    steps: dict[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, stored: bytes) -> Note:
        """Parse a stored note."""
        if len(stored) < 2:
            return cls()
        progress, *rest = msgspec.msgpack.decode(stored[1:])
        return cls(progress, dict(zip(rest[::2], rest[1::2], strict=True)))


class JobDetails(Struct, frozen=True):
    """Everything stored about a job; times in ms since 1970, or None.

    `state` is a `State` of jobs/snapshot.py, or "active"; `blob` is its outcome, or the error of a dead job.
    """

    state: str
    attempts: int | None
    due: int | None
    expires: int | None
    note: Note
    blob: bytes
    record: bytes
    timeline: Sequence[PastAttempt] = ()
    row: EndedJob | None = None
    ended: int | None = None
    """End of the job, in µs since 1970."""
    session: str = ""
    """The worker session that runs it."""
    token: bytes = b""
    """Token of the running delivery."""
    counts: Counts = records.NONE
    suspect: bool = False
    """True if it waits to run alone."""
    at: int = 0
    """The server's time."""


def inspect(queue: QueueKeys, id: str, channel: str = "", window_ms: int = WINDOW_MS) -> Protocol[JobDetails]:
    """Read everything stored about a job; `channel` is notified of its progress and of its end."""
    while True:
        reply = yield script_call("queue/inspect", queue, [id, channel])
        state, attempts, due, expires, note, blob, record, now, timeline, row, ended, *tried = reply
        if not 0 <= expires <= now:
            break
        yield from expire(queue, window_ms)
    return JobDetails(
        state.decode(),
        _or_none(attempts),
        _or_none(due),
        _or_none(expires),
        Note.read(note),
        blob,
        record,
        history.read_timeline(timeline),
        history.read_row(row, ended) if row else None,
        int(float(ended)) if ended else None,
        counts=records.counts(tried[0]) if tried else records.NONE,
        suspect=bool(tried) and tried[0].endswith(b"!"),
        at=now,
    )


class JobPlace(Struct, frozen=True):
    """Place of a job (scheduled, blocked, ready, running or gone), and the number of worker processes of its queue."""

    state: str
    workers: int
    paused: bool
    session: str = ""
    """The worker session that runs it."""
    token: bytes = b""
    """Token of the running delivery."""


def find_place(queue: QueueKeys, id: str) -> Protocol[JobPlace]:
    """Find the place of a job that has not ended. Makes at most two calls, unless workers join meanwhile."""
    sessions: list[str] = []
    while True:
        runs = [*map(queue.run, sessions)]
        state, workers, paused, *listed = yield script_call("queue/locate", queue, [id, *sessions], runs=runs)
        if state == b"running":
            return JobPlace("running", workers, bool(paused), listed[0].decode(), listed[1])
        if state != b"look":
            return JobPlace(state.decode(), workers, bool(paused))
        sessions = [session.decode() for session in listed]


def changed(queue: QueueKeys, id: str, hints: Hints) -> Protocol[None]:
    """Wait at most RECHECK seconds for a message about the job; call `inspect` with a channel first."""
    yield from listen(hints, id, (yield Clock()) + RECHECK, key=queue.jobs)


def cancel(queue: QueueKeys, id: str, prefix: str, window_ms: int = WINDOW_MS) -> Protocol[str]:
    """Cancel a job; return cancelled, running (its worker was notified), ended or unknown."""
    done: str = yield from _handle("queue/cancel", queue, [window_ms, id, channel(prefix, "")])
    return done


def delete(queue: QueueKeys, id: str, window_ms: int = WINDOW_MS) -> Protocol[str]:
    """Delete a waiting or dead job, or the history of an ended job; return deleted, running or unknown."""
    done: str = yield from _handle("queue/delete", queue, [window_ms, id])
    return done


def reschedule(queue: QueueKeys, id: str, delay_ms: int) -> Protocol[str]:
    """Move a waiting job: it is due after `delay_ms`, or at `-delay_ms` (ms since 1970) if that is negative.

    Return scheduled (done); or running, blocked (by other jobs of its flow), ended or unknown, if nothing changed.
    """
    done: str = yield from _handle("queue/reschedule", queue, [id, delay_ms])
    return done


def revive(queue: QueueKeys, id: str, delay_ms: int = 0) -> Protocol[str]:
    """Run a dead, cancelled or expired job again.

    Return revived; or, if nothing changed, waiting, succeeded, taken, blocked (by other jobs of its flow) or unknown.
    """
    state: bytes = yield script_call("queue/revive", queue, [0, id, delay_ms])
    return state.decode()


def _handle(name: str, queue: QueueKeys, args: Sequence[Argument]) -> Protocol[str]:
    """Call a script that searches for a job in the run hashes of sessions, until it has no new sessions to search."""
    sessions: list[str] = []
    while True:
        reply: list[bytes] = yield script_call(name, queue, [*args, *sessions], runs=[*map(queue.run, sessions)])
        state, *listed = [text.decode() for text in reply]
        if state != "look":
            return state
        sessions = listed


def note(queue: QueueKeys, session: str, job: Leased, step: str, value: bytes, cap: int) -> Protocol[int]:
    """Store a running job's progress (`step` is "") or the value of a finished step.

    Return a code of queue/note: stored, lease_over, or too_large if the note would exceed `cap` bytes.
    """
    written: int = yield script_call("queue/note", queue, [job.id, job.token, cap, step, value], run=queue.run(session))
    return written


def asked(queue: QueueKeys, session: str, held: Sequence[Leased]) -> Protocol[set[str]]:
    """Return the ids of the session's jobs that have a cancellation request."""
    args: list[Argument] = []
    for job in held:
        args += (job.id, job.token)
    ids = yield script_call("queue/cancel_requests", queue, args, run=queue.run(session))
    return {id.decode() for id in ids}


def hear(queue: QueueKeys, pause: float, hints: Hints) -> Protocol[str | None]:
    """Wait at most `pause` seconds for a message to this worker that a job is cancelled.

    Return the job's id from the message; "" if the id is not known; None without a message.
    """
    ids: list[str] = []
    message = yield from listen(hints, queue.job_notes, (yield Clock()) + pause, ids.append)
    return None if message is None else ids[0] if len(ids) == 1 else ""


def _or_none(number: int) -> int | None:
    return None if number < 0 else number
