"""`lockwork queue` shows the tasks with limits, and resumes a paused task."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner, Result

from lockwork import Lockwork
from lockwork.cli.commands import cli
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queue import enqueue, leases, task_limits
from lockwork.protocol.queue.enqueue import NewJob
from lockwork.protocol.queue.leases import Outcome
from lockwork.protocol.queue.task_limits import LimitedTask, TaskLimits

_LIMITS = TaskLimits(at_once=5, jobs=100, per_ms=1000, failures=1, window_ms=60_000, pause_ms=300_000)


@pytest.fixture
def mail(lw: Lockwork) -> QueueKeys:
    """A queue whose task `send` is paused after a failure, with another job that waits."""
    keys = QueueKeys("lw", "mail")
    run = lw.runtime.run
    run(leases.beat(keys, {"host/1/a": True}, 60_000, 1.0))
    run(task_limits.declare(keys, {"send": LimitedTask(_LIMITS, ("send",))}))
    run(enqueue.push(keys, [NewJob("a", b'1,1,,;["send",[]]'), NewJob("b", b'1,1,,;["send",[]]')]))
    batch = run(leases.reserve(keys, "host/1/a", 1, "r1", ""))
    (job,) = batch.jobs
    run(leases.settle(keys, "host/1/a", [Outcome(job.id, job.token, "d", b"{}", 0, "send")], 60_000))
    assert not run(leases.reserve(keys, "host/1/a", 1, "r2", "")).jobs
    return keys


def _run(url: str, *words: str) -> Result:
    return CliRunner(env={"LOCKWORK_URL": url}).invoke(cli, ["queue", *words])


def test_paused_task_is_shown_and_resumed(lw: Lockwork, url: str, mail: QueueKeys) -> None:
    shown = _run(url, "mail").output
    assert "tasks with limits" in shown
    line = next(line for line in shown.splitlines() if line.startswith("send"))
    assert "paused" in line
    assert "0 of 5" in line
    assert "100/s" in line
    document = json.loads(_run(url, "mail", "--json").output)
    (state,) = document["task_limits"]
    assert (state["task"], state["state"], state["waiting"]) == ("send", "paused", 1)
    assert 290 < state["pause_ends_in"] <= 300
    assert _run(url, "resume", "mail", "--task", "send").exit_code == 0
    again = _run(url, "resume", "mail", "--task", "send")
    assert again.exit_code == 1
    assert "task send is not paused in queue mail" in str(again.exception)
    (job,) = lw.runtime.run(leases.reserve(mail, "host/1/a", 1, "r3", "")).jobs
    assert job.id == "b"
    lw.runtime.run(leases.settle(mail, "host/1/a", [Outcome(job.id, job.token, "s")], 60_000))


async def test_async_twins(alw: Lockwork) -> None:
    queue = alw.queue("mail")
    assert await queue.atask_limits() == []
    assert not await queue.aresume_task("send")


def test_queue_without_limited_tasks_shows_none(lw: Lockwork, url: str) -> None:
    lw.task(queue="mail")(_send).enqueue()
    assert "task_limits" not in json.loads(_run(url, "mail", "--json").output)
    assert "tasks with limits" not in _run(url, "mail").output


def _send() -> None:
    """Do nothing."""
