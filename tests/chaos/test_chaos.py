"""Lock holders are killed and frozen at random while they work: holders never overlap, and no write is lost.

LOCKWORK_CHAOS_SECONDS makes each run longer; the seed of a run is printed with a failure.
"""

from __future__ import annotations

import random
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import redis

from chaos.checkers import lock_problems
from chaos.players import SECONDS, SEED, Players, freeze
from processes import until

pytestmark = pytest.mark.timeout(SECONDS * 4 + 120)


def turns(url: str, folder: Path, seconds: float) -> tuple[list[dict[str, Any]], list[int], int]:
    """Run eight processes and kill or freeze them at random; return the history, the accepted fences and the value."""
    draw = random.Random(SEED)
    with ExitStack() as stack:
        players = Players(stack, url, folder, "turns.py", "real")
        history = players.history
        until(lambda: len({line["pid"] for line in history.lines("enter")}) == 8, "every process acquired the lock", 60)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            victim = players[draw.randrange(8)].pid
            if draw.random() < 0.6:
                pid = players.stop_holder("exit") if draw.random() < 0.8 else victim
                freeze([pid], draw.choice((0.2, 1.5)))
            else:
                players.replace(victim)
                threading.Event().wait(draw.uniform(0, 0.5))
        before = players.entered()
        until(lambda: players.entered() > before + 20, "the lock is still acquired", 60)
    with redis.Redis.from_url(url, decode_responses=True) as client:
        accepted = [int(fence) for fence in client.lrange("accepted", 0, -1)]
        return history.lines(), accepted, int(client.hget("store", "value") or 0)


def test_locks_stay_exclusive_under_chaos(chaos_url: str, tmp_path: Path) -> None:
    lines, accepted, value = turns(chaos_url, tmp_path / "turns", SECONDS / 2)
    print(f"seed {SEED}: {len(lines)} lines, {len(accepted)} writes")
    assert lock_problems(lines, accepted, value) == []
    assert len(accepted) > 20


def test_broken_lock_is_caught(chaos_url: str, tmp_path: Path) -> None:
    """A bare SET NX without an owner: a process that was frozen past its lease deletes the next holder's lock."""
    problems: list[str] = []
    with ExitStack() as stack:
        players = Players(stack, chaos_url, tmp_path / "turns", "turns.py", "broken")
        players.history.wait(1, "enter")
        for _ in range(20):  # the process may be stopped just before it records its exit
            players.let_go_on(players.stop_holder("exit"))
            problems = lock_problems(players.history.lines(), [], 0)
            if problems:
                break
    assert any("believed in its lock" in problem for problem in problems), problems
