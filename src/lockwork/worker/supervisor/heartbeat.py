"""The heartbeat: one call per queue keeps the jobs of all children leased, and finds sessions that died elsewhere."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

import msgspec

from lockwork.durations import in_milliseconds
from lockwork.errors import LockworkError, ServerRefused
from lockwork.history_bounds import HistoryBounds
from lockwork.logs import Log
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queues import dead, leases, sessions
from lockwork.protocol.queues import job_control as control
from lockwork.protocol.queues.dead import Bounds
from lockwork.protocol.queues.leases import Buried, Leased
from lockwork.protocol.server_clock import Peers
from lockwork.runtime.clock import now
from lockwork.runtime.replies import unforeseen
from lockwork.runtime.runtime import Runtime
from lockwork.validation import several
from lockwork.worker.environment import AGAIN, log_buried
from lockwork.worker.ipc.messages import HardTimeout

log: Log = Log("lockwork.worker")

_PAUSE = 5.0
"""Seconds between two trims when the dead set is within its bounds."""
_LAST = 1.0
"""Seconds that the last trim may take, for all queues together."""
_TROUBLED = 60.0
"""Seconds until the next try after an error: a key of another type is not mended soon."""


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
        """Trim a last time: the next worker of these queues may start late, or never."""
        end = now() + _LAST
        for name, keys in queues.items():
            self._next.pop(name, None)
            while now() < end and self.keep(name, keys):
                pass


_PATIENCE = 0.5
"""Seconds to wait for the server: the other queues' beats come after this one."""


