"""A run of jobs and a lock while servers fail at intervals, and the check of its history."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Self

import pytest
import redis

from chaos.checkers import Line, lock_problems
from chaos.failovers import Failover, Servers
from chaos.players import Players
from chaos.worker_processes import WorkerProcesses
from lockwork import LockworkError
from lockwork.protocol.queue.status import QueueStatus
from processes import until

CHUNK = 100
PARTITIONS = 6
LATE = 5.0
"""Seconds until a write has reached the replica, and until the worker reads the end of its lease."""
DEPTH = 2.0
"""Seconds of calls before a fault that a server with `everysec` may lose."""


@dataclass(frozen=True)
class Load:
    """Jobs that are enqueued within `seconds`, faults every so many seconds, and replicas that confirm each write."""

    jobs: int
    faults: int
    seconds: float
    every: float
    moves_every: float = float("inf")
    replicas: int = 0
    turns: int = 0
    """Grants of the lock."""


@dataclass(frozen=True)
class Outcome:
    """The history of a run."""

    load: Load
    confirmed: dict[int, float]
    """When each acknowledged job was acknowledged, Unix time."""
    lines: list[Line]
    status: QueueStatus
    failovers: list[Failover]
    elections: list[Failover]
    moves: int
    turns: list[Line]
    accepted: list[int]
    value: int

    @property
    def lost(self) -> set[int]:
        """Return the acknowledged jobs that never ran."""
        return self.confirmed.keys() - {line["number"] for line in self.lines if line["event"] == "run"}

    def unexplained_losses(self) -> list[str]:
        """Report lost jobs that were not acknowledged just before a server lost writes."""
        kept = [
            number for number in sorted(self.lost)
            if not any(each.since - DEPTH <= self.confirmed[number] <= each.until for each in self.failovers
                       if not each.orderly)
        ]  # fmt: skip
        return [f"{len(kept)} acknowledged jobs never ran, for instance {kept[0]}"] if kept else []

    def repetitions(self) -> tuple[int, list[str]]:
        """Count repeated runs, and report repetitions without a loss of writes in between.

        A crash loses writes that the replica did not have, such as leases and outcomes.
        """
        runs: dict[int, list[Line]] = defaultdict(list)
        ends: dict[tuple[int, int], float] = {}
        for line in self.lines:
            if line["event"] == "run":
                runs[line["number"]].append(line)
            else:
                ends[line["fence"], line["number"]] = line["at"]
        again, found = 0, []
        for number, its in runs.items():
            its.sort(key=lambda line: line["at"])
            for one, other in pairwise(its):
                again += 1
                ended = ends.get((one["fence"], number), float("inf"))
                if not any(
                    one["at"] <= each.until and ended >= each.since - LATE and other["at"] >= each.since
                    for each in [*self.failovers, *self.elections]
                    if not each.orderly
                ):
                    found.append(f"job {number} ran again, and no server lost writes meanwhile: {one} {other}")
        return again, found

    def lock_problems(self) -> list[str]:
        return lock_problems(self.turns, self.accepted, self.value)

    def work(self) -> str:
        entered = sum(line["event"] == "enter" for line in self.turns)
        return f"{self.load.jobs:,} jobs, {entered:,} grants of a lock, {len(self.accepted):,} fenced writes"

    def found(self) -> str:
        again, unexplained = self.repetitions()
        return (
            f"{len(self.confirmed):,} jobs acknowledged, {len(self.lost)} of these lost; "
            f"{again} ran again, {len(unexplained)} without a loss of writes"
        )


@dataclass
class Trouble:
    """A thread that triggers failovers and moves slots at intervals."""

    servers: Servers
    every: float
    moves_every: float
    failovers: list[Failover] = field(default_factory=list)
    moves: int = 0
    error: BaseException | None = None
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread = field(init=False)

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._main, name="trouble")
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _main(self) -> None:
        try:
            self._run()
        except BaseException as error:  # noqa: BLE001 - raised by the test
            self.error = error

    def _run(self) -> None:
        failover_at, move_at = time.monotonic() + self.every / 4, time.monotonic()
        while not self._stop.wait(max(0.0, min(failover_at, move_at) - time.monotonic())):
            if time.monotonic() >= failover_at:
                began = time.time()
                orderly = self.servers.by_hand() if len(self.failovers) % 2 else self.servers.crash()
                self.failovers.append(Failover(began, time.time(), orderly))
                # on a busy machine a fault takes longer, and the servers must work between two faults
                failover_at = max(failover_at + self.every, time.monotonic() + self.every / 2)
            else:
                move_at += self.moves_every
                self.moves += self.servers.move()


def survive(url: str, servers: Servers, store: str, folder: Path, load: Load) -> Outcome:
    """Enqueue the jobs and acquire the lock while the servers fail; wait until all jobs have ended."""
    confirmed: dict[int, float] = {}
    with ExitStack() as stack:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        patch.setenv("CHAOS_STORE", store)
        patch.setenv("CHAOS_REPLICAS", str(load.replicas))
        running = WorkerProcesses(stack, url, folder, 2, lease="20s", places=20, partitions={"default": PARTITIONS})
        players = Players(stack, url, folder / "turns", "turns.py", "real", 4)
        step = running.step.options(replicas=load.replicas)
        with Trouble(servers, load.every, load.moves_every) as trouble:
            began = time.monotonic()
            for first in range(0, load.jobs, CHUNK):
                chunk = range(first, min(first + CHUNK, load.jobs))
                try:
                    step.enqueue_many((number,) for number in chunk)
                    confirmed.update(dict.fromkeys(chunk, time.time()))
                except LockworkError as error:
                    print(f"jobs {chunk.start} to {chunk.stop - 1} are not confirmed: {error!r}")
                time.sleep(max(0.0, began + load.seconds * first / load.jobs - time.monotonic()))
            faults = load.faults
            until(lambda: len(trouble.failovers) >= faults or trouble.error, f"{faults} faults", 120 + faults * 30)
            until(lambda: players.entered() >= load.turns or trouble.error, f"{load.turns} turns", 60 + load.turns / 5)
        if trouble.error:
            raise trouble.error
        status = running.finish(120 + load.jobs / 200)
        outcome = (running.history.lines(), status, trouble.failovers, servers.elections(), trouble.moves)
        turns = players.history.lines()
    with redis.Redis.from_url(store, decode_responses=True) as client:
        accepted = [int(fence) for fence in client.lrange("accepted", 0, -1)]
        value = int(client.hget("store", "value") or 0)
    return Outcome(load, confirmed, *outcome, turns, accepted, value)
