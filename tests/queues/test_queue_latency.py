"""Queue latency is the age of the oldest waiting jobs; cancelled jobs do not wait."""

from __future__ import annotations

from lockwork import Lockwork
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queue import enqueue, job_control, record_header, sessions
from lockwork.protocol.queue.enqueue import NewJob

KEYS = QueueKeys("lw", "default")


def test_cancelled_or_moved_job_is_not_next(lw: Lockwork) -> None:
    run = lw.runtime.run
    run(enqueue.push(KEYS, [NewJob(f"j{at}", record_header.head(1, 1) + b"[]") for at in range(4)]))
    assert run(sessions.queue_head(KEYS)).first == [[], ["j0", "j1", "j2", "j3"], [], []]
    run(job_control.cancel(KEYS, "j0", "lw"))
    run(job_control.reschedule(KEYS, "j2", 60_000))
    assert run(sessions.queue_head(KEYS)).first == [[], ["j1", "j3"], [], []]
