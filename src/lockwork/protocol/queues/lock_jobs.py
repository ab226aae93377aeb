"""A lock that lives with a queue: its release, and the job that follows it, are one step of the server."""

from __future__ import annotations

from lockwork.protocol.effects import Call, Protocol
from lockwork.protocol.retry import insist
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.locks.grants import Renewal
from lockwork.protocol.queues.limits import room_for
from lockwork.protocol.queues.enqueue import NewJob, push_arguments, push_keys
from lockwork.protocol.scripts import script


def release_and_push(queue: QueueKeys, grant: Renewal, keep_ms: int, job: NewJob) -> Protocol[bool]:
    """End the grant and enqueue the job; False when its lease was over before, and then nothing was enqueued.

    The lock stays taken for `keep_ms` more. Raises QueueFull, and then nothing was done.
    """
    args = [0, grant.owner, grant.fence, keep_ms, *push_arguments([job])]
    call = Call(script("lock_release_push"), (*push_keys(queue), grant.key, queue.dead), args, marked=True)
    return bool(room_for(queue, (yield from insist(call))))
