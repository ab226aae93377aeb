"""Many processes at one limiter, while connections break and scripts are forgotten: judged by the server's own log."""

from __future__ import annotations

import contextlib
from typing import Any

import msgspec
import pytest
import redis

from lockwork.protocol.synchronizers.limiter import Algorithm
from processes import script, until

CALLS = """
import random, sys, threading
from concurrent.futures import ThreadPoolExecutor
from lockwork import Lockwork
from lockwork.errors import RateLimited, ServerUnavailable

def calls(number):
    draw, taken, unknown = random.Random(number), 0, 0
    for _ in range(40):
        n = draw.choice((1, 1, 2, 3))
        try:
            api.acquire(n, wait=draw.choice((None, None, 0, 0.05)))
            taken += n
        except RateLimited:
            pass
        except ServerUnavailable:
            unknown += n  # a caller with a short wait also gives up when all its connections break
    return taken, unknown

with Lockwork() as lw:
    api = lw.limiter("api", "60/200ms", burst=int(sys.argv[3]) or None, algorithm=sys.argv[2])
    api.inspect()
    print("ready", flush=True)
    sys.stdin.readline()
    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(calls, range(4 * int(sys.argv[1]), 4 * int(sys.argv[1]) + 4)))
        print(*map(sum, zip(*made)), flush=True)
"""


def log(admin: redis.Redis) -> list[tuple[int, int]]:
    """Slot (us) and units of each booking, in order."""
    fields: Any = admin.hgetall("lw:{limiter:api}")
    entries = [msgspec.msgpack.decode(value) for name, value in fields.items() if name.startswith(b"e")]
    return sorted((int(slot), int(n)) for slot, n, *_ in entries)


@pytest.mark.parametrize(("algorithm", "burst"), [("bucket", 10), ("window", 0)])
def test_processes(admin: redis.Redis, url: str, algorithm: Algorithm, burst: int) -> None:
    with contextlib.ExitStack() as stack:
        callers = [stack.enter_context(script(CALLS, number, algorithm, burst, url=url)) for number in range(3)]
        for caller in callers:
            assert caller.line() == "ready"
        for caller in callers:
            caller.tell("go")
        before = 0
        for _ in range(8):
            # disturb the server after a number of bookings instead of after a time
            before = until(lambda least=before: len(log(admin)) > least + 20 and len(log(admin)), "calls go on")  # type: ignore[misc]
            admin.client_kill_filter(_type="normal", skipme=True)
            admin.script_flush()
        taken, unknown = map(sum, zip(*(map(int, caller.line().split()) for caller in callers), strict=True))
        assert [caller.wait() for caller in callers] == [0, 0, 0]
    booked = log(admin)
    # a booking whose caller gave up is not given back when others count on it: then it is booked and not taken
    assert taken <= sum(n for _, n in booked) <= taken + unknown, "each call took once"
    for at, (slot, _) in enumerate(booked):
        units = 0
        for other, n in booked[at:]:
            if algorithm == "window" and other - slot >= 200_000:
                break
            units += n
            allowed = 60 if algorithm == "window" else burst + (other - slot + 1) * 60 / 200_000
            assert units <= allowed, f"{units} units within {other - slot} us"
