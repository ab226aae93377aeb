"""Holders of locks killed and frozen at random while they work: no two hold one at once, and no write is lost.

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
    """Eight processes take turns, one is killed or frozen now and then; returns the history and what the store has."""
    draw = random.Random(SEED)
    with ExitStack() as stack:
        players = Players(stack, url, folder, "turns.py", "real")
        history = players.history
        until(lambda: len({line["pid"] for line in history.lines("enter")}) == 8, "each had a turn", 60)
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
        until(lambda: players.entered() > before + 20, "they still take turns", 60)
    with redis.Redis.from_url(url, decode_responses=True) as client:
        accepted = [int(fence) for fence in client.lrange("accepted", 0, -1)]
        return history.lines(), accepted, int(client.hget("store", "value") or 0)


def test_locks(chaos_url: str, tmp_path: Path) -> None:
    lines, accepted, value = turns(chaos_url, tmp_path / "turns", SECONDS / 2)
    print(f"seed {SEED}: {len(lines)} lines, {len(accepted)} writes")
    assert lock_problems(lines, accepted, value) == []
    assert len(accepted) > 20


def test_the_broken_lock_is_caught(chaos_url: str, tmp_path: Path) -> None:
    """A bare SET NX without an owner: who was frozen past its lease goes on, and deletes the next one's lock."""
    problems: list[str] = []
    with ExitStack() as stack:
        players = Players(stack, chaos_url, tmp_path / "turns", "turns.py", "broken")
        players.history.wait(1, "enter")
        for _ in range(20):  # it may be stopped when it only has to write down its exit
            players.let_go_on(players.stop_holder("exit"))
            problems = lock_problems(players.history.lines(), [], 0)
            if problems:
                break
    assert any("believed in its lock" in problem for problem in problems), problems
