"""Jobs with a key run one at a time and in order, and groups alternate; with real workers."""

from __future__ import annotations

import itertools
import os
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app_modules import Load
from history import History
from lockwork import ConfigError, Lockwork
from lockwork.runtime.embedded import start_private
from processes import until, worker


@pytest.fixture
def tenants(load: Load, tmp_path: Path) -> Iterator[Any]:
    """The app, without a worker."""
    with start_private(tmp_path / "server") as server:
        module: Any = load(server.url, "tenants")
        module.url = server.url
        yield module
        module.lw.close()


def settled(app: Any) -> bool:
    status = app.lw.queue().status()
    return bool(status.ready + status.scheduled + status.running == 0)


def peak_concurrency(lines: list[dict[str, Any]]) -> Counter[str]:
    """Return the peak of simultaneous jobs of each name."""
    now: Counter[str] = Counter()
    most: Counter[str] = Counter()
    for line in sorted(lines, key=lambda line: line["at"]):
        now[line["name"]] += 1 if line["event"] == "begin" else -1
        most[line["name"]] = max(most[line["name"]], now[line["name"]])
    return most


def test_jobs_of_a_key_run_one_at_a_time_in_order(tenants: Any, apps: Path, history: History) -> None:
    names = ["a", "b", "c"]
    jobs = [tenants.in_order.enqueue(history.path, name) for _ in range(40) for name in names]
    with worker("tenants:lw", "--processes", "2", "--concurrency", "10", url=tenants.url, folder=apps):
        until(lambda: settled(tenants), "all ran")
    lines = history.lines()
    assert peak_concurrency(lines) == dict.fromkeys(names, 1)
    for at, name in enumerate(names):
        begun = [line["id"] for line in lines if line["event"] == "begin" and line["name"] == name]
        assert begun == [job.id for job in jobs[at::3]]


def test_retry_keeps_its_key(tenants: Any, apps: Path, history: History) -> None:
    """Later jobs of the key wait until the failed job has succeeded."""
    first = tenants.in_order.enqueue(history.path, "a", fails=2)
    second = tenants.in_order.enqueue(history.path, "a")
    other = tenants.in_order.enqueue(history.path, "b")
    with worker("tenants:lw", url=tenants.url, folder=apps):
        until(lambda: settled(tenants), "all ran")
    begun = [(line["id"], line["attempt"]) for line in history.lines("begin") if line["name"] == "a"]
    assert begun == [(first.id, 1), (first.id, 2), (first.id, 3), (second.id, 1)]
    assert other.state() == "succeeded"


def test_dead_job_releases_its_key(tenants: Any, apps: Path, history: History) -> None:
    tenants.in_order.enqueue(history.path, "a", fails=100)
    second = tenants.in_order.enqueue(history.path, "a")
    with worker("tenants:lw", url=tenants.url, folder=apps):
        second.result(30)
    assert tenants.lw.queue().status().dead == 1


def test_killed_worker_releases_keys_and_groups(tenants: Any, apps: Path, history: History) -> None:
    for name in ("a", "b"):
        for _ in range(3):
            tenants.in_order.enqueue(history.path, name, seconds=0.3)
            tenants.by_turns.enqueue(history.path, name, seconds=0.3)
    with worker("tenants:lw", "--lease", "1", "--concurrency", "10", url=tenants.url, folder=apps) as process:
        until(lambda: len(history.lines("begin")) >= 4, "they run")
        os.kill(process.children()[0], signal.SIGKILL)
        until(lambda: settled(tenants), "all ran")
    status = tenants.lw.queue().status()
    assert status.recovered >= 4
    assert status.succeeded == 12


def test_groups_alternate(tenants: Any, apps: Path, history: History) -> None:
    """A tenant with many jobs does not delay other tenants. (Requested in asynq#328, #609, river#1145.)"""
    for _ in range(200):
        tenants.by_turns.enqueue(history.path, "big")
    for _ in range(10):
        tenants.by_turns.enqueue(history.path, "small")
    with worker("tenants:lw", "--concurrency", "4", url=tenants.url, folder=apps):
        until(lambda: settled(tenants), "all ran")
    names = [line["name"] for line in history.lines("begin")]
    last = max(at for at, name in enumerate(names) if name == "small")
    assert last < 60, "the small tenant's jobs ran among the first"
    assert max(peak_concurrency(history.lines()).values()) <= 2


def test_rate_of_a_group_is_not_exceeded(tenants: Any, apps: Path, history: History) -> None:
    for _ in range(9):
        tenants.slowly.enqueue(history.path, "a")
    other = tenants.slowly.enqueue(history.path, "b")
    with worker("tenants:lw", "--concurrency", "20", url=tenants.url, folder=apps):
        other.result(30)
        until(lambda: settled(tenants), "all ran")
    # a delivery's fence is the server's time in us; the start of the job also depends on the worker
    leased = sorted(line["fence"] / 1e6 for line in history.lines("begin") if line["name"] == "a")
    assert len(leased) == 9
    # five at once, and then one every 200 ms
    assert leased[-1] - leased[0] > 0.79
    assert all(later - earlier > 0.19 for earlier, later in zip(leased, leased[5:], strict=False))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"group": "{nobody}"}, "names a parameter that the function does not have"),
        ({"group_concurrency": 2}, "need group="),
        ({"group": "a", "group_concurrency": 0}, "whole number from 1"),
        ({"group": "a", "group_rate": "many"}, "a rate must be units per time"),
        ({"group": "a", "group_rate": "5/0.5ms"}, "period"),
        ({"key": 7}, "a job's key must be text, not 7"),
    ],
)
def test_wrong_key_and_group_options_are_refused(lw: Lockwork, options: dict[str, Any], message: str) -> None:
    async def step(name: str) -> None: ...

    with pytest.raises(ConfigError, match=message):
        lw.task(**options)(step)


def test_jobs_with_keys_that_no_worker_has_seen_count_as_ready(lw: Lockwork) -> None:
    async def step(name: str) -> None: ...

    task = lw.task(key="{name}")(step)
    for name in itertools.islice(itertools.cycle("ab"), 6):
        task.enqueue(name)
    task.options(delay="1h").enqueue("a")
    status = lw.queue().status()
    assert (status.ready, status.scheduled) == (6, 1)
