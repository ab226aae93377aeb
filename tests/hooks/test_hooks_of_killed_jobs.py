"""Jobs whose process was killed at a hard timeout: another process runs their hooks."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from history import History
from lockwork import JobFailed, Lockwork
from lockwork.errors import JobCancelled
from lockwork.protocol.queue.leases import Outcome
from lockwork.worker.ipc.messages import HardTimeout
from lockwork.worker.supervisor.child_process import WorkerProcess
from lockwork.worker.supervisor.hook_relay import HookRelay
from processes import until

Load = Callable[[str], Any]


@pytest.mark.parametrize("task", ["stubborn_thread", "blocks_the_loop"])
@pytest.mark.parametrize("processes", ["1", "2"])
def test_hooks_run_once_per_attempt(app: Load, work: Any, history: History, task: str, processes: str) -> None:
    observed = app("observed")
    with work("observed", "-p", processes):
        job = getattr(observed, task).enqueue()
        with pytest.raises(JobFailed, match=r"hard time-out of 1\.2 s"):
            job.result(30)
        history.wait(1, "dead")
        assert observed.add.enqueue(1, 1).result(30) == 2
    lines = [line for line in history.lines() if line["id"] == job.id]
    event_counts = Counter((line["event"], line.get("attempt")) for line in lines if line["event"] != "start-too")
    ran = [("start", 1), ("ran", 1), ("start", 2), ("ran", 2)]
    ends = [("failure", 1), ("retry", 1), ("failure", 2), ("dead", None)]
    assert event_counts == Counter([("enqueue", None), *ran, *ends])
    assert {line["error"] for line in lines if line["event"] in ("failure", "dead")} == {
        "JobTimeout('it took longer than its hard time-out of 1.2 s: its process was killed')"
    }
    assert {line["task"] for line in lines if "task" in line} == {task}
    assert [line["delay"] <= 0.01 for line in history.lines("retry")] == [True]
    killed = {line["attempt"]: line["pid"] for line in history.lines("ran") if line["id"] == job.id}
    for line in history.lines("failure"):
        assert line["pid"] != killed[line["attempt"]]


def test_next_attempt_waits_for_hooks_of_killed_job(
    app: Load, work: Any, history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job is the next one in the process that runs the hooks, and no other job runs there meanwhile."""
    monkeypatch.setenv("HOOK", "slow")
    observed = app("observed")
    with work("another_hook", "-p", "1"):
        job = observed.blocks_the_loop.enqueue()
        with pytest.raises(JobFailed):
            job.result(30)
        history.wait(1, "dead")
    assert [line["attempt"] for line in history.lines("slow")] == [1, 2]


def test_cancelled_job_is_reported_as_cancelled(app: Load, work: Any, history: History) -> None:
    """The blocked loop received no cancellation, but the server has it."""
    observed = app("observed")
    with work("observed"):
        job = observed.blocks_the_loop.options(hard_timeout="3s").enqueue()
        history.wait(1)
        assert job.cancel()
        with pytest.raises(JobCancelled):
            job.result(30)
        (line,) = history.wait(1, "cancel")
        assert observed.add.enqueue(1, 1).result(30) == 2
    assert (line["id"], line["task"], line["attempt"], line["current"]) == (job.id, "blocks_the_loop", 1, job.id)
    assert not [line for kind in ("failure", "retry", "dead") for line in history.lines(kind)]


def test_burst_worker_runs_hooks_before_it_exits(app: Load, work: Any, history: History) -> None:
    observed = app("observed")
    job = observed.stubborn_thread.options(retries=0).enqueue()
    with work("observed", "--burst") as process:
        assert process.wait() == 0
        assert "no worker process can call the hooks" not in process.errors
    assert [line["id"] for kind in ("failure", "dead") for line in history.lines(kind)] == [job.id] * 2


def test_undelivered_hooks_are_logged(app: Load, work: Any, history: History) -> None:
    observed = app("observed")
    job = observed.stubborn_thread.options(retries=0).enqueue()
    with work("observed", "--once") as process:
        assert process.wait() == 0
        assert f"no worker process can call the hooks of jobs that ended with their process: {job.id}" in (
            process.errors
        )
    assert not history.lines("failure")


@pytest.mark.parametrize("reports", ["in time", "late"])
def test_hook_that_ends_its_process_is_not_called_again(
    app: Load, work: Any, history: History, monkeypatch: pytest.MonkeyPatch, reports: str
) -> None:
    """The process has reported that it is ready, also if the supervisor sees its end first."""
    monkeypatch.setenv("HOOK", "fatal")
    monkeypatch.setenv("REPORTS", reports)
    observed = app("observed")
    with work("another_hook") as process:
        job = observed.stubborn_thread.options(retries=0).enqueue()
        with pytest.raises(JobFailed):
            job.result(30)
        history.wait(1, "fatal")
        until(lambda: "ended (exit status 9)" in process.errors, "it takes its process along")
        assert observed.add.enqueue(1, 1).result(30) == 2
    assert [len(history.lines(kind)) for kind in ("failure", "dead", "fatal")] == [1, 1, 1]


def hard_timeout(number: int) -> HardTimeout:
    return HardTimeout("default", Outcome(f"j{number}", b"1 2 host/1/x.1", "d", b"{}"), 0.7, "task")


@pytest.fixture
def unresponsive() -> Iterator[WorkerProcess]:
    """A worker process that never reads its messages."""
    code = "import time; time.sleep(600)"
    process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE)
    yield WorkerProcess(process, "host/1/x", 0.0)
    process.kill()
    process.wait()
    assert process.stdin is not None
    process.stdin.close()


def test_child_that_does_not_read_delays_no_other(lw: Lockwork, unresponsive: WorkerProcess) -> None:
    relay = HookRelay(lw.registry.context)
    for number in range(5000):
        relay.add(hard_timeout(number))
    relay.forward([unresponsive])
    relay.forward([unresponsive])
    first = len(unresponsive.sent_early)
    assert 0 < first < 5000
    relay.on_exit(unresponsive)  # it never started, so the next process receives all messages in order
    unresponsive.sent_early.clear()
    unresponsive.process.kill()
    unresponsive.process.wait()
    relay.forward([unresponsive])
    assert unresponsive.sent_early == []


def test_process_that_never_started_runs_no_hooks(
    lw: Lockwork, unresponsive: WorkerProcess, caplog: pytest.LogCaptureFixture
) -> None:
    @lw.hooks.dead
    def died(event: object) -> None: ...

    relay = HookRelay(lw.registry.context)
    relay.add(hard_timeout(1))
    relay.add(hard_timeout(2))
    relay.forward([unresponsive])
    relay.on_exit(unresponsive)
    relay.close()
    assert "jobs that ended with their process: j1, j2" in caplog.text
