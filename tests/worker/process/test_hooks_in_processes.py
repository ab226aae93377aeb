"""Hooks, lifespans and dependencies of jobs in runner processes."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app_modules import Load
from history import History
from lockwork import JobFailed
from processes import until, worker


@pytest.fixture
def hooked(own_url: str, history: History, load: Load) -> Iterator[Any]:
    module: Any = load(own_url, "hooked")
    with module.lw:
        yield module


def test_dependencies_are_provided_in_the_runner(hooked: Any, own_url: str, apps: Path, history: History) -> None:
    with worker("hooked:lw", "--runners", "1", url=own_url, folder=apps):
        for weight in (1, 2):
            job = hooked.smelt.enqueue(weight)
            *found, pid, child = job.result(30)
            assert found == [weight, "iron", f"fire for {job.id}"]
            assert pid != child
    assert [line["pid"] for line in history.lines("iron")].count(pid) == 1
    assert [line["pid"] for line in history.lines("lit")] == [pid, pid]
    assert len(history.lines("out")) == 2


def test_hooks_run_once_in_the_process_with_the_outcome(
    hooked: Any, own_url: str, apps: Path, history: History
) -> None:
    with worker("hooked:lw", "--runners", "1", url=own_url, folder=apps):
        job = hooked.smelt.enqueue(3)
        runner = job.result(30)[3]
        history.wait(1, "success")
        bad = hooked.bursts.enqueue()
        with pytest.raises(JobFailed, match="WorkerDied"):
            bad.result(30)
        history.wait(1, "dead")
    assert [(line["id"], line["pid"]) for line in history.lines("success")] == [(job.id, runner)]
    assert [line["id"] for line in history.lines("start")] == [job.id, bad.id]
    (parent,) = history.lines("parent")
    # the crashed process cannot call hooks
    assert [(line["id"], line["pid"]) for line in history.lines("failure")] == [(bad.id, parent["child"])]
    assert [(line["id"], line["pid"]) for line in history.lines("dead")] == [(bad.id, parent["child"])]
    assert "WorkerDied" in history.lines("failure")[0]["error"]


def test_hooks_run_for_a_job_with_a_hard_timeout(hooked: Any, own_url: str, apps: Path, history: History) -> None:
    with worker("hooked:lw", url=own_url, folder=apps):
        assert hooked.watched.enqueue(4).result(30) == 4
        assert history.wait(1, "success")[0]["result"] == 4


def test_lifespan_of_a_runner_ends_with_the_runner(hooked: Any, own_url: str, apps: Path, history: History) -> None:
    with worker("hooked:lw", "--runners", "1", url=own_url, folder=apps) as process:
        *_, runner, child = hooked.smelt.enqueue(1).result(30)
        process.send(signal.SIGTERM)
        assert process.wait() == 0
    for event in ("begins", "ends"):
        assert sorted(line["pid"] for line in history.lines(event)) == sorted([runner, child])


def test_stopping_runner_finishes_the_hooks_of_its_job(
    hooked: Any, own_url: str, apps: Path, history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job is settled, and a hook still runs, when the worker stops."""
    monkeypatch.setenv("HOOK_SECONDS", "1")
    with worker("hooked:lw", "--runners", "1", url=own_url, folder=apps) as process:
        *_, runner, child = hooked.smelt.enqueue(1).result(30)
        process.send(signal.SIGTERM)
        assert process.wait() == 0
    assert [line["pid"] for line in history.lines("success")] == [runner]
    assert sorted(line["pid"] for line in history.lines("ends")) == sorted([runner, child])


def test_runner_that_fails_to_start_fails_no_job(
    hooked: Any, own_url: str, apps: Path, history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LIFESPAN_FAILS", "1")
    with worker("hooked:lw", url=own_url, folder=apps) as process:
        hooked.smelt.enqueue(1)
        until(lambda: "no process could be started for it: exit status 1" in process.errors, "it is logged")
        assert hooked.lw.queue().status().failed == 0
