"""Hooks, lifespans and what tasks depend on, for jobs in processes of their own."""

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
def hearth(own_url: str, history: History, load: Load) -> Iterator[Any]:
    module: Any = load(own_url, "hearth")
    with module.lw:
        yield module


def test_what_a_task_depends_on_is_provided_where_it_runs(
    hearth: Any, own_url: str, apps: Path, history: History
) -> None:
    with worker("hearth:lw", "--runners", "1", url=own_url, folder=apps):
        for weight in (1, 2):
            job = hearth.smelt.enqueue(weight)
            *found, pid, child = job.result(30)
            assert found == [weight, "iron", f"fire for {job.id}"]
            assert pid != child
    assert [line["pid"] for line in history.lines("iron")].count(pid) == 1
    assert [line["pid"] for line in history.lines("lit")] == [pid, pid]
    assert len(history.lines("out")) == 2


def test_hooks_run_once_in_the_process_that_knows(hearth: Any, own_url: str, apps: Path, history: History) -> None:
    with worker("hearth:lw", "--runners", "1", url=own_url, folder=apps):
        job = hearth.smelt.enqueue(3)
        runner = job.result(30)[3]
        history.wait(1, "success")
        bad = hearth.bursts.enqueue()
        with pytest.raises(JobFailed, match="WorkerDied"):
            bad.result(30)
        history.wait(1, "dead")
    assert [(line["id"], line["pid"]) for line in history.lines("success")] == [(job.id, runner)]
    assert [line["id"] for line in history.lines("start")] == [job.id, bad.id]
    (parent,) = history.lines("parent")
    # its own process could not tell any more
    assert [(line["id"], line["pid"]) for line in history.lines("failure")] == [(bad.id, parent["child"])]
    assert [(line["id"], line["pid"]) for line in history.lines("dead")] == [(bad.id, parent["child"])]
    assert "WorkerDied" in history.lines("failure")[0]["error"]


def test_hooks_of_a_job_with_a_hard_timeout(hearth: Any, own_url: str, apps: Path, history: History) -> None:
    with worker("hearth:lw", url=own_url, folder=apps):
        assert hearth.watched.enqueue(4).result(30) == 4
        assert history.wait(1, "success")[0]["result"] == 4


def test_what_is_set_up_in_a_runner_is_taken_down_with_it(
    hearth: Any, own_url: str, apps: Path, history: History
) -> None:
    with worker("hearth:lw", "--runners", "1", url=own_url, folder=apps) as process:
        *_, runner, child = hearth.smelt.enqueue(1).result(30)
        process.send(signal.SIGTERM)
        assert process.wait() == 0
    for event in ("begins", "ends"):
        assert sorted(line["pid"] for line in history.lines(event)) == sorted([runner, child])


def test_a_runner_whose_job_has_just_ended_is_let_go_as_well(
    hearth: Any, own_url: str, apps: Path, history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its job is settled, and a hook is still told of it, when the worker stops."""
    monkeypatch.setenv("HEARTH_TAKES", "1")
    with worker("hearth:lw", "--runners", "1", url=own_url, folder=apps) as process:
        *_, runner, child = hearth.smelt.enqueue(1).result(30)
        process.send(signal.SIGTERM)
        assert process.wait() == 0
    assert [line["pid"] for line in history.lines("success")] == [runner]
    assert sorted(line["pid"] for line in history.lines("ends")) == sorted([runner, child])


def test_a_runner_that_cannot_set_up_blames_no_job(
    hearth: Any, own_url: str, apps: Path, history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEARTH_IS_COLD", "1")
    with worker("hearth:lw", url=own_url, folder=apps) as process:
        hearth.smelt.enqueue(1)
        until(lambda: "no process could be started for it: exit status 1" in process.errors, "it is said")
        assert hearth.lw.queue().status().failed == 0
