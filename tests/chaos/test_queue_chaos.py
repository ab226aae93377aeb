"""Workers are killed every second, and frozen past their lease: no job is lost, and repetitions have a reason.

LOCKWORK_CHAOS_JOBS is the number of jobs: `make chaos` enqueues 200,000. LOCKWORK_CHAOS_SECONDS is the time to enqueue
single jobs. The seed is printed with a failure.
"""

from __future__ import annotations

import math
import os
import random
import signal
import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import redis

from chaos.checkers import job_problems
from chaos.job_checks import group_problems, key_problems, unconfirmed, unexplained
from chaos.players import SEED, freeze, send
from chaos.worker_processes import WorkerProcesses
from lockwork.protocol.keys import QueueKeys
from processes import until

JOBS = int(os.environ.get("LOCKWORK_CHAOS_JOBS", "3600"))
KEYS, TENANTS = 50, 10
WAVES = 6
"""Seconds while the jobs are enqueued, so that jobs run while workers are killed."""
ONE_BY_ONE = int(os.environ.get("LOCKWORK_CHAOS_SECONDS", "10"))
"""Seconds while single jobs are enqueued."""
_SLOWEST = 150
"""Jobs a second, on the busiest machine."""

pytestmark = pytest.mark.timeout(JOBS / _SLOWEST + 120)


@dataclass
class Load:
    """Numbered jobs: every tenth has a key, every twentieth a group."""

    running: WorkerProcesses
    names: int = KEYS
    count: int = 0
    keys: dict[int, str] = field(default_factory=dict)
    groups: dict[int, str] = field(default_factory=dict)

    def add(self, count: int) -> None:
        """Enqueue this many jobs."""
        plain: list[tuple[int]] = []
        keys: dict[int, str] = {}
        groups: dict[int, str] = {}
        for number in range(self.count, self.count + count):
            if number % 10 == 0:
                keys[number] = f"k{number // 10 % self.names}"
            elif number % 20 == 5:
                groups[number] = f"t{number // 20 % TENANTS}"
            else:
                plain.append((number,))
        self.count += count
        self.keys.update(keys)
        self.groups.update(groups)
        self.running.in_order.enqueue_many(keys.items())
        self.running.shared.enqueue_many(groups.items())
        self.running.step.enqueue_many(plain)


def test_jobs_survive_killed_and_frozen_workers(chaos_url: str, tmp_path: Path) -> None:
    draw = random.Random(SEED)
    with ExitStack() as stack:
        running = WorkerProcesses(stack, chaos_url, tmp_path, 3, lease="3s", places=20)
        load = Load(running)
        began = time.monotonic()
        ticks = 0
        while load.count < JOBS or running.status().ready:
            load.add(min(math.ceil(JOBS / WAVES), JOBS - load.count))
            running.kill(draw)
            running.thawed()
            if ticks % 10 == 2:
                running.freeze(draw, 5)
            ticks += 1
            threading.Event().wait(1)
        until(lambda: running.thawed(), "all processes continue")
        status = running.finish(max(60, JOBS / _SLOWEST))
        took = time.monotonic() - began
        lines = running.history.lines()
        runs = [line for line in lines if line["event"] == "run"]
        problems = job_problems(runs, status, JOBS, running.dead(), unconfirmed(lines, running.troubles))
        duplicates = unexplained(lines, running.troubles, running.given_up())
        problems += duplicates + key_problems(lines, load.keys) + group_problems(lines, load.groups, 3)
    lost = JOBS - len({line["number"] for line in runs})
    print(
        f"seed {SEED}: {JOBS} jobs in {took:.0f} s, {running.kills} killed, {running.stops} frozen; lost {lost}, ",
        end="",
    )
    print(f"ran again {len(runs) - JOBS + lost}, of those unexplained {len(duplicates)}; {status}")
    assert running.kills >= 3
    assert running.stops
    assert problems == []
    assert status.recovered > 0


def test_offered_jobs_survive_killed_and_frozen_workers(
    chaos_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many jobs are offered to an idle worker, which may be killed or frozen at that moment."""
    monkeypatch.setenv("CHAOS_LONGEST", "0.005")
    draw, count = random.Random(SEED), 0
    with ExitStack() as stack:
        running = WorkerProcesses(stack, chaos_url, tmp_path, 3, lease="3s", places=20)
        admin = stack.enter_context(redis.Redis.from_url(chaos_url))
        offered: set[bytes] = set()
        for tick in range(ONE_BY_ONE * 2):
            end = time.monotonic() + 0.5
            while time.monotonic() < end:
                running.step.enqueue(count)
                count += 1
                offered |= _offered(admin)
                threading.Event().wait(draw.uniform(0, 0.01))
            running.kill(draw)
            running.thawed()
            if tick % 10 == 4:
                running.freeze(draw, 4)
        until(lambda: running.thawed(), "all processes continue")
        status = running.finish()
        lines = running.history.lines()
        runs = [line for line in lines if line["event"] == "run"]
        problems = job_problems(runs, status, count, running.dead(), unconfirmed(lines, running.troubles))
        duplicates = unexplained(lines, running.troubles, running.given_up())
    lost = count - len({line["number"] for line in runs})
    print(
        f"seed {SEED}: {count} jobs one by one, {len(offered)} of them seen as offers, {running.kills} killed, ",
        end="",
    )
    print(f"{running.stops} frozen; lost {lost}, ran again {len(runs) - count + lost}, unexplained {len(duplicates)}")
    assert offered
    assert running.kills >= 3
    assert running.stops
    assert problems + duplicates == []


def _offered(admin: redis.Redis) -> set[bytes]:
    """Return the running jobs that were offered; short jobs have ended by then."""
    found: set[bytes] = set()
    for key in admin.scan_iter(QueueKeys("lw", "default").run("*"), count=1000):
        tokens: dict[bytes, bytes] = admin.hgetall(key)  # type: ignore[assignment]
        found |= {id for id, token in tokens.items() if token.endswith(b" ~")}
    return found


def test_queue_that_accepts_outcomes_of_any_worker_is_caught(chaos_url: str, tmp_path: Path) -> None:
    """A worker that was frozen past its lease settles jobs of other workers."""
    with ExitStack() as stack:
        running = WorkerProcesses(stack, chaos_url, tmp_path, 2, lease="1s", places=15, broken="settle")
        count, problems = 0, []
        for _ in range(10):
            running.step.enqueue_many((number,) for number in range(count, count + 1000))
            count += 1000
            victim = running.workers[0]
            pids = [victim.pid, *victim.children()]
            until(lambda: running.status().running > 30, "both work")
            send(victim.pid, signal.SIGSTOP)
            freeze(pids[1:], 2.5)
            threading.Event().wait(0.3)  # time for its processes, before the supervisor kills them
            send(victim.pid, signal.SIGCONT)
            status = running.finish()
            problems = job_problems(running.history.lines("run"), status, count)
            if problems:
                break
    assert any("were settled" in problem for problem in problems), problems


def test_queue_that_ignores_keys_is_caught(chaos_url: str, tmp_path: Path) -> None:
    with ExitStack() as stack:
        running = WorkerProcesses(stack, chaos_url, tmp_path, 1, lease="3s", places=15, broken="key")
        load = Load(running, names=2)
        load.add(1000)
        running.finish()
        problems = key_problems(running.history.lines(), load.keys)
    assert problems
