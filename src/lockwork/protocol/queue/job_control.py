"""One job: how it is looked at, cancelled, moved and run again from outside, and what it writes down while it runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from lockwork.protocol.effects import Argument, Clock, Protocol, script_call
from lockwork.protocol.history import history
from lockwork.protocol.history.history import EndedJob, PastAttempt
from lockwork.protocol.keys import QueueKeys, channel
from lockwork.protocol.messages import Hints, listen
from lockwork.protocol.queue import records
from lockwork.protocol.queue.leases import RECHECK, WINDOW_MS, Leased, expire
from lockwork.protocol.queue.records import Counts

SOON = 0.05
"""Seconds until a worker checks again for a job that the server announced, but that has not arrived yet."""


@dataclass(frozen=True, slots=True)
class Note:
    """What a job has written down: its progress, and the steps that it has finished, with their values; JSON all."""

    progress: str = ""
    steps: dict[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, stored: bytes) -> Note:
        """Read a note as the server keeps it."""
        if len(stored) < 2:
            return cls()
        progress, *rest = msgspec.msgpack.decode(stored[1:])
        return cls(progress, dict(zip(rest[::2], rest[1::2], strict=True)))


@dataclass(frozen=True, slots=True)
class JobDetails:
    """All that the server has of a job. Moments are in ms since 1970, None if there is none.

    `state` is a `State` of jobs/snapshot.py, or "active" for a job that waits or runs; `blob` is the job's outcome, or
    the error of a dead job.
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
    """When it ended, in µs since 1970."""
    session: str = ""
    """The worker session that runs it."""
    token: bytes = b""
    """Of the delivery that runs."""
    counts: Counts = records.NONE
    suspect: bool = False
    """Whether it waits to run alone."""


def inspect(queue: QueueKeys, id: str, channel: str = "", window_ms: int = WINDOW_MS) -> Protocol[JobDetails]:
    """Read a job. The server publishes its progress and its end on `channel`."""
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
    )


@dataclass(frozen=True, slots=True)
class JobPlace:
    """Where a job is: scheduled, blocked, ready, running, or gone; how many worker processes serve its queue."""

    state: str
    workers: int
    paused: bool
    session: str = ""
    """The worker session that runs it."""
    token: bytes = b""
    """Of the delivery that runs."""


def find_place(queue: QueueKeys, id: str) -> Protocol[JobPlace]:
    """Find the place of a job that has not ended. Takes two calls at most, unless more workers start meanwhile."""
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
    """Wait, after `inspect` with a channel, until the state of the job may have changed."""
    yield from listen(hints, id, (yield Clock()) + RECHECK, key=queue.jobs)


def cancel(queue: QueueKeys, id: str, prefix: str, window_ms: int = WINDOW_MS) -> Protocol[str]:
    """Cancel a job; returns cancelled, running (its worker has been told), ended or unknown."""
    done: str = yield from _handle("queue/cancel", queue, [window_ms, id, channel(prefix, "")])
    return done


def delete(queue: QueueKeys, id: str, window_ms: int = WINDOW_MS) -> Protocol[str]:
    """Delete a job that waits or is dead, or what history has of it; returns deleted, running or unknown."""
    done: str = yield from _handle("queue/delete", queue, [window_ms, id])
    return done


def reschedule(queue: QueueKeys, id: str, delay_ms: int) -> Protocol[str]:
    """Let a waiting job run after `delay_ms`, or at the moment -`delay_ms`; scheduled, running,
    blocked (by others of its flow), ended or unknown."""
    done: str = yield from _handle("queue/reschedule", queue, [id, delay_ms])
    return done


def revive(queue: QueueKeys, id: str, delay_ms: int = 0) -> Protocol[str]:
    """Let a job run again that is dead, cancelled or expired.

    Returns revived; or, when nothing was done, waiting, succeeded, taken, blocked (by others of its flow) or unknown.
    """
    state: bytes = yield script_call("queue/revive", queue, [0, id, delay_ms])
    return state.decode()


def _handle(name: str, queue: QueueKeys, args: Sequence[Argument]) -> Protocol[str]:
    """Call a script that wants to know where a job is, and learns from it which worker sessions there are."""
    sessions: list[str] = []
    while True:
        reply: list[bytes] = yield script_call(name, queue, [*args, *sessions], runs=[*map(queue.run, sessions)])
        state, *listed = [text.decode() for text in reply]
        if state != "look":
            return state
        sessions = listed


def note(queue: QueueKeys, session: str, job: Leased, step: str, value: bytes, cap: int) -> Protocol[int]:
    """Write down a running job's progress (no `step`) or a finished step; 1, 0: the lease is over, -1: too much."""
    written: int = yield script_call("queue/note", queue, [job.id, job.token, cap, step, value], run=queue.run(session))
    return written


def asked(queue: QueueKeys, session: str, held: Sequence[Leased]) -> Protocol[set[str]]:
    """Return the ids of those jobs, held by the session, that are to be cancelled."""
    args: list[Argument] = []
    for job in held:
        args += (job.id, job.token)
    found = yield script_call("queue/cancel_requests", queue, args, run=queue.run(session))
    return {id.decode() for id in found}


def hear(queue: QueueKeys, pause: float, hints: Hints) -> Protocol[str | None]:
    """Wait at most `pause` seconds for a message to this worker that a job is cancelled.

    Returns the job's id as the message has it, "" if that is not known, or None without a message.
    """
    ids: list[str] = []
    heard = yield from listen(hints, queue.job_notes, (yield Clock()) + pause, ids.append)
    return None if heard is None else ids[0] if len(ids) == 1 else ""


def _or_none(number: int) -> int | None:
    return None if number < 0 else number
