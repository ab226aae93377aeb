"""A lock that lives with a queue: its release, and the job that follows it, are one step of the server."""

from __future__ import annotations

import contextlib
from dataclasses import replace

from lockwork.errors import LockworkError
from lockwork.protocol.effects import Call, Protocol
from lockwork.protocol.grants import Renewal
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.pushing import NewJob, push_arguments, push_keys
from lockwork.protocol.queue_limits import room_for
from lockwork.protocol.scripts import script


def release_and_push(queue: QueueKeys, grant: Renewal, keep_ms: int, job: NewJob) -> Protocol[bool]:
    """End the grant and enqueue the job; False when its lease was over before, and then nothing was enqueued.

    The lock stays taken for `keep_ms` more. Raises QueueFull, and then nothing was done.
    Interrupted, it is sent once more, as the release of a lock is.
    """
    args = [0, grant.owner, grant.fence, keep_ms, *push_arguments([job])]
    call = Call(script("lock_release_push"), (*push_keys(queue), grant.key, queue.dead), args, marked=True)
    try:
        reply = yield call
    except (GeneratorExit, LockworkError):
        raise
    except BaseException:
        with contextlib.suppress(LockworkError):
            yield replace(call.again(), patience=1)
        raise
    return bool(room_for(queue, reply))
