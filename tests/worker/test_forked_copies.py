"""Jobs that fork: a forked copy that returns from the task exits and does none of the worker's work."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from app_modules import Load
from lockwork.worker.environment import LOOPS
from processes import Started, until, worker

STATUS = {"returns": 0, "raises": 1, "exits": 7}
TASKS = (
    "on_loop",
    "on_loop_limited",
    "on_loop_injected",
    "in_thread",
    "in_thread_injected",
    "batched",
    "abatched",
    "in_runner",
    "on_loop_of_runner",
)


@pytest.fixture
def noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """File where the app's clean-ups, hooks and middlewares write their process ID."""
    path = tmp_path / "noted"
    path.touch()
    monkeypatch.setenv("FORKED", str(path))
    return path


@pytest.fixture
def forker(noted: Path, own_url: str, load: Load) -> Any:
    module: Any = load(own_url, "forker")
    with module.lw:
        yield module


def check(process: Started, forker: Any, noted: Path, ran: int) -> None:
    """Check that the worker's processes did not change and that only they ran the jobs."""
    assert forker.ping.enqueue().result(30) in process.children()
    until(lambda: forker.lw.queue().status().succeeded == ran + 1, "each job has ended, once")
    status = forker.lw.queue().status()
    assert (status.running, status.ready, status.failed, status.dead) == (0, 0, 0, 0)
    until(lambda: noted.read_text().count("hook") == ran + 1, "each hook has run, once")
    noting = [line.split() for line in noted.read_text().splitlines()]
    events = [event for event, _ in noting]
    assert len({pid for _, pid in noting}) <= 2, "the worker process and its runner"
    assert "after await" not in events
    assert "has ended, or" not in process.errors


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("loop", LOOPS)
def test_copy_ends_where_it_leaves_the_task(
    forker: Any, own_url: str, apps: Path, noted: Path, task: str, loop: str
) -> None:
    with worker("forker:lw", "--loop", loop, "--runners", "1", url=own_url, folder=apps) as process:
        for how, status in STATUS.items():
            assert getattr(forker, task).enqueue(how).result(40) == status
        check(process, forker, noted, len(STATUS))
        errors = process.errors
    shown = f"of task '{task}' " if "batched" not in task else f"of task '{task}'"
    assert shown in errors
    assert "forked a copy of its process, which returned from the task: the copy exits" in errors
    assert "forked a copy of its process, which failed: LookupError: in the copy" in errors
    assert errors.count("Traceback") == 1


@pytest.mark.parametrize("loop", LOOPS)
def test_middlewares_do_not_run_in_a_copy(
    forker: Any, own_url: str, apps: Path, noted: Path, loop: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MIDDLEWARES", "1")
    with worker("forker:lw", "--loop", loop, url=own_url, folder=apps) as process:
        for task in (forker.on_loop, forker.in_thread, forker.batched):
            assert task.enqueue("returns").result(40) == 0
        check(process, forker, noted, 3)
    assert noted.read_text().count("middleware") == 4


@pytest.mark.parametrize("loop", LOOPS)
def test_copy_ends_when_it_waits_on_the_event_loop(
    forker: Any, own_url: str, apps: Path, noted: Path, loop: str
) -> None:
    with worker("forker:lw", "--loop", loop, url=own_url, folder=apps) as process:
        forker.ping.enqueue().result(30)
        (own,) = process.children()
        beside = [
            job for _ in range(5) for job in (forker.awaits_in_copy.enqueue(), *forker.ping.enqueue_many([()] * 20))
        ]
        assert {job.result(60) for job in beside} == {1, own}
        check(process, forker, noted, 106)


def test_processes_of_multiprocessing_end_as_usual(forker: Any, own_url: str, apps: Path, noted: Path) -> None:
    with worker("forker:lw", url=own_url, folder=apps) as process:
        assert forker.by_multiprocessing.enqueue().result(40) == 9
        check(process, forker, noted, 1)
        assert "forked a copy" not in process.errors
