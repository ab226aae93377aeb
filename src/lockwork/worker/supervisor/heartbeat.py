"""The heartbeat: one call per queue keeps the jobs of all children leased, and finds sessions that died elsewhere."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Container, Sequence
from typing import Literal

import msgspec
from msgspec.structs import replace

from lockwork import words
from lockwork.durations import in_milliseconds
from lockwork.errors import LockworkError, ServerRefused
from lockwork.history_bounds import HistoryBounds
from lockwork.logs import Log
from lockwork.protocol.dead import dead
from lockwork.protocol.dead.dead import Bounds
from lockwork.protocol.flows.relay import relay
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queue import job_control as control
from lockwork.protocol.queue import leases, sessions, task_limits
from lockwork.protocol.queue.leases import Buried, Leased
from lockwork.protocol.server_clock import Peers
from lockwork.runtime.clock import now
from lockwork.runtime.replies import unforeseen
from lockwork.runtime.runtime import Runtime
from lockwork.tasks.registry import Registry
from lockwork.worker.environment import AGAIN, log_buried, log_suspects
from lockwork.worker.ipc.messages import HardTimeout

log: Log = Log("lockwork.worker")

Seen = Literal["joined", "recovered", "wait"]
"""The event that revealed suspects."""

_PAUSE = 5.0
"""Seconds between two trims when the dead set is within its bounds."""
_LAST = 1.0
"""Time limit of the last trim in seconds, for all queues together."""
_TROUBLED = 60.0
"""Seconds until the next try after an error: a key of the wrong type is rarely repaired soon."""


class DeadSetTrimmer:
    """Keeps the dead sets and the histories of one worker's queues within their bounds."""

    def __init__(self, runtime: Runtime, bounds: Bounds, histories: HistoryBounds | None = None) -> None:
        self._runtime = runtime
        self._bounds = bounds
        self._histories = histories or HistoryBounds()
        self._next: dict[str, float] = {}

    def keep(self, name: str, keys: QueueKeys) -> bool:
        """Trim once if it is time; return whether there is more to trim. Raises no LockworkError."""
        if now() < self._next.get(name, 0.0):
            return False
        try:
            bounds = replace(self._bounds, history=self._histories.of(keys.name))
            gone, more = self._runtime.run(dead.trim(keys, bounds))
        except LockworkError as error:
            log.warning("the limits of dead jobs of queue %s could not be enforced: %s", name, error)
            self._next[name] = now() + _TROUBLED
            return False
        if gone:
            log.info("%d dead jobs of queue %s exceeded the limits and were deleted", gone, name)
        self._next[name] = now() + (0.0 if more else _PAUSE)
        return more

    def finish(self, queues: dict[str, QueueKeys]) -> None:
        """Trim a last time, because the next worker of these queues may start late or never."""
        end = now() + _LAST
        for name, keys in queues.items():
            self._next.pop(name, None)
            while now() < end and self.keep(name, keys):
                pass


_REJOIN = 3.0
"""Seconds for a process without jobs to rejoin a queue: it pauses for up to 1 s, and its call may take 1 s."""
_PATIENCE = 0.5
"""Seconds to wait for the server: the beats of the other queues follow this one."""
_BATCHES = 4
"""Limit of batches of flows' messages that one beat delivers."""


