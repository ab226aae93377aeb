"""Killing a worker at work: only a process that certainly has jobs in its hands will do."""

from __future__ import annotations

import os
import signal
import time

from lockwork import Queue
from play.evidence import KilledWorker


def kill_one_at_work(queue: Queue, least: int = 1) -> KilledWorker | None:
    """Kill the busiest worker process by SIGKILL; None when none has at least `least` jobs in its hands just now."""
    workers = sorted(queue.workers(), key=lambda worker: worker.running, reverse=True)
    for worker in workers:
        if worker.running < least:
            break
        try:
            os.kill(worker.pid, signal.SIGSTOP)
        except ProcessLookupError:
            continue
        # what it sent before it stopped has arrived when it is looked at the second time
        _in_hand(queue, worker.session)
        time.sleep(0.001)
        in_hand = _in_hand(queue, worker.session)
        os.kill(worker.pid, signal.SIGKILL if in_hand >= least else signal.SIGCONT)
        if in_hand >= least:
            return KilledWorker(worker.pid, in_hand)
    return None


def _in_hand(queue: Queue, session: str) -> int:
    return sum(worker.running for worker in queue.workers() if worker.session == session)
