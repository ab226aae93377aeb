"""Workers during steps of the server's clock: live workers keep their sessions, and dead workers are noticed."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import redis

from app_modules import Load
from lockwork.protocol.keys import QueueKeys
from processes import Started, until, worker
from server_steps import Stepping

KEYS = QueueKeys("lw", "steps")
LEASE = 2.0


def _beats(admin: redis.Redis, count: int) -> None:
    """Wait until every worker has sent this many heartbeats."""
    for _ in range(count):
        before = _leases(admin)
        until(lambda before=before: _all_changed(admin, before), "all have beaten")  # type: ignore[misc]


def _leases(admin: redis.Redis) -> dict[bytes, float]:
    found: Any = admin.zrange(KEYS.workers, 0, -1, withscores=True)
    return dict(found)


def _all_changed(admin: redis.Redis, before: dict[bytes, float]) -> bool:
    now = _leases(admin)
    return all(now.get(session) != score for session, score in before.items())


@pytest.fixture
def two(url: str, load: Load, apps: Path, tmp_path: Path, admin: redis.Redis, clock: Stepping) -> Any:
    """Two workers, with a job on one of them; yields the job and the processes."""
    app: Any = load(url, "stepped")
    with app.lw, ExitStack() as stack:
        worker_processes = [
            stack.enter_context(worker("stepped:lw", "--lease", f"{LEASE:g}s", url=url, folder=apps)) for _ in range(2)
        ]
        until(lambda: admin.zcard(KEYS.workers) == 2, "both have begun")
        job = app.held.enqueue(str(tmp_path / "began"), str(tmp_path / "gate"))
        until((tmp_path / "began").exists, "it runs")
        _beats(admin, 4)
        yield job, worker_processes


@pytest.mark.timeout(120)
@pytest.mark.parametrize("step", [20.0, 7200.0, -7200.0], ids=["more than a lease", "hours", "back by hours"])
def test_running_job_is_not_run_twice_or_marked_dead(
    two: tuple[Any, list[Started]], admin: redis.Redis, clock: Stepping, tmp_path: Path, step: float
) -> None:
    job, worker_processes = two
    clock.step(step)
    _beats(admin, 6)
    (tmp_path / "gate").touch()
    assert job.result(timeout=20) == "done"
    assert (tmp_path / "began").read_text() == "began\n"
    assert all("the clock of the server of queue steps was set" in process.errors for process in worker_processes)
    assert not any("is dead" in process.errors for process in worker_processes)


@pytest.mark.timeout(120)
def test_job_of_dead_worker_waits_for_one_lease_after_step_back(
    two: tuple[Any, list[Started]], admin: redis.Redis, clock: Stepping, tmp_path: Path
) -> None:
    """Without a correction, the job would wait two hours for the end of the session's lease."""
    job, worker_processes = two
    busy = next(run for run in admin.scan_iter(KEYS.run("*"))).decode().removeprefix(KEYS.run(""))
    victim = next(
        process for process in worker_processes if any(f"/{pid}/" in busy for pid in (process.pid, *process.children()))
    )
    victim.end()
    clock.step(-7200)
    other = next(process for process in worker_processes if process is not victim)
    until(lambda: "is dead" in other.errors, "its session is over")
    (tmp_path / "gate").touch()
    until(lambda: job.state() in ("dead", "succeeded"), "it has ended")