class Heartbeat:
    """Beats on a dedicated thread, so that other work of the supervisor cannot delay a beat.

    Calls `on_over(session)` when the server counts one of this worker's sessions as dead. Calls `on_lost(session,
    queue)`
    first: if it returns True, the process has no jobs of that queue and gets a moment to rejoin it. Calls
    `on_timeout_settled(hard_timeout)` when a job with a hard time-out was settled (on the thread that calls `leave`).
    Calls `on_accepted(session)` when a queue that refused the session would now accept it. Calls `on_buried(queue,
    jobs)`, on any thread, with the jobs that were buried because their worker died. Calls `on_suspects(count, seen)`,
    on any thread, with the number of waiting suspects. seen: "joined" when a session joins, "recovered" when this
    worker recovered them, "wait" when they were waiting at two beats. Calls `on_schedules(queue)` when schedules were
    created or changed at run time since the last beat.
    """

    def __init__(
        self,
        runtime: Runtime,
        queues: dict[str, QueueKeys],
        lease: float,
        window_ms: int,
        on_over: Callable[[str], None],
        on_timeout_settled: Callable[[HardTimeout], None],
        trimmer: DeadSetTrimmer,
        on_accepted: Callable[[str], None] = lambda _: None,
        on_buried: Callable[[str, list[Buried]], None] = lambda _queue, _jobs: None,
        on_suspects: Callable[[int, Seen], None] = lambda _count, _seen: None,
        on_lost: Callable[[str, str], bool] = lambda _session, _queue: False,
        tracked: Container[str] = (),
        on_schedules: Callable[[str], None] = lambda _: None,
        registry: Registry | None = None,
    ) -> None:
        self._runtime = runtime
        self._queues = queues
        self._lease = lease
        self._window_ms = window_ms
        self._on_over = on_over
        self._on_lost = on_lost
        self._tracked = tracked
        """The tasks whose jobs are tracked."""
        self._lost_since: dict[tuple[str, str], float] = {}
        """Time of the first beat that found a session missing from a queue."""
        self._on_timeout_settled = on_timeout_settled
        self._trimmer = trimmer
        self._on_accepted = on_accepted
        self._on_buried = on_buried
        self._on_suspects = on_suspects
        self._suspects: dict[str, int] = {}
        """Number of suspects in each queue at its last beat."""
        self._on_schedules = on_schedules
        self._registry = registry
        """The tasks whose limits are declared when a session joins."""
        self._schedule_changes: dict[str, int] = {}
        """Number of changes of schedules at run time in each queue at its last beat."""
        self._sessions: dict[str, Collection[str]] = {}
        """Sessions by name, each with the queues that refuse it."""
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._soon = threading.Event()
        """Set to beat at once."""
        self._stopping = False
        self._thread = threading.Thread(target=self._main, name="lockwork-heartbeat", daemon=True)
        self._peers = {name: Peers(lease) for name in queues}
        self._complained = now() - AGAIN
        self.last: float = now()
        """Time of the last beat that the server answered, on the client's clock."""
        self.turned: float = now()
        """Time of the last turn of the loop, with or without an answer."""

    def start(self) -> None:
        """Start beating."""
        self._thread.start()

    def join(self, session: str, patience: float, *, whole: bool) -> dict[str, ServerRefused]:
        """Begin a session; return the queues that refuse it. If this raises a LockworkError, the session has not begun.

        whole: begin on all queues or on none. Otherwise the session begins on every queue that accepts it.
        """
        refused: dict[str, ServerRefused] = {}
        for name, keys in self._queues.items():
            try:
                answer = self._runtime.run(leases.beat(keys, {session: True}, in_milliseconds(self._lease), patience))
                self._declare_limits(name, keys, answer.limited, joins=True)
                if answer.suspects:
                    self._on_suspects(answer.suspects, "joined")
            except ServerRefused as error:
                refused[name] = error
                if whole or len(refused) == len(self._queues):
                    raise
        with self._lock:
            self._sessions[session] = refused.keys()
        return refused

    def forget(self, session: str) -> None:
        """Stop renewing a session; its jobs return when the lease expires."""
        with self._lock:
            self._sessions.pop(session, None)

    def leave(
        self,
        session: str,
        patience: float,
        *,
        counted: bool,
        hard_timeouts: Sequence[HardTimeout] = (),
        without: Collection[str] = (),
    ) -> int:
        """End the session of an ended process, and return its jobs at once; return their number.

        counted: the process died without a request, so the deliveries of its jobs count. hard_timeouts: the jobs that
        made the supervisor kill the process; calls `on_timeout_settled` with each job that had not ended before.
        without: queues that the session never joined. If a queue refuses, raises its ServerRefused after the calls to
        all other queues; call again.
        """
        self.forget(session)
        job_count = 0
        refused: dict[str, ServerRefused] = {}
        for hard_timeout in hard_timeouts:
            try:
                self._settle_timeout(session, hard_timeout, patience)
            except ServerRefused as error:
                refused[hard_timeout.queue] = error
        for name, keys in self._queues.items():
            if name in without or name in refused:  # a job returns as its hard time-out says, or stays leased
                continue
            try:
                job_count += self._recover(session, keys, patience, gone=True, counted=counted)
            except ServerRefused as error:
                refused[name] = error
        if refused:
            raise next(iter(refused.values()))
        return job_count

    def _recover(
        self, session: str, keys: QueueKeys, patience: float, *, gone: bool, counted: bool = True, ended: int = 0
    ) -> int:
        def bury(buried: list[Buried]) -> None:
            log_buried(keys.name, session, buried)
            self._on_buried(keys.name, buried)

        def isolate(suspects: list[str]) -> None:
            log_suspects(keys.name, session, suspects)
            self._on_suspects(len(suspects), "recovered")

        ending = leases.recover(
            keys, session, self._window_ms,
            gone=gone, counted=counted, ended=ended, on_buried=bury, on_suspects=isolate,
        )  # fmt: skip
        return self._runtime.run(sessions.within(patience, ending))

    def _settle_timeout(self, session: str, hard_timeout: HardTimeout, patience: float) -> None:
        keys, outcome, run = self._queues[hard_timeout.queue], hard_timeout.outcome, self._runtime.run
        # a cancellation request takes precedence over the hard time-out
        asking = control.asked(keys, session, [Leased(outcome.id, outcome.token, b"", 0, 0)])
        if run(sessions.within(patience, asking)):
            outcome = outcome._replace(kind="c")
        settling = leases.settle(keys, session, [outcome], self._window_ms, self._tracked)
        (settled,) = run(sessions.within(patience, settling))
        if settled:
            self._on_timeout_settled(msgspec.structs.replace(hard_timeout, outcome=outcome))

    def announce_stop(self) -> None:
        """Announce on the server, now and with each beat, that this worker stops on request.

        If the worker is killed later, its jobs return uncounted.
        """
        self._stopping = True
        self._soon.set()

    def stop(self) -> None:
        """Stop beating."""
        self._stop.set()
        self._soon.set()
        if self._thread.is_alive():
            self._thread.join()

    def _main(self) -> None:
        pause = 0.0
        while True:
            self._soon.wait(pause)
            self._soon.clear()
            if self._stop.is_set():
                return
            pause = self._lease / 3
            for name, keys in self._queues.items():
                # checked here, and `turned` set here: with many queues and no server, one round takes long
                if self._stop.is_set():
                    return
                self.turned = now()
                try:
                    pause = min(pause, self._beat(name, keys))
                    if self._trimmer.keep(name, keys):
                        pause = 0.0
                except Exception as error:  # noqa: BLE001 - whatever it is, without beats all leases would run out
                    self._complain(name, error)
                    pause = min(pause, 0.5)

    def _note_suspects(self, name: str, count: int) -> None:
        # the worker that recovered suspects runs them at once; other workers help if they still wait at the next beat
        waited, self._suspects[name] = self._suspects.get(name, 0), count
        if waited and count:
            self._on_suspects(count, "wait")

    def _note_schedules(self, name: str, changes: int) -> None:
        # the messages about these changes may have been lost
        if changes != self._schedule_changes.get(name, 0):
            self._schedule_changes[name] = changes
            self._on_schedules(name)

    def _declare_limits(self, name: str, keys: QueueKeys, on_server: str, *, joins: bool) -> None:
        if self._registry is None:
            return
        own = self._registry.limited_tasks(name)
        if (own or (joins and on_server)) and (
            tasks := task_limits.to_declare(own, self._registry.names(), on_server, joins=joins)
        ):
            self._runtime.run(sessions.within(_PATIENCE, task_limits.declare(keys, tasks)))

    def _relay_messages(self, name: str, keys: QueueKeys, *, waiting: bool) -> None:
        """Deliver waiting messages of flows: no worker process has delivered them since the last beat, or not all."""
        if waiting:
            delivering = relay(
                keys, self._window_ms, most=_BATCHES, on_error=lambda _, error: self._complain(name, error)
            )
            self._runtime.run(sessions.within(_PATIENCE, delivering))

    def _complain(self, name: str, error: Exception) -> None:
        if now() - self._complained > AGAIN:
            self._complained = now()
            log.warning("no heartbeat for queue %s: %s", name, error, exc_info=unforeseen(error))

    def _beat(self, name: str, keys: QueueKeys) -> float:
        """Send the heartbeat of one queue; return the seconds until the next one is due."""
        with self._lock:
            standing = {session: False for session, refused in self._sessions.items() if name not in refused}
            outside = self._sessions.keys() - standing.keys()
        sent = now()
        lease_ms, stopping = in_milliseconds(self._lease), self._stopping
        answer = self._runtime.run(leases.beat(keys, standing, lease_ms, _PATIENCE, stopping=stopping))
        at = now()
        if at - self.last > self._lease:
            log.info("the server answers again, after %s", words.rough_age(at - self.last))
        self.last = at
        peers = self._peers[name]
        if step := peers.heard(sent, at, answer.at):
            log.warning("the clock of the server of queue %s was set %s by %.1f s", name, *_direction(step))
        most = self._lease / 3
        for session, alive in answer.alive.items():
            if alive:
                self._lost_since.pop((session, name), None)
            elif session in self._sessions:
                since = self._lost_since.setdefault((session, name), at)
                if self._on_lost(session, name) and at - since < _REJOIN:
                    most = min(most, _PATIENCE)
                else:
                    self._lost_since.pop((session, name))
                    self._on_over(session)
        for session in outside:
            self._on_accepted(session)
        self._note_suspects(name, answer.suspects)
        self._note_schedules(name, answer.schedule_changes)
        self._declare_limits(name, keys, answer.limited, joins=False)
        self._relay_messages(name, keys, waiting=answer.flow_messages)
        if answer.next_deadline is None:
            return most
        patience = peers.patience(at)
        if answer.overdue is not None and patience <= 0:
            given_back = self._recover(answer.overdue, keys, _PATIENCE, gone=False, ended=answer.ended)
            counted = words.several(given_back, "job")
            log.warning("worker session %s is dead: %s returned to queue %s", answer.overdue, counted, name)
            return 0.0
        return min(most, max(answer.next_deadline, patience, 0.01))


def _direction(step: float) -> tuple[str, float]:
    return ("forward" if step > 0 else "back", abs(step))
