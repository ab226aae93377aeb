"""A candidate for a leadership that records when it considers itself the leader.

`python candidates.py HISTORY KIND`: KIND is `real`, or `broken` for a mutant: the process that has set a key
leads and renews the key, even if it belongs to another process.
"""

from __future__ import annotations

import os
import random
import sys
import time
from collections.abc import Callable

import redis

from lockwork import Lockwork
from lockwork.runtime.clock import now
from notes import appender

LEASE = 1.0
Note = Callable[[str, int, float], None]


def campaign(note: Note) -> None:
    lw = Lockwork(lock_lease=LEASE)
    election = lw.election(
        "x",
        on_gain=lambda grant: note("enter", grant.fence, now()),
        on_loss=lambda grant: note("loss", grant.fence, now()),
    )
    with election:
        while True:
            at = now()  # read before the check, so that "held" is true for this time
            fence = election.fence
            if fence is not None:
                note("held", fence, at)
                if random.random() < 0.01:
                    election.resign()
            time.sleep(0.005)


def broken_campaign(note: Note) -> None:
    client = redis.Redis.from_url(os.environ["LOCKWORK_URL"])
    while not client.set("twin", "taken", nx=True, px=int(LEASE * 1000)):
        time.sleep(0.005)
    fence = client.incr("twin:fence")
    note("enter", fence, now())
    while True:
        note("held", fence, now())
        client.pexpire("twin", int(LEASE * 1000))
        time.sleep(0.005)


def main(path: str, kind: str) -> None:
    append = appender(path)

    def note(event: str, fence: int, at: float) -> None:
        append(event, fence=fence, at=at)

    note("ready", 0, now())
    (campaign if kind == "real" else broken_campaign)(note)


main(*sys.argv[1:])
