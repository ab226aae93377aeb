"""A process that acquires and releases 64 locks, some of them often, as fast as it can, and records its grants.

`python cycles.py HISTORY KIND`: KIND is `real`, or `careless` for a mutant: its holders do not check if their lease has
ended.
"""

from __future__ import annotations

import contextlib
import random
import sys
import time

from lockwork import LockLost, LockTimeout, Lockwork
from lockwork.runtime.clock import now
from notes import appender

LEASE = 1.0
LOCKS = 64
WAIT = 0.02
"""Seconds. Short, so that the lock of a frozen process does not stop all others."""


def main(path: str, kind: str) -> None:
    append = appender(path)
    lw = Lockwork(lock_lease=LEASE)
    locks = [lw.lock(f"cycle/{number}", wait=WAIT) for number in range(LOCKS)]
    while True:
        number = int(LOCKS * random.random() ** 3)
        with contextlib.suppress(LockTimeout, LockLost), locks[number] as grant:
            append("enter", lock=number, fence=grant.fence, at=now())
            if random.random() < 0.02:  # long enough to be frozen in
                time.sleep(random.uniform(0, 0.01))
            at = now()  # read before the check, so that "held" is true for this time
            if kind == "careless" or not grant.lost:
                append("held", lock=number, fence=grant.fence, at=at)


main(*sys.argv[1:])