class Heartbeat:
    """Beats from a thread of its own, so that nothing the supervisor does can delay it.

    `on_over(session)` is called when the server counts one of our sessions as dead, `on_timeout_settled(hard_timeout)`
    when the job of a hard time-out has been settled (on the thread that calls `leave`), `on_accepted(session)` when a
    queue that refused the session would accept it now, and `on_buried(queue, jobs)`, on any thread, with the jobs that
    went to the dead set because their worker died.
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
    ) -> None:
        self._runtime = runtime
        self._queues = queues
        self._lease = lease
        self._window_ms = window_ms
        self._on_over = on_over
        self._on_timeout_settled = on_timeout_settled
        self._trimmer = trimmer
        self._on_accepted = on_accepted
        self._on_buried = on_buried
        self._sessions: dict[str, Collection[str]] = {}
        """By name, each with the queues on which it could not begin."""
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._main, name="lockwork-heartbeat", daemon=True)
        self._peers = {name: Peers(lease) for name in queues}
        self._complained = now() - AGAIN
        self.last: float = now()
        """When the server last answered a beat, on the client's clock."""
        self.turned: float = now()
        """When the loop last turned, whether or not the server answered."""

    def start(self) -> None:
        """Begin to beat."""
        self._thread.start()

    def join(self, session: str, patience: float, *, whole: bool) -> dict[str, ServerRefused]:
        """Begin a session; returns the queues that refuse it. Raises a LockworkError, and then it is not begun.

        `whole`: it begins on every queue; otherwise one that refuses it does not keep it from the others.
        """
        refused: dict[str, ServerRefused] = {}
        for name, keys in self._queues.items():
            try:
                self._runtime.run(leases.beat(keys, {session: True}, in_milliseconds(self._lease), patience))
            except ServerRefused as error:
                refused[name] = error
                if whole or len(refused) == len(self._queues):
                    raise
        with self._lock:
            self._sessions[session] = refused.keys()
        return refused

    def forget(self, session: str) -> None:
        """Stop renewing a session; its jobs return when its lease expires."""
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
        """End a session whose process is gone, and give its jobs back at once; returns how many those were.

        `counted`: the process died of itself, so its jobs' deliveries count. `hard_timeouts`: the jobs for which it was
        killed; `on_timeout_settled` is called with each that had not ended before. `without`: queues on which the
        session never began. If a queue raises ServerRefused, it is raised after all others were asked; call again.
        """
        self.forget(session)
        given = 0
        refused: dict[str, ServerRefused] = {}
        for hard_timeout in hard_timeouts:
            try:
                self._settle_timeout(session, hard_timeout, patience)
            except ServerRefused as error:
                refused[hard_timeout.queue] = error
        for name, keys in self._queues.items():
            if name in without or name in refused:  # a job goes back as its hard time-out says, or not at all
                continue
            try:
                given += self._recover(session, keys, patience, gone=True, counted=counted)
            except ServerRefused as error:
                refused[name] = error
        if refused:
            raise next(iter(refused.values()))
        return given

    def _recover(
        self, session: str, keys: QueueKeys, patience: float, *, gone: bool, counted: bool = True, ended: int = 0
    ) -> int:
        def bury(buried: list[Buried]) -> None:
            log_buried(keys.name, session, buried)
            self._on_buried(keys.name, buried)

        ending = leases.recover(keys, session, self._window_ms, gone=gone, counted=counted, ended=ended, on_buried=bury)
        return self._runtime.run(sessions.within(patience, ending))

    def _settle_timeout(self, session: str, hard_timeout: HardTimeout, patience: float) -> None:
        keys, outcome, run = self._queues[hard_timeout.queue], hard_timeout.outcome, self._runtime.run
        # whatever the hard time-out says, a job that was to be cancelled has been
        asking = control.asked(keys, session, [Leased(outcome.id, outcome.token, b"", 0, 0)])
        if run(sessions.within(patience, asking)):
            outcome = outcome._replace(kind="c")
        (settled,) = run(sessions.within(patience, leases.settle(keys, session, [outcome], self._window_ms)))
        if settled:
            self._on_timeout_settled(msgspec.structs.replace(hard_timeout, outcome=outcome))

    def stop(self) -> None:
        """Stop beating."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def _main(self) -> None:
        pause = 0.0
        while not self._stop.wait(pause):
            pause = self._lease / 3
            for name, keys in self._queues.items():
                if self._stop.is_set():  # here, and `turned`: with many queues and no server, one round takes long
                    return
                self.turned = now()
                try:
                    pause = min(pause, self._beat(name, keys))
                    if self._trimmer.keep(name, keys):
                        pause = 0.0
                except Exception as error:  # noqa: BLE001 - whatever it is, without beats all leases would run out
                    self._complain(name, error)
                    pause = min(pause, 0.5)

    def _complain(self, name: str, error: Exception) -> None:
        if now() - self._complained > AGAIN:
            self._complained = now()
            log.warning("no heartbeat for queue %s: %s", name, error, exc_info=unforeseen(error))

    def _beat(self, name: str, keys: QueueKeys) -> float:
        """Send the heartbeat of one queue; returns the seconds within which the next one is due."""
        with self._lock:
            standing = {session: False for session, refused in self._sessions.items() if name not in refused}
            outside = self._sessions.keys() - standing.keys()
        sent = now()
        answer = self._runtime.run(leases.beat(keys, standing, in_milliseconds(self._lease), _PATIENCE))
        at = now()
        if at - self.last > self._lease:
            log.info("the server answers again, after %.0f s", at - self.last)
        self.last = at
        peers = self._peers[name]
        if step := peers.heard(sent, at, answer.at):
            log.warning("the clock of the server of queue %s was set %s by %.1f s", name, *_direction(step))
        for session, alive in answer.alive.items():
            if not alive and session in self._sessions:
                self._on_over(session)
        for session in outside:
            self._on_accepted(session)
        if answer.next_deadline is None:
            return self._lease / 3
        patience = peers.patience(at)
        if answer.overdue is not None and patience <= 0:
            given_back = self._recover(answer.overdue, keys, _PATIENCE, gone=False, ended=answer.ended)
            counted = several(given_back, "job", "jobs")
            log.warning("worker session %s is dead: %s returned to queue %s", answer.overdue, counted, name)
            return 0.0
        return max(answer.next_deadline, patience, 0.01)


def _direction(step: float) -> tuple[str, float]:
    return ("forward" if step > 0 else "back", abs(step))
