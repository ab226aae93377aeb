"""Primaries fail over every few seconds, and slots move: no job that a replica has confirmed is lost.

LOCKWORK_CHAOS_JOBS is the number of jobs, and LOCKWORK_CHAOS_SECONDS the time to enqueue them; `make chaos
TOPOLOGY=cluster` enqueues 50,000 jobs and continues until 5,000 acquisitions of the lock. The seed is printed.
"""

from __future__ import annotations

import os
import random
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from pathlib import Path

import pytest
import redis

from chaos.checkers import Line, lock_problems
from chaos.failovers import Failover, Sentinels, Servers, Shards, Trouble
from chaos.players import SEED, Players
from chaos.worker_processes import WorkerProcesses
from clusters import clustered
from lockwork import LockworkError
from lockwork.protocol import slots
from processes import until
from sentinels import watched

TOPOLOGIES = [name for name in ("cluster", "sentinel") if os.environ.get("LOCKWORK_CHAOS_TOPOLOGY", "") in ("", name)]
JOBS = int(os.environ.get("LOCKWORK_CHAOS_JOBS", "2000"))
SECONDS = float(os.environ.get("LOCKWORK_CHAOS_SECONDS", "20"))
TURNS = JOBS // 10
CHUNK = 100
PARTITIONS = 6
LATE = 5.0
"""Seconds until a write has reached the replica, and until the worker reads the end of its lease."""

pytestmark = pytest.mark.timeout(SECONDS * 10 + JOBS / 20 + 300)


@contextmanager
def troubled(topology: str, folder: Path) -> Iterator[tuple[str, Servers]]:
    """Start servers that can fail over; return their URL."""
    if topology == "sentinel":
        with watched(folder) as found:
            yield found.url, Sentinels(found)
    else:
        moving = [slots.slot(slots.tag(f"default/{number}")) for number in range(PARTITIONS)]
        with clustered(folder, replicas=1) as cluster:
            yield cluster.url, Shards(cluster, [*moving, slots.slot("lock:x")], random.Random(SEED))


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_confirmed_jobs_survive_failovers(
    topology: str, tmp_path: Path, chaos_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHAOS_STORE", chaos_url)
    confirmed: set[int] = set()
    with ExitStack() as stack:
        url, servers = stack.enter_context(troubled(topology, tmp_path / "servers"))
        running = WorkerProcesses(stack, url, tmp_path, 2, lease="20s", places=20, partitions={"default": PARTITIONS})
        players = Players(stack, url, tmp_path / "turns", "turns.py", "real", 4)
        step = running.step.options(replicas=1)
        with Trouble(servers, 20 if SECONDS > 60 else 8, 5 if SECONDS > 60 else 2) as trouble:
            began = time.monotonic()
            for first in range(0, JOBS, CHUNK):
                chunk = range(first, min(first + CHUNK, JOBS))
                try:
                    step.enqueue_many((number,) for number in chunk)
                    confirmed.update(chunk)
                except LockworkError as error:
                    print(f"jobs {chunk.start} to {chunk.stop - 1} are not confirmed: {error!r}")
                time.sleep(max(0.0, began + SECONDS * first / JOBS - time.monotonic()))
            until(lambda: len(trouble.failovers) >= 2 or trouble.error, "two failovers", 120)
            until(lambda: players.entered() >= TURNS or trouble.error, f"{TURNS} turns", 60 + TURNS / 5)
        if trouble.error:
            raise trouble.error
        status = running.finish(120 + JOBS / 200)
        elections = servers.elections()
        lines = running.history.lines()
        turns = players.history.lines()
        given_up = running.given_up()
    with redis.Redis.from_url(chaos_url, decode_responses=True) as client:
        accepted = [int(fence) for fence in client.lrange("accepted", 0, -1)]
        value = int(client.hget("store", "value") or 0)
    ran = {line["number"] for line in lines if line["event"] == "run"}
    again, duplicates = unexplained(lines, [*trouble.failovers, *elections])
    overlaps = lock_problems(turns, accepted, value)
    entered = sum(line["event"] == "enter" for line in turns)
    print(
        f"seed {SEED}: {topology}: {len(trouble.failovers)} failovers, {len(elections)} elections of Sentinels, "
        f"{trouble.moves} slots moved; {JOBS} jobs, "
        f"{len(confirmed)} confirmed by the replica, lost of these {len(confirmed - ran)}, "
        f"of the others {JOBS - len(ran | confirmed)}; ran again {again}, of those unexplained {len(duplicates)}; "
        f"{entered} turns with the lock, {len(accepted)} writes, problems {len(overlaps)}; "
        f"{len(given_up)} worker processes given up; {status}"
    )
    assert confirmed <= ran
    assert duplicates + overlaps == []
    assert status.dead == 0
    assert len(confirmed) > JOBS / 2


def unexplained(lines: Sequence[Line], failovers: Sequence[Failover]) -> tuple[int, list[str]]:
    """Count repeated runs, and report repetitions without a lost primary in between.

    A crash loses writes that the replica did not have, such as leases and outcomes.
    """
    runs: dict[int, list[Line]] = defaultdict(list)
    ends: dict[tuple[int, int], float] = {}
    for line in lines:
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
                for each in failovers
                if not each.orderly
            ):
                found.append(f"job {number} ran again, and no primary was lost meanwhile: {one} {other}")
    return again, found
