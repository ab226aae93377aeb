"""The scheduler: one thread of the supervisor that keeps the schedules of its queues going."""

from __future__ import annotations

import threading
from collections.abc import Mapping

from lockwork.errors import LockworkError
from lockwork.logs import Log
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queues.schedules import SchedulePlan, Ticker
from lockwork.runtime.clock import now
from lockwork.runtime.runtime import Runtime

log: Log = Log("lockwork.worker")

_RETRY = 1.0
"""Seconds until the next turn after one that failed."""


class Scheduler:
    """Ticks from a thread of its own; it sleeps until the next slot, and ends where there is nothing to schedule."""

    def __init__(
        self, runtime: Runtime, queues: Mapping[str, QueueKeys], plans: Mapping[str, Mapping[str, SchedulePlan]]
    ) -> None:
        self._runtime = runtime
        self._tickers = {name: Ticker(keys, list(plans.get(name, {}).values())) for name, keys in queues.items()}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._main, name="lockwork-scheduler", daemon=True)

    def start(self) -> None:
        """Begin to tick."""
        self._thread.start()

    def cease(self) -> None:
        """Start no more turns, and do not wait: other workers, or `misfire`, take the slots."""
        self._stop.set()

    def stop(self) -> None:
        """Stop ticking."""
        self.cease()
        if self._thread.is_alive():
            self._thread.join()

    def _main(self) -> None:
        turns = dict.fromkeys(self._tickers, now())
        while turns and not self._stop.wait(max(0.0, min(turns.values()) - now())):
            for name in [name for name, at in turns.items() if at <= now()]:
                if self._stop.is_set():  # here: with many queues and no server, one round takes long
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
            # whatever it is, the other queues' schedules go on
            log.exception("the schedules of queue %s are delayed", queue)
            return 5 * _RETRY
