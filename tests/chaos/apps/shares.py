"""A process that shares a semaphore and a read-write lock, and records when it relies on its grants.

`python shares.py HISTORY KIND`: KIND is `real`, or `broken` for a mutant: a set of holders with deadlines, whose
members do not read their own deadline.
"""

from __future__ import annotations

import contextlib
import os
import random
import sys
import time
from collections.abc import Iterator
from typing import Any

import redis

from lockwork import LockLost, Lockwork
from lockwork.protocol.permits.permits import ALL
from lockwork.runtime.clock import now
from notes import appender

LEASE = 1.0
PERMITS = 3

# KEYS: holders by deadline (ms); ARGV: who, ms
TAKE = """
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
if redis.call('ZCARD', KEYS[1]) >= 3 then return 0 end
redis.call('ZADD', KEYS[1], now + ARGV[2], ARGV[1])
return redis.call('INCR', KEYS[2])
"""


class BrokenGrant:
    """A grant of the mutant, which counts as held until its release."""

    lost = False
    mode = "write"

    def __init__(self, fence: int) -> None:
        self.fence = fence


@contextlib.contextmanager
def broken(client: redis.Redis) -> Iterator[BrokenGrant]:
    take = client.register_script(TAKE)
    me = f"{os.getpid()} {random.random()}"
    while not (fence := int(take(keys=["twin", "twin:fence"], args=[me, int(LEASE * 1000)]))):
        time.sleep(0.005)
    yield BrokenGrant(fence)
    client.zrem("twin", me)


def main(path: str, kind: str) -> None:
    append = appender(path)

    def note(event: str, thing: str, fence: int, units: int, at: float) -> None:
        append(event, thing=thing, fence=fence, units=units, at=at)

    def hold(thing: str, grant: Any, units: int) -> None:
        note("enter", thing, grant.fence, units, now())
        for _ in range(random.randrange(1, 6)):
            time.sleep(0.002)
            at = now()  # read before the check, so that "held" is true for this time
            if not grant.lost:
                note("held", thing, grant.fence, units, at)

    lw = Lockwork(lock_lease=LEASE)
    client = redis.Redis.from_url(os.environ["LOCKWORK_URL"])
    while True:
        units = random.choice((1, 1, 2))
        writes = random.random() < 0.3
        doc = lw.rwlock("doc")
        held: Any
        if kind == "broken":
            thing, units, held = "sem", 1, broken(client)
        elif random.random() < 0.5:
            thing, held = "sem", lw.semaphore("gpu", PERMITS, units=units)
        else:
            thing, units, held = "rw", ALL if writes else 1, doc.write() if writes else doc.read()
        with contextlib.suppress(LockLost), held as grant:
            hold(thing, grant, units)
            if units == ALL and random.random() < 0.5:
                grant.downgrade()
                hold(thing, grant, 1)


main(*sys.argv[1:])
