"""The queue: how jobs are leased, settled and recovered, and how their outcome is read."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

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
"""The task under which jobs are counted whose own task is unknown, or one too many."""
UNENDED = ("active", "scheduled", "blocked")
"""The states of a job that has not ended."""
RECHECK = 5.0
"""Seconds after which a wake-up is taken as lost and its cause is looked at again."""
_OFFER = re.compile(r"([0-9]{1,9}) ([0-9]{1,18}) ~ ([^ ]+) (.*)", re.DOTALL)


class Leased(NamedTuple):
    """A job that is leased to a worker session; `token` settles it, `fence` rises with every delivery.

    `attempt` is 1 and the deliveries before it that count. `note` is what was written down when it ran before. `parked`
    is when a worker first returned it because its task was unknown (ms, by the server's clock); 0 if none did.
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
        """How many deliveries before this one ended with the death of a process that ran nothing else."""
        return records.counts(self.token).crashes

    @property
    def deaths(self) -> int:
        """How many deliveries before this one ended with the death of the process, whatever else that ran."""
        counts = records.counts(self.token)
        return counts.crashes + counts.shared


@dataclass(frozen=True, slots=True)
class Batch:
    """What a reserve call brought; `next_due` is seconds until a scheduled job is due, None when there is none.

    `fence` is higher than that of any earlier delivery of the queue.
    """

    jobs: list[Leased]
    next_due: float | None
    fence: int = 0
    secret: str = ""
    """With which the server seals offers to the caller, if it is to be woken."""
    parked: bool = False
    """Whether the queue has jobs that workers returned because their task was unknown."""
    tasks: frozenset[str] = frozenset()
    """The tasks of such jobs in this batch."""


class SessionOver(Exception):
    """The server counts this worker session as dead: its jobs run elsewhere."""


def expire(queue: QueueKeys, window_ms: int) -> Protocol[None]:
    """End the jobs that should have begun by now."""
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
    """Lease up to `want` jobs to the session; with nothing ready, `channel` is woken when there is.

    After an error the same `request` is to be sent `again`: it may have leased jobs that nobody else will be told of.
    `last` is the highest fence of the jobs that the session has had of this queue: should one have been offered to it
    since, the answer is that one. `tasks`: the tasks that the worker knows, `TASK VERSION TASK VERSION ...`; it then
    takes their parked jobs first. Raises SessionOver.
    """
    args: list[Argument] = [
        int(again), min(want, RESERVE_BATCH), request, session, channel, last, messages.secret(queue.jobs)
    ]  # fmt: skip
    call = script_call(
        "queue/reserve",
        queue,
        [*args, tasks] if tasks else args,
        run=queue.run(session),
        prompt=True,  # so that the server leases jobs while the worker runs those that it has
    )
    reply: list[Any] = yield call
    while reply[0] == codes("queue/reserve").expire_first:
        yield _expire(queue, window_ms)
        reply = yield call
    return _batch(reply, session, channel)


ALONE = "!"
"""Begins the requests of isolation processes."""


def reserve_suspect(queue: QueueKeys, session: str, request: str, *, again: bool = False) -> Protocol[Batch]:
    """Lease one suspect to the session of an isolation process, which must hold nothing else.

    `next_due` is the seconds until to ask again, None if no suspect waits. As for `reserve`, a `request` that had no
    answer is to be sent `again`. Raises SessionOver.
    """
    *reply, note = yield script_call(
        "queue/reserve_suspects", queue, [int(again), f"{ALONE}{request}", session], run=queue.run(session)
    )
    return _batch(reply, session, "", note or None)


def _batch(reply: Sequence[Any], session: str, channel: str, note: bytes | None = None) -> Batch:
    state, fence, left, *found = reply
    known = codes("queue/reserve")
    if state == known.session_over:
        raise SessionOver(session)
    parked = bool(state & known.has_parked)
    if len(found) == 1:
        return Batch([], None if left < 0 else left / 1000, fence, found[0].decode() + channel, parked)
    notes, parked_tasks = found.pop() if state & known.with_notes else None, frozenset[str]()
    jobs = [
        Leased(found[at].decode(), found[at + 1], found[at + 2], _attempt(found[at + 1]), fence)
        for at in range(0, len(found), 3)
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
    return Batch(jobs, None if left < 0 else left / 1000, fence, "", parked, parked_tasks)


def fence_of(token: bytes) -> int:
    """Read the fence of the delivery that a token settles."""
    return int(token.split(b" ", 2)[1])


def _attempt(token: bytes) -> int:
    first = token.split(b" ", 1)[0]
    return int(first) if first.isdigit() else records.counts(first).attempts


def idle(queue: QueueKeys, batch: Batch, hints: messages.Hints) -> Protocol[Leased | None]:
    """Wait, after an empty batch, until a reserve call may bring something; returns a job that came with the word.

    That job is leased to the caller. If it cannot begin it, the next reserve call or `hands.pass_on` will deal with it.
    """
    now = yield Clock()
    pause = RECHECK if batch.next_due is None else min(batch.next_due, RECHECK)
    heard = yield from messages.listen(hints, queue.jobs, now + pause, lambda text: offered(queue, batch, text))
    return heard if isinstance(heard, Leased) else None


def offered(queue: QueueKeys, batch: Batch, text: str) -> Leased | None:
    """Read a job that came with a wake-up after an empty batch (queue/parts/offer.lua); None for other messages."""
    words = messages.opened(batch.secret, queue.jobs, text)
    found = _OFFER.fullmatch(words) if words else None
    # what was offered before that batch was its answer, or has gone to somebody else
    if not found or int(found[2]) < batch.fence:
        return None
    token, id, record = f"{found[1]} {found[2]} ~", found[3], found[4]
    raw = record.encode(errors="surrogateescape")
    return Leased(id, token.encode(), raw, int(found[1]), int(found[2]))


class Outcome(NamedTuple):
    """How a delivery ended: s succeeded (its result is kept for `delay_ms` if that is not 0), o the same for a job that
    ignored its time-out, r retry after `delay_ms`, d dead, k the process that ran it died, retry after `delay_ms`,
    K the same, dead, g returned (not counted), z the same after `delay_ms`, n returned before it began, u the same
    after a pause that the server chooses (see `parked`), c cancelled."""

    id: str
    token: bytes
    kind: Literal["s", "o", "r", "d", "k", "K", "g", "n", "z", "u", "c"]
    value: bytes = b""
    delay_ms: int = 0
    task: str = ""
    """Under which its end is counted; empty: under "(other)"."""


def parked(job: Leased, task: str, version: str = "", *, known: bool = False) -> Outcome:
    """Return the outcome of a job that another worker must run; nothing is counted.

    `version`: that of its task in this worker, which the call does not fit; "" if the worker does not know the task.
    `known`: a live worker knows it, so the time for which it was unknown begins anew.
    """
    return Outcome(job.id, job.token, "u", f"{int(known)} {version or '-'} {task}".encode())


def settle(queue: QueueKeys, session: str, outcomes: Sequence[Outcome], window_ms: int) -> Protocol[list[bool]]:
    """Settle deliveries in batches; False for those whose lease was over, for which nothing was written."""
    settled: list[bool] = []
    while len(settled) < len(outcomes):
        settled += yield from settle_some(
            queue, session, outcomes[len(settled) : len(settled) + SETTLE_BATCH], window_ms
        )
    return settled


def settle_some(queue: QueueKeys, session: str, outcomes: Sequence[Outcome], window_ms: int) -> Protocol[list[bool]]:
    """Make one call, which settles the first deliveries, as many as one call can take, and answers for those."""
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
    args[1] = " ".join([f"{task or OTHER} {(end - at) // 5}" for (task, at), end in zip(runs, ends, strict=True)])
    reply: list[int] = yield script_call("queue/settle", queue, args, run=queue.run(session))
    # those that the server left for another call are the last ones
    known = codes("queue/settle")
    return [result == known.settled for result in reply if result != known.postponed]


@dataclass(frozen=True, slots=True)
class Beat:
    """Answer to a heartbeat: which sessions are alive, one that is overdue, and when to look at the next (seconds)."""

    alive: dict[str, bool]
    overdue: str | None
    next_deadline: float | None
    ended: int = 0
    """The deadline of the session that is overdue, as the server keeps it."""
    at: float = 0.0
    """The server's time, s."""
    suspects: int = 0
    """Suspects that wait for an isolation process."""


def beat(
    queue: QueueKeys, sessions: dict[str, bool], lease_ms: int, patience: float, *, stopping: bool = False
) -> Protocol[Beat]:
    """Keep all jobs of the sessions leased; a session maps to True when it joins for the first time.

    `stopping`: their worker was asked to stop. If their leases end after that, their jobs return uncounted.
    """
    args: list[Argument] = [lease_ms]
    for session, joins in sessions.items():
        args += (session, "s" if stopping else int(joins))
    at, left, overdue, ended, suspects, *alive = yield script_call("queue/heartbeat", queue, args, patience)
    known = dict(zip(sessions, map(bool, alive), strict=True))
    return Beat(known, overdue.decode() or None, None if left < 0 else left / 1000, ended, at / 1000, suspects)


class Buried(NamedTuple):
    """A job that went to the dead set because of what became of its worker; `task` is '' when it cannot be read."""

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
    """Return the jobs of an ended session to the queue; returns their number.

    `gone`: the caller knows that the session's process has ended; otherwise a beat has found it overdue, with the
    deadline `ended`, and it is left alone if it has beaten since. `counted`: the process died. Not counted, it was
    stopped, as one that is not `gone` counts if its worker was asked to stop: then only jobs with a cap of deliveries
    are counted, because they may have begun. `on_buried` is called
    with those that went to the dead set, some at a time, and `on_suspects` with the ids of those that became suspects.
    """
    args: list[Argument] = [
        window_ms, session, int(gone), channel(queue.prefix, session), record_header.MAX_CRASHES, int(counted), ended
    ]  # fmt: skip
    given, left = 0, 1
    while left:
        count, left, apart, *found = yield script_call("queue/recover", queue, args, run=queue.run(session))
        given += count
        if apart:
            on_suspects([records.name(id) for id in apart])
        if found:
            on_buried([_buried(*found[at : at + 4]) for at in range(0, len(found), 4)])
    return given


def _buried(id: bytes, tried: bytes, head: bytes, problem: bytes) -> Buried:
    name = records.name(id)
    call = records.read(head, len(head) + 1, name)  # its arguments are of no interest
    return Buried(name, records.counts(tried).attempts, call.task or "", records.fault(problem).text)


def strays(queue: QueueKeys, session: str, known: Sequence[tuple[str, bytes]]) -> Protocol[set[tuple[str, bytes]]]:
    """Return the jobs, as id and token, that are leased to the session and not `known`."""
    args: list[Argument] = [session, *(part for job in known for part in job)]
    found = yield script_call("queue/unknown_jobs", queue, args, run=queue.run(session))
    return {(found[at].decode(), found[at + 1]) for at in range(0, len(found), 2)}


@dataclass(frozen=True, slots=True)
class JobState:
    """How a job stands: ended (with its stored blob), dead, scheduled, active (ready, running), overdue, unknown, or
    blocked, when it waits for others of its flow."""

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
    """Wait until the job has ended, at most `timeout` seconds; returns the last standing, ended or not.

    `slow` is run once if the job has not ended after RECHECK seconds.
    """
    began = now = yield Clock()
    give_up = None if timeout is None else now + timeout
    hints = messages.Hints()
    while True:
        found = yield from job_state(queue, id, channel, patience(give_up, now))
        if found.state == "overdue":
            yield from expire(queue, window_ms)
            continue
        now = yield Clock()
        if found.state not in UNENDED or (give_up is not None and now >= give_up):
            return found
        if slow is not None and now >= began + RECHECK:
            yield from slow
            slow = None
        until = now + RECHECK if give_up is None else min(now + RECHECK, give_up)
        yield from messages.listen(hints, id, until, key=queue.jobs)
