"""A process that acquires a lock repeatedly, and writes to a store that checks fences.

`python turns.py HISTORY KIND`: KIND is `real`, or a mutant: `broken` is a bare SET NX with a DEL, and with `unfenced`
the store accepts every fence. CHAOS_STORE is the URL of the store, if it is on another server, and CHAOS_REPLICAS the
number of replicas that confirm each grant.
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

from lockwork import LockLost, Lockwork, LockworkError
from lockwork.runtime.clock import now
from notes import appender

LEASE = 1.0

# The store accepts writes only with the highest known fence.
# KEYS: store, accepted; ARGV: fence, value ('' to announce the fence and read)
CHECK = "if tonumber(ARGV[1]) < newest then return -1 end"
STORE = f"""
local newest = tonumber(redis.call('HGET', KEYS[1], 'fence') or 0)
{CHECK}
redis.call('HSET', KEYS[1], 'fence', ARGV[1])
if ARGV[2] == '' then return tonumber(redis.call('HGET', KEYS[1], 'value') or 0) end
redis.call('HSET', KEYS[1], 'value', ARGV[2])
redis.call('RPUSH', KEYS[2], ARGV[1])
return tonumber(ARGV[2])
"""


class BrokenGrant:
    """A grant of the mutant, which counts as held until its release."""

    lost = False

    def __init__(self, fence: int) -> None:
        self.fence = fence


@contextlib.contextmanager
def broken_lock(client: redis.Redis) -> Iterator[BrokenGrant]:
    while not client.set("twin", "taken", nx=True, px=int(LEASE * 1000)):
        time.sleep(0.005)
    yield BrokenGrant(client.incr("twin:fence"))
    client.delete("twin")


def main(path: str, kind: str) -> None:
    append = appender(path)

    def note(event: str, fence: int, at: float) -> None:
        append(event, fence=fence, at=at)

    elsewhere = os.environ.get("CHAOS_STORE")
    lw = Lockwork(lock_lease=LEASE)
    client = redis.Redis.from_url(elsewhere or os.environ["LOCKWORK_URL"])
    replicas = int(os.environ.get("CHAOS_REPLICAS", "0"))
    store = client.register_script(STORE.replace(CHECK, "") if kind == "unfenced" else STORE)
    while True:
        held: Any = broken_lock(client) if kind == "broken" else lw.lock("x", replicas=replicas)
        with contextlib.suppress(LockworkError if elsewhere else LockLost), held as grant:
            note("enter", grant.fence, now())
            value = int(store(keys=["store", "accepted"], args=[grant.fence, ""]))
            for _ in range(random.randrange(1, 6)):
                time.sleep(0.002)
                at = now()  # read before the check, so that "held" is true for this time
                if not grant.lost:
                    note("held", grant.fence, at)
            if value >= 0:
                store(keys=["store", "accepted"], args=[grant.fence, value + 1])
            note("exit", grant.fence, now())


main(*sys.argv[1:])
