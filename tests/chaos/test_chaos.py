"""Processes killed and frozen at random while they work: nothing is lost, doubled or overlapping.

LOCKWORK_CHAOS_SECONDS makes each run longer; the seed of a run is printed with a failure.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import redis

from chaos.checkers import job_problems, lock_problems
from history import History
from lockwork import Lockwork
from lockwork.protocol.jobs import QueueStatus
from lockwork.runtime.embedded import start_private
from processes import Started, alive, started, until, worker

SECONDS = float(os.environ.get("LOCKWORK_CHAOS_SECONDS", "20"))
SEED = int(os.environ.get("LOCKWORK_CHAOS_SEED", "0")) or random.randrange(1 << 30)
APPS = Path(__file__).parent / "apps"
JOBS_A_SECOND = 1000
"""More than the workers can do, so that there is work until the end."""

pytestmark = pytest.mark.timeout(SECONDS * 4 + 120)


@pytest.fixture
def chaos_url(tmp_path: Path) -> Iterator[str]:
    with start_private(tmp_path / "server") as server:
        yield server.url


def send(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        if alive(pid):
            os.kill(pid, number)


def freeze(pids: list[int], seconds: float) -> None:
    """Stop processes past their lease, and let them go on as if nothing had been."""
    for pid in pids:
        send(pid, signal.SIGSTOP)
    threading.Event().wait(seconds)
    for pid in pids:
        send(pid, signal.SIGCONT)


class Crew:
    """Workers on one server, and what their jobs write down."""

    def __init__(self, stack: ExitStack, url: str, folder: Path, size: int, lease: str, *, broken: bool) -> None:
        self.history = History(folder / "history")
        self.app = stack.enter_context(Lockwork(url))
        self.step = self.app.task(name="step", retries=200)(_step)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("CHAOS_HISTORY", self.history.path)
            patch.setenv("CHAOS_BROKEN", "1" if broken else "0")
            options = ("--processes", "2", "--concurrency", "15", "--lease", lease, "--grace", "1s")
            self.workers = [
                stack.enter_context(worker("crowd:lw", *options, url=url, folder=APPS)) for _ in range(size)
            ]
        until(lambda: len(self.app.queue().workers()) == 2 * size, "all have joined")

    def status(self) -> QueueStatus:
        return self.app.queue().status()

    def finish(self, count: int) -> QueueStatus:
        """Wait until nothing is left to do."""
        until(lambda: (status := self.status()).ready + status.scheduled + status.running == 0, "all ended", 90)
        ended = [process.errors for process in self.workers if process.process.poll() is not None]
        assert not ended, f"a supervisor ended: {ended}"
        status = self.status()
        print(f"seed {SEED}: {count} jobs, {status}")
        return status


def _step(number: int) -> None: ...


def test_jobs(chaos_url: str, tmp_path: Path) -> None:
    draw = random.Random(SEED)
    count = int(JOBS_A_SECOND * SECONDS)
    kills = stops = 0
    with ExitStack() as stack:
        crew = Crew(stack, chaos_url, tmp_path, 2, "2s", broken=False)
        crew.step.enqueue_many((number,) for number in range(count))
        end = time.monotonic() + SECONDS
        while time.monotonic() < end and crew.status().ready:
            victim = draw.choice(crew.workers)
            if (kills + stops) % 5 == 4:
                freeze([victim.pid, *victim.children()], 3)
                stops += 1
            elif found := victim.children():
                send(draw.choice(found), signal.SIGKILL)
                kills += 1
                threading.Event().wait(draw.uniform(0.3, 1.2))
        status = crew.finish(count)
        lines = crew.history.lines("run")
    print(f"{kills} killed, {stops} frozen, {len(lines)} runs")
    assert kills >= 4
    assert stops
    assert job_problems(lines, status, count) == []
    assert status.recovered > 0


def test_the_broken_queue_is_caught(chaos_url: str, tmp_path: Path) -> None:
    """A worker that was frozen past its lease settles jobs that are others' by now: the checker must see it."""
    with ExitStack() as stack:
        crew = Crew(stack, chaos_url, tmp_path, 2, "1s", broken=True)
        count, problems = 0, []
        for _ in range(10):
            crew.step.enqueue_many((number,) for number in range(count, count + 1000))
            count += 1000
            victim = crew.workers[0]
            pids = [victim.pid, *victim.children()]
            until(lambda: crew.status().running > 30, "both work")
            send(victim.pid, signal.SIGSTOP)
            freeze(pids[1:], 2.5)
            threading.Event().wait(0.3)  # time for its processes, before it learns that they are given up and ends them
            send(victim.pid, signal.SIGCONT)
            problems = job_problems(crew.history.lines("run"), crew.finish(count), count)
            if problems:
                break
    assert any("were settled" in problem for problem in problems), problems


def stopped_inside(history: History) -> int:
    """Stop a process that has the lock."""
    while True:
        pid: int = history.lines("enter")[-1]["pid"]
        send(pid, signal.SIGSTOP)
        threading.Event().wait(0.001)
        if [line["event"] for line in history.lines() if line["pid"] == pid][-1] != "exit":
            return pid
        send(pid, signal.SIGCONT)


def turns(url: str, folder: Path, kind: str, seconds: float) -> tuple[list[dict[str, Any]], list[int], int]:
    """Eight processes take turns, one is killed or frozen now and then; returns the history and what the store has."""
    draw = random.Random(SEED)
    folder.mkdir()
    history = History(folder / "history")
    with redis.Redis.from_url(url) as client:
        client.flushall()
    command = [sys.executable, str(APPS / "turns.py"), history.path, kind]
    with ExitStack() as stack:

        def one_more() -> Started:
            return stack.enter_context(started(command, folder=folder, url=url))

        players = [one_more() for _ in range(8)]
        until(lambda: len({line["pid"] for line in history.lines("enter")}) == 8, "each had a turn", 60)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            victim = draw.randrange(8)
            if draw.random() < 0.6:
                pid = stopped_inside(history) if draw.random() < 0.8 else players[victim].pid
                freeze([pid], draw.choice((0.2, 1.5)))
            else:
                players[victim].end()
                players[victim] = one_more()
                threading.Event().wait(draw.uniform(0, 0.5))
        before = len(history.lines("enter"))
        until(lambda: len(history.lines("enter")) > before + 20, "they still take turns", 60)
    with redis.Redis.from_url(url, decode_responses=True) as client:
        accepted = [int(fence) for fence in client.lrange("accepted", 0, -1)]
        return history.lines(), accepted, int(client.hget("store", "value") or 0)


def test_locks(chaos_url: str, tmp_path: Path) -> None:
    lines, accepted, value = turns(chaos_url, tmp_path / "turns", "real", SECONDS / 2)
    print(f"seed {SEED}: {len(lines)} lines, {len(accepted)} writes")
    assert lock_problems(lines, accepted, value) == []
    assert len(accepted) > 20


def test_the_broken_lock_is_caught(chaos_url: str, tmp_path: Path) -> None:
    """A bare SET NX without an owner: who was frozen past its lease goes on, and deletes the next one's lock."""
    problems: list[str] = []
    for round in range(10):
        lines, accepted, value = turns(chaos_url, tmp_path / f"turns{round}", "broken", 4)
        problems = lock_problems(lines, accepted, value)
        if problems:
            break
    assert any("believed in its lock" in problem for problem in problems), problems
