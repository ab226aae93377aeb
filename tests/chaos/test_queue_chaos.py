"""Workers are killed every second, and frozen past their lease: no job is lost, and repetitions have a reason."""

from __future__ import annotations

import math
import random
import signal
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import redis

from chaos import tiers
from chaos.checkers import Line, job_problems
from chaos.job_checks import group_problems, key_problems, unconfirmed, unexplained
from chaos.players import freeze, send
from chaos.report import Report
from chaos.tiers import SEED
from chaos.worker_processes import WorkerProcesses
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queue.status import QueueStatus
from processes import until

PIECE = "jobs"
COUNTS = tiers.counts(PIECE)
JOBS = COUNTS.jobs
KEYS, TENANTS = 50, 10
WAVES = max(6, COUNTS.kills * 4 // 5)
"""Number of enqueues: jobs run at each fault. Some faults kill three processes."""
PAUSE = 1.0 if COUNTS.kills < 500 else 0.6
"""Seconds between two faults."""
_SLOWEST = 150
"""Jobs a second, on the busiest machine."""

pytestmark = pytest.mark.timeout(JOBS / _SLOWEST + COUNTS.kills * 3 + COUNTS.seconds * 3 + 120)


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


def test_jobs_survive_killed_and_frozen_workers(chaos_url: str, tmp_path: Path, report: Report) -> None:
    draw = random.Random(SEED)
    with ExitStack() as stack:
        running = WorkerProcesses(stack, chaos_url, tmp_path, 3, lease="3s", places=20)
        load = Load(running)
        ticks = 0
        while load.count < JOBS or running.status().ready or not enough(running):
            load.add(min(math.ceil(JOBS / WAVES), JOBS - load.count))
            running.kill(draw)
            running.thawed()
            if ticks % 9 == 2:
                running.freeze(draw, 5)
            ticks += 1
            threading.Event().wait(PAUSE)
        until(lambda: running.thawed(), "all processes continue")
        status = running.finish(max(60, JOBS / _SLOWEST))
        lines = running.history.lines()
        runs = [line for line in lines if line["event"] == "run"]
        problems = job_problems(runs, status, JOBS, running.dead(), unconfirmed(lines, running.troubles))
        duplicates = unexplained(lines, running.troubles, running.given_up())
        problems += duplicates + key_problems(lines, load.keys) + group_problems(lines, load.groups, 3)
        running.keep(tmp_path)
    report.run(f"{JOBS:,} jobs", faults(running), found(runs, JOBS, status, duplicates), problems)
    assert enough(running)
    assert problems == []
    assert status.recovered > 0


def enough(running: WorkerProcesses) -> bool:
    return running.kills >= COUNTS.kills and running.stops >= COUNTS.stops


def faults(running: WorkerProcesses) -> str:
    return f"SIGKILL to {running.kills:,} processes, SIGSTOP to {running.stops:,}"


def found(runs: Sequence[Line], count: int, status: QueueStatus, duplicates: Sequence[str]) -> str:
    lost = count - len({line["number"] for line in runs})
    again = len(runs) - count + lost
    return f"{lost} lost; {again:,} ran again, {len(duplicates)} without a fault; {status.dead} dead of crashes"


def test_offered_jobs_survive_killed_and_frozen_workers(
    chaos_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, report: Report
) -> None:
    """Many jobs are offered to an idle worker, which may be killed or frozen at that moment."""
    monkeypatch.setenv("CHAOS_LONGEST", "0.005")
    draw, count = random.Random(SEED), 0
    with ExitStack() as stack:
        running = WorkerProcesses(stack, chaos_url, tmp_path, 3, lease="3s", places=20)
        admin = stack.enter_context(redis.Redis.from_url(chaos_url))
        offered: set[bytes] = set()
        for tick in range(COUNTS.seconds * 2):
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
        problems += duplicates
        work = f"{count:,} jobs one by one, at least {len(offered):,} of them offered to an idle worker"
    report.run(work, faults(running), found(runs, count, status, duplicates), problems)
    assert offered
    assert running.kills >= 3
    assert running.stops
    assert problems == []


def _offered(admin: redis.Redis) -> set[bytes]:
    """Return the running jobs that were offered; short jobs have ended by then."""
    found: set[bytes] = set()
    for key in admin.scan_iter(QueueKeys("lw", "default").run("*"), count=1000):
        tokens: dict[bytes, bytes] = admin.hgetall(key)  # type: ignore[assignment]
        found |= {id for id, token in tokens.items() if token.endswith(b" ~")}
    return found


def test_queue_that_accepts_outcomes_of_any_worker_is_caught(chaos_url: str, tmp_path: Path, control: Report) -> None:
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
    control.control("settle without the check of the lease: a frozen worker settles the jobs of others", problems)
    assert any("were settled" in problem for problem in problems), problems


def test_queue_that_forgets_jobs_of_a_dead_worker_is_caught(chaos_url: str, tmp_path: Path, control: Report) -> None:
    with ExitStack() as stack:
        running = WorkerProcesses(stack, chaos_url, tmp_path, 2, lease="1s", places=15, broken="forget")
        count = 3000
        running.step.enqueue_many((number,) for number in range(count))
        until(lambda: running.status().running > 30, "both work")
        running.kill_machine(running.workers[0])
        status = running.finish()
        problems = job_problems(running.history.lines("run"), status, count)
    control.control("recovery without the return of the jobs: those of a killed worker are in no place", problems)
    assert any("were settled" in problem for problem in problems), problems


def test_queue_that_ignores_keys_is_caught(chaos_url: str, tmp_path: Path, control: Report) -> None:
    with ExitStack() as stack:
        running = WorkerProcesses(stack, chaos_url, tmp_path, 1, lease="3s", places=15, broken="key")
        load = Load(running, names=2)
        load.add(1000)
        running.finish()
        problems = key_problems(running.history.lines(), load.keys)
    control.control("reserve without the check of the key: jobs of a key run side by side", problems)
    assert problems
