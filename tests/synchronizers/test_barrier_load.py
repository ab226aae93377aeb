"""Barriers and latches of many processes, while connections break and scripts are forgotten."""

from __future__ import annotations

import contextlib
from typing import Any

import redis

from lockwork import Lockwork
from processes import Started, script, until

ROUNDS = 40
PARTIES = """
import sys
from concurrent.futures import ThreadPoolExecutor
from lockwork import Lockwork

def party(turns):
    return [phase.wait(50) for _ in range(turns)]

with Lockwork() as lw:
    phase = lw.barrier("phase", 9)
    phase.inspect()
    print("ready", flush=True)
    with ThreadPoolExecutor(3) as pool:
        for passed in pool.map(party, [int(sys.argv[1])] * 3):
            print(*passed, flush=True)
"""
COUNTERS = """
import asyncio, sys
from lockwork import Lockwork

async def main():
    async with Lockwork() as lw:
        for turn in range(int(sys.argv[1])):
            boot = lw.latch(f"boot{turn}", 30)
            async def count():
                await boot.acount_down()
                return await boot.await_(50)
            assert all(await asyncio.gather(*(count() for _ in range(10))))
            print(turn, flush=True)

asyncio.run(main())
"""


def disturb(admin: redis.Redis) -> None:
    admin.client_kill_filter(_type="normal", skipme=True)
    admin.client_kill_filter(_type="pubsub")
    admin.script_flush()


def opened(admin: redis.Redis) -> int:
    """Return the number of times the barrier has opened."""
    generation: Any = admin.hget("lw:{barrier:phase}", "g")
    return int(generation or 0)


def test_barrier(admin: redis.Redis, url: str) -> None:
    """Nine threads of three processes pass together repeatedly, each with a different index."""
    with contextlib.ExitStack() as stack:
        processes = [stack.enter_context(script(PARTIES, ROUNDS, url=url)) for _ in range(3)]
        for process in processes:
            assert process.line() == "ready"
        for generation in range(0, ROUNDS, 4):
            until(lambda least=generation: opened(admin) >= least, "it goes on")  # type: ignore[misc]
            disturb(admin)
        passed = [[int(index) for index in process.line().split()] for process in processes for _ in range(3)]
        assert [process.wait() for process in processes] == [0, 0, 0]
    for turn in zip(*passed, strict=True):
        assert sorted(turn) == list(range(9))


def test_latch(lw: Lockwork, admin: redis.Redis, url: str) -> None:
    with contextlib.ExitStack() as stack:
        processes: list[Started] = [stack.enter_context(script(COUNTERS, 12, url=url)) for _ in range(3)]
        for turn in range(12):
            disturb(admin)
            assert [process.line() for process in processes] == [str(turn)] * 3
        assert [process.wait() for process in processes] == [0, 0, 0]
    assert lw.latch("boot11", 30).inspect().left == 0
