"""Lease, settle and recover jobs, and read their outcomes."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Sequence
from typing import Any, Literal, NamedTuple

from msgspec import Struct

from lockwork.protocol import messages
from lockwork.protocol.effects import Argument, Call, Clock, Protocol, script_call
from lockwork.protocol.keys import QueueKeys, channel
from lockwork.protocol.queue import record_header, records
from lockwork.protocol.queue.enqueue import CALL_BYTES
from lockwork.protocol.retry import patience
from lockwork.protocol.scripts import codes

SETTLE_BATCH = 500
RESERVE_BATCH = 1000
WINDOW_MS = 600_000
OTHER = "(other)"
"""Task name that counts the jobs whose own task is unknown, or exceeds the limit of counted tasks."""
UNENDED = ("active", "scheduled", "blocked")
"""The states of a job that has not ended."""
RECHECK = 5.0
"""Seconds until a waiting caller checks again, in case its wake-up was lost."""
_OFFER = re.compile(r"([0-9]{1,9}) ([0-9]{1,18}) ~ ([^ ]+) (.*)", re.DOTALL)


class Leased(NamedTuple):
    """A job that is leased to a worker session; `token` settles it, `fence` increases with every delivery.

    `attempt` is 1 plus the number of earlier deliveries that count. `note` is the job note of earlier deliveries.
    `parked` is when a worker first returned the job because its task was unknown (ms, by the server's clock), or 0.
    """

    id: str
    token: bytes
    record: bytes
    attempt: int
    fence: int
    note: bytes = b""
    parked: int = 0

    @property
    def crashes(self) -> int:
        """Number of earlier deliveries that ended with the death of a process that ran only this job."""
        return records.counts(self.token).crashes

    @property
    def deaths(self) -> int:
        """Number of earlier deliveries that ended with the death of the process, alone or beside other jobs."""
        counts = records.counts(self.token)
        return counts.crashes + counts.shared


class Batch(Struct, frozen=True):
    """The result of a reserve call.

    `next_due` is seconds until a scheduled job is due, or None. `fence` is higher than the fence of any earlier
    delivery of the queue.
    """

    jobs: list[Leased]
    next_due: float | None
    fence: int = 0
    secret: str = ""
    """Secret of the seals on offers to the caller; empty if the server will not wake the caller."""
    parked: bool = False
    """True if the queue has parked jobs, which workers returned because they could not run them."""
    tasks: frozenset[str] = frozenset()
    """The tasks of the parked jobs in this batch."""
    flow_messages: bool = False
    """True if messages of flows to other queues wait for a relay."""


class SessionOver(Exception):
    """The lease of this worker session has ended: other workers run its jobs."""


def expire(queue: QueueKeys, window_ms: int) -> Protocol[None]:
    """End the jobs that did not start in time."""
    while (yield _expire(queue, window_ms)):
        pass


def _expire(queue: QueueKeys, window_ms: int) -> Call:
    return script_call("queue/expire", queue, [window_ms])


def reserve(
    queue: QueueKeys,
    session: str,
    want: int,
    request: str,
    channel: str,
    *,
    again: bool = False,
    last: int = 0,
    tasks: str = "",
    window_ms: int = WINDOW_MS,
) -> Protocol[Batch]:
    """Lease up to `want` jobs to the session; if no job is ready, the server will send a wake-up to `channel`.

    request: after an error, send the same `request` with `again`, because the failed call may have leased jobs.
    last: highest fence of the jobs of this queue that the session received. If the server has offered the session a
    newer job, the reply contains that job.
    tasks: the tasks that the worker knows, `TASK VERSION TASK VERSION ...`. Their parked jobs come first.

    Raises SessionOver.
    """
    args: list[Argument] = [
        int(again), min(want, RESERVE_BATCH), request, session, channel, last, messages.secret(queue.jobs)
    ]  # fmt: skip
    call = script_call(
        "queue/reserve",
        queue,
        [*args, tasks] if tasks else args,
        run=queue.run(session),
        prompt=True,  # the server leases jobs while the worker runs earlier ones
    )
    reply: list[Any] = yield call
    while reply[0] == codes("queue/reserve").expire_first:
        yield _expire(queue, window_ms)
        reply = yield call
    return _batch(reply, session, channel)


ALONE = "!"
"""Begins the requests of isolation processes."""


def reserve_suspect(queue: QueueKeys, session: str, request: str, *, again: bool = False) -> Protocol[Batch]:
    """Lease one suspect to the session of an isolation process, which must hold no other job.

    `next_due` is seconds until the next call, None if no suspect waits. After an error, send the same `request` with
    `again`, as in `reserve`. Raises SessionOver.
    """
    *reply, note = yield script_call(
        "queue/reserve_suspects", queue, [int(again), f"{ALONE}{request}", session], run=queue.run(session)
    )
    return _batch(reply, session, "", note or None)


def _batch(reply: Sequence[Any], session: str, channel: str, note: bytes | None = None) -> Batch:
    state, fence, due_ms, *fields = reply
    flags = codes("queue/reserve")
    if state == flags.session_over:
        raise SessionOver(session)
    parked, flow_messages = bool(state & flags.has_parked), bool(state & flags.has_messages)
    if len(fields) == 1:
        due = None if due_ms < 0 else due_ms / 1000
        return Batch([], due, fence, fields[0].decode() + channel, parked, flow_messages=flow_messages)
    notes, parked_tasks = fields.pop() if state & flags.with_notes else None, frozenset[str]()
    jobs = [
        Leased(fields[at].decode(), fields[at + 1], fields[at + 2], _attempt(fields[at + 1]), fence)
        for at in range(0, len(fields), 3)
    ]
    if note:
        jobs = [job._replace(note=note) for job in jobs]
    if notes:
        noted = {notes[at].decode(): notes[at + 1] for at in range(0, len(notes), 2)}
        jobs = [job._replace(note=noted[job.id]) if job.id in noted else job for job in jobs]
        if parked:
            since = {name[:-2]: entry.split(b" ") for name, entry in noted.items() if name.endswith(" p")}
            jobs = [job._replace(parked=int(since[job.id][0])) if job.id in since else job for job in jobs]
            parked_tasks = frozenset(entry[2].decode() for entry in since.values())
    return Batch(jobs, None if due_ms < 0 else due_ms / 1000, fence, "", parked, parked_tasks, flow_messages)


def fence_of(token: bytes) -> int:
    """Read the fence of the delivery that a token settles."""
    return int(token.split(b" ", 2)[1])


def _attempt(token: bytes) -> int:
    first = token.split(b" ", 1)[0]
    return int(first) if first.isdigit() else records.counts(first).attempts


def idle(queue: QueueKeys, batch: Batch, hints: messages.Hints) -> Protocol[Leased | None]:
    """Wait, after an empty batch, until a reserve call may return jobs. Return the job in the wake-up, if any.

    That job is leased to the caller. If the caller cannot start it, the next `reserve` call replies with it, or
    `forward_wakeup` returns it to the queue.
    """
    now = yield Clock()
    pause = RECHECK if batch.next_due is None else min(batch.next_due, RECHECK)
    message = yield from messages.listen(hints, queue.jobs, now + pause, lambda text: offered(queue, batch, text))
    return message if isinstance(message, Leased) else None


def offered(queue: QueueKeys, batch: Batch, text: str) -> Leased | None:
    """Read the job of a wake-up that follows an empty batch (queue/parts/offer.lua); None for other messages."""
    words = messages.opened(batch.secret, queue.jobs, text)
    match = _OFFER.fullmatch(words) if words else None
    # the reply of that batch contained any earlier offer, or the job went to another worker
    if not match or int(match[2]) < batch.fence:
        return None
    token, id, record = f"{match[1]} {match[2]} ~", match[3], match[4]
    raw = record.encode(errors="surrogateescape")
    return Leased(id, token.encode(), raw, int(match[1]), int(match[2]))


class Outcome(NamedTuple):
    """The end of a delivery.

    s: succeeded; its result is kept for `delay_ms` unless that is 0
    o: as s, and the job ignored its time-out
    r: failed, retry after `delay_ms`
    d: failed, dead
    k: the process that ran it died, retry after `delay_ms`
    K: the process that ran it died, dead
    g: returned, the attempt does not count
    z: as g, after `delay_ms`
    n: as g, and the job did not begin
    u: as n, after a pause that the server chooses (see `parked`)
    c: cancelled
    """

    id: str
    token: bytes
    kind: Literal["s", "o", "r", "d", "k", "K", "g", "n", "z", "u", "c"]
    value: bytes = b""
    delay_ms: int = 0
    task: str = ""
    """The task that counts this end; empty: "(other)"."""


def parked(job: Leased, task: str, version: str = "", *, known: bool = False) -> Outcome:
    """Return the outcome of a job that this worker cannot run; the attempt does not count.

    version: version of the task in this worker, which the call does not fit; "" if the worker does not know the task.
    known: a live worker knows the task, so its time as an unknown task restarts.
    """
    return Outcome(job.id, job.token, "u", f"{int(known)} {version or '-'} {task}".encode())


def settle(
    queue: QueueKeys, session: str, outcomes: Sequence[Outcome], window_ms: int, tracked: Container[str] = ()
) -> Protocol[list[bool]]:
    """Settle deliveries in batches. Return False for each delivery whose lease is over; it is not settled.

    tracked: the tasks whose jobs are tracked.
    """
    settled: list[bool] = []
    while len(settled) < len(outcomes):
        settled += yield from settle_some(
            queue, session, outcomes[len(settled) : len(settled) + SETTLE_BATCH], window_ms, tracked
        )
    return settled


def settle_some(
    queue: QueueKeys, session: str, outcomes: Sequence[Outcome], window_ms: int, tracked: Container[str] = ()
) -> Protocol[list[bool]]:
    """Settle the first deliveries with one call, within its size limit; return the results of these."""
    args: list[Argument] = [window_ms, ""]
    runs: list[tuple[str, int]] = []
    task: str | None = None
    size = 0
    for outcome in outcomes:
        size += len(outcome.value)
        if size > CALL_BYTES and len(args) > 2:
            break
        if outcome.task != task:
            task = outcome.task
            runs.append((task, len(args)))
        args += (outcome.id, outcome.token, outcome.kind, outcome.value, outcome.delay_ms)
    ends = [*(at for _, at in runs[1:]), len(args)]
    args[1] = " ".join(
        [
            f"{task or OTHER} {(end - at) // 5}{'!' if task in tracked else ''}"
            for (task, at), end in zip(runs, ends, strict=True)
        ]
    )
    reply: list[int] = yield script_call("queue/settle", queue, args, run=queue.run(session))
    # the server leaves the last deliveries to another call if the records were large
    results = codes("queue/settle")
    return [result == results.settled for result in reply if result != results.postponed]


class Beat(Struct, frozen=True):
    """The reply to a heartbeat.

    alive: the sessions that are alive. overdue: a session whose lease has ended. next_deadline: seconds until the next
    lease of another session ends.
    """

    alive: dict[str, bool]
    overdue: str | None
    next_deadline: float | None
    ended: int = 0
    """The deadline of the overdue session, as stored on the server."""
    at: float = 0.0
    """The server's time, s."""
    suspects: int = 0
    """Number of suspects that wait for an isolation process."""
    schedule_changes: int = 0
    """Number of changes of schedules at run time."""
    limited: str = ""
    """The tasks with limits, as in queue/parts/task_limits.lua."""
    flow_messages: bool = False
    """True if messages of flows to other queues wait for a relay."""


def beat(
    queue: QueueKeys, sessions: dict[str, bool], lease_ms: int, patience: float, *, stopping: bool = False
) -> Protocol[Beat]:
    """Renew the leases of all jobs of the sessions; a session maps to True when it joins.

    stopping: their worker received a stop request. If their leases end later, their jobs return without counting an
    attempt.
    """
    args: list[Argument] = [lease_ms]
    for session, joins in sessions.items():
        args += (session, "s" if stopping else int(joins))
    reply = yield script_call("queue/heartbeat", queue, args, patience)
    at, deadline_ms, overdue, ended, suspects, changes, *alive = reply
    limited = ""
    if isinstance(changes, bytes):
        changes, _, limited = changes.decode().partition(" ")
    liveness = dict(zip(sessions, map(bool, alive), strict=True))
    return Beat(
        liveness,
        overdue.decode() or None,
        None if deadline_ms < 0 else deadline_ms / 1000,
        ended,
        at / 1000,
        suspects,
        int(changes),
        limited,
        2 in alive,
    )


class Buried(NamedTuple):
    """A job that became dead because its worker died or stopped; `task` is '' when it cannot be read."""

    id: str
    attempt: int
    task: str
    problem: str


def recover(
    queue: QueueKeys,
    session: str,
    window_ms: int,
    *,
    gone: bool,
    counted: bool = True,
    ended: int = 0,
    on_buried: Callable[[list[Buried]], object] = lambda _: None,
    on_suspects: Callable[[list[str]], object] = lambda _: None,
) -> Protocol[int]:
    """Return the jobs of an ended session to the queue, and their number to the caller.

    gone: the caller knows that the session's process has ended. Otherwise a heartbeat found the session overdue, with
    the deadline `ended`; if the session has renewed its lease since, nothing happens.
    counted: the process died. Otherwise the process was stopped, and only jobs with a delivery limit count an attempt,
    because they may have begun. The same holds after a stop request, unless the process is `gone`.
    on_buried: called with the jobs that became dead, in batches.
    on_suspects: called with the ids of new suspects, in batches.
    """
    args: list[Argument] = [
        window_ms, session, int(gone), channel(queue.prefix, session), record_header.MAX_CRASHES, int(counted), ended
    ]  # fmt: skip
    total, remaining = 0, 1
    while remaining:
        count, remaining, apart, *fields = yield script_call("queue/recover", queue, args, run=queue.run(session))
        total += count
        if apart:
            on_suspects([records.name(id) for id in apart])
        if fields:
            on_buried([_buried(*fields[at : at + 4]) for at in range(0, len(fields), 4)])
    return total


def _buried(id: bytes, tried: bytes, head: bytes, problem: bytes) -> Buried:
    name = records.name(id)
    call = records.read(head, len(head) + 1, name)  # only the beginning, which has the task
    return Buried(name, records.counts(tried).attempts, call.task or "", records.fault(problem).text)


def strays(queue: QueueKeys, session: str, known: Sequence[tuple[str, bytes]]) -> Protocol[set[tuple[str, bytes]]]:
    """Return the jobs, as id and token, that are leased to the session and not `known`."""
    args: list[Argument] = [session, *(part for job in known for part in job)]
    reply = yield script_call("queue/unknown_jobs", queue, args, run=queue.run(session))
    return {(reply[at].decode(), reply[at + 1]) for at in range(0, len(reply), 2)}


class JobState(Struct, frozen=True):
    """State of a job: ended (with its stored blob), dead, scheduled, active (ready or running), overdue, unknown, or
    blocked (it waits for other jobs of its flow)."""

    state: str
    blob: bytes


def job_state(queue: QueueKeys, id: str, channel: str = "", patience: float | None = None) -> Protocol[JobState]:
    """Read the state of a job; `channel` is notified when it ends."""
    state, blob = yield script_call("queue/outcome", queue, [id, channel], patience)
    return JobState(state.decode(), blob)


def outcome(
    queue: QueueKeys,
    id: str,
    channel: str,
    timeout: float | None,
    window_ms: int = WINDOW_MS,
    slow: Protocol[None] | None = None,
) -> Protocol[JobState]:
    """Wait at most `timeout` seconds until the job ends; return its last known state.

    slow: runs once if the job has not ended after RECHECK seconds.
    """
    began = now = yield Clock()
    give_up = None if timeout is None else now + timeout
    hints = messages.Hints()
    while True:
        last_state = yield from job_state(queue, id, channel, patience(give_up, now))
        if last_state.state == "overdue":
            yield from expire(queue, window_ms)
            continue
        now = yield Clock()
        if last_state.state not in UNENDED or (give_up is not None and now >= give_up):
            return last_state
        if slow is not None and now >= began + RECHECK:
            yield from slow
            slow = None
        until = now + RECHECK if give_up is None else min(now + RECHECK, give_up)
        yield from messages.listen(hints, id, until, key=queue.jobs)
