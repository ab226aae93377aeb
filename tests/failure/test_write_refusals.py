"""A server that refuses writes for a while: workers and locks continue afterwards, and nothing is lost (Q1, L5)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import redis

from lockwork import Lockwork
from lockwork.runtime.embedded import Embedded
from processes import until, worker


def read_only(client: redis.Redis, on: bool) -> None:
    client.replicaof(*(("127.0.0.1", "1") if on else ("NO", "ONE")))


def full(client: redis.Redis, on: bool) -> None:
    client.config_set("maxmemory", 1 if on else 0)


def lonely(client: redis.Redis, on: bool) -> None:
    client.config_set("min-replicas-to-write", 1 if on else 0)


@pytest.mark.parametrize("trouble", [read_only, full, lonely])
def test_job_that_ends_during_write_refusals_is_settled_afterwards(
    spoiled: Embedded, spoil: redis.Redis, apps: Path, tmp_path: Path, trouble: Callable[[redis.Redis, bool], None]
) -> None:
    started, gate = tmp_path / "started", tmp_path / "gate"
    with Lockwork(spoiled.url) as lw, worker("good:lw", "--lease", "5s", url=spoiled.url, folder=apps) as process:

        @lw.task(retries=0)
        async def gated(started: str, gate: str) -> str: ...  # type: ignore[empty-body]

        job = gated.enqueue(str(started), str(gate))
        until(started.exists, "it runs")
        trouble(spoil, True)
        gate.touch()
        threading.Event().wait(0.7)  # longer than the app's patience
        trouble(spoil, False)
        assert job.result(30) == "done"
        status = until(lambda: status if (status := lw.queue().status()).running == 0 else None, "settled")
        assert status is not None
        assert (status.succeeded, status.recovered, status.dead) == (1, 0, 0)
        assert len(process.children()) == 1
        assert process.process.poll() is None


@pytest.mark.parametrize("trouble", [read_only, full, lonely])
def test_lease_survives_short_write_refusals(
    spoiled: Embedded, spoil: redis.Redis, trouble: Callable[[redis.Redis, bool], None]
) -> None:
    with Lockwork(spoiled.url, lock_lease="2s") as lw, lw.lock("x") as grant:
        trouble(spoil, True)
        threading.Event().wait(0.8)
        trouble(spoil, False)
        threading.Event().wait(1.5)
        assert not grant.lost
        assert lw.lock("x").inspect().fence == grant.fence


def test_worker_resumes_when_the_server_returns(spoiled: Embedded, spoil: redis.Redis, apps: Path) -> None:
    with Lockwork(spoiled.url) as lw, worker("good:lw", "--lease", "5s", url=spoiled.url, folder=apps) as process:

        @lw.task
        def add(a: int, b: int = 1) -> int: ...  # type: ignore[empty-body]

        assert add.enqueue(1).result(30) == 2
        spoil.execute_command("CLIENT", "PAUSE", "1500", "ALL")  # type: ignore[no-untyped-call]
        job = add.enqueue(2)
        assert job.result(30) == 3
        assert process.process.poll() is None
        assert lw.queue().status().recovered == 0
