"""The scheduler: one thread of the supervisor that fires the schedules of its queues."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping

from lockwork.errors import LockworkError
from lockwork.logs import Log
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.schedules.schedules import SchedulePlan, Ticker
from lockwork.runtime.clock import now
from lockwork.runtime.runtime import Runtime
from lockwork.schedules.options import slot_rules
from lockwork.schedules.plans import SchedulePlans

log: Log = Log("lockwork.worker")

_RETRY = 1.0
"""Seconds until the next turn after a failed one."""


class Scheduler:
    """Ticks on a dedicated thread; sleeps until the next slot, or until a schedule is created."""

    def __init__(
        self, runtime: Runtime, queues: Mapping[str, QueueKeys], plans: Mapping[str, Mapping[str, SchedulePlan]]
    ) -> None:
        self._runtime = runtime
        if isinstance(plans, SchedulePlans):
            plans.served = True
        self._tickers = {
            name: Ticker(keys, list(plans.get(name, {}).values()), slot_rules) for name, keys in queues.items()
        }
        self._stop = threading.Event()
        self._woken = threading.Event()
        self._lost: deque[str] = deque()
        """Queues whose schedules the server may have lost."""
        self._changed: deque[str] = deque()
        """Queues whose created schedules have changed."""
        self._thread = threading.Thread(target=self._main, name="lockwork-scheduler", daemon=True)

    def start(self) -> None:
        """Start ticking."""
        self._thread.start()

    def declare(self, queue: str) -> None:
        """Declare the schedules of a queue at once, because the server may have lost them."""
        self._lost.append(queue)
        self._woken.set()

    def look(self, queue: str) -> None:
        """Look at the created schedules of a queue at once, because one has changed."""
        self._changed.append(queue)
        self._woken.set()

    def cease(self) -> None:
        """Start no more turns, and return at once: other workers, or `misfire`, handle the slots."""
        self._stop.set()
        self._woken.set()

    def stop(self) -> None:
        """Stop ticking."""
        self.cease()
        if self._thread.is_alive():
            self._thread.join()

    def _main(self) -> None:
        turns = dict.fromkeys(self._tickers, now())
        while not self._stop.is_set():
            if self._woken.wait(max(0.0, min(turns.values()) - now()) if turns else None):
                self._woken.clear()
                while self._lost:
                    name = self._lost.popleft()
                    if name in turns:
                        self._tickers[name].forget()
                        turns[name] = now()
                while self._changed:
                    name = self._changed.popleft()
                    if name in self._tickers:
                        self._tickers[name].look()
                        turns[name] = now()
            for name in [name for name, at in turns.items() if at <= now()]:
                if self._stop.is_set():  # checked here: with many queues and no server, one round takes long
                    return
                pause = self._turn(name)
                if pause is None:
                    del turns[name]
                else:
                    turns[name] = now() + pause

    def _turn(self, queue: str) -> float | None:
        try:
            return self._runtime.run(self._tickers[queue].turn())
        except LockworkError as error:
            log.warning("the schedules of queue %s are delayed: %s", queue, error)
            return _RETRY
        except Exception:
            # an error in one queue must not stop the schedules of the others
            log.exception("the schedules of queue %s are delayed", queue)
            return 5 * _RETRY
