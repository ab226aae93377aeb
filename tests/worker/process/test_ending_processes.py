"""The end of runner processes: with their worker, without losing jobs or attempts."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from history import History
from processes import alive, until, worker


def test_running_jobs_may_end_within_the_grace(
    forge: Any, own_url: str, apps: Path, history: History, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    with worker("forge:lw", "--grace", "10m", url=own_url, folder=apps) as process:
        job = forge.gated.enqueue(history.path, str(gate))
        (line,) = history.wait(1)
        process.send(signal.SIGTERM)
        until(lambda: "stopping: " in process.errors, "it stops")
        assert alive(line["pid"])
        gate.touch()
        assert process.wait() == 0
        assert job.result(5) == 1
        assert not alive(line["pid"])


@pytest.mark.parametrize("again", [False, True], ids=["the grace is over", "a second signal"])
def test_jobs_that_do_not_end_in_time_are_returned_uncounted(
    forge: Any, own_url: str, apps: Path, history: History, tmp_path: Path, *, again: bool
) -> None:
    gate = tmp_path / "gate"
    options = ("--runners", "1", "--grace", "10m" if again else "100ms", "--lease", "60s")
    with worker("forge:lw", *options, url=own_url, folder=apps) as process:
        jobs = forge.gated.enqueue_many([(history.path, str(gate))] * 3)
        (line,) = history.wait(1)
        process.send(signal.SIGTERM)
        if again:
            until(lambda: "stopping: " in process.errors, "it stops")
            process.send(signal.SIGTERM)
        assert process.wait() == 0
        until(lambda: not alive(line["pid"]), "its process is gone")
        status = forge.lw.queue().status()
        assert (status.ready, status.running, status.recovered, status.failed) == (3, 0, 0, 0)
    assert history.lines("done") == []
    gate.touch()
    with worker("forge:lw", "--burst", url=own_url, folder=apps) as process:
        assert process.wait() == 0
    assert [job.result(5) for job in jobs] == [1] * 3


@pytest.mark.parametrize("victim", ["child", "supervisor"])
def test_runners_die_with_a_killed_worker(
    forge: Any, own_url: str, apps: Path, history: History, tmp_path: Path, victim: str
) -> None:
    gate = tmp_path / "gate"
    with worker("forge:lw", "--runners", "2", "--grace", "1s", url=own_url, folder=apps) as process:
        forge.gated.enqueue_many([(history.path, str(gate))] * 2)
        runners = [line["pid"] for line in history.wait(2)]
        (child,) = process.children()
        if victim == "child":
            os.kill(child, signal.SIGKILL)
            until(lambda: not any(map(alive, runners)), "they are gone")
            # another worker runs the jobs
            assert {line["attempt"] for line in history.wait(4)[2:]} == {2}
            assert forge.lw.queue().status().recovered == 2
        else:
            process.send(signal.SIGKILL)
            until(lambda: not alive(child) and not any(map(alive, runners)), "they are gone")
            until(lambda: forge.lw.queue().status().running == 0, "the child gave its jobs back")


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nothing ends a process that never lets Python run")
def test_runner_that_blocks_its_interpreter_dies_with_its_worker_process(
    forge: Any, own_url: str, apps: Path, history: History
) -> None:
    with worker("forge:lw", "--runners", "1", url=own_url, folder=apps) as process:
        forge.holds_in_a_process.enqueue(history.path)
        (line,) = history.wait(1)
        os.kill(process.children()[0], signal.SIGKILL)
        until(lambda: not alive(line["pid"]), "it is gone")


def test_runners_end_with_a_replaced_child(forge: Any, own_url: str, apps: Path, history: History) -> None:
    options = ("--runners", "1", "--max-jobs", "3")
    with worker("forge:lw", *options, url=own_url, folder=apps) as process:
        found = [job.result(30) for job in forge.pids.enqueue_many([()] * 3)]
        until(lambda: "is replaced: 3 jobs done" in process.errors, "it is replaced")
        until(lambda: not any(alive(pid) for pid, _ in found), "its runners are gone")
        assert forge.pids.enqueue().result(30)[1] not in {child for _, child in found}


def test_runner_ignores_signals_to_the_process_group(
    forge: Any, own_url: str, apps: Path, history: History, tmp_path: Path
) -> None:
    """Terminals send Ctrl-C, and service managers send SIGTERM, to all processes."""
    gate = tmp_path / "gate"
    with worker("forge:lw", "--runners", "1", url=own_url, folder=apps):
        job = forge.gated.enqueue(history.path, str(gate))
        (line,) = history.wait(1)
        for number in (signal.SIGINT, signal.SIGTERM):
            os.kill(line["pid"], number)
        gate.touch()
        assert job.result(30) == 1
        assert forge.pids.enqueue().result(30)[0] == line["pid"]
        assert os.getpgid(line["pid"]) == line["pid"]


def test_burst_leaves_no_runner(forge: Any, own_url: str, apps: Path) -> None:
    jobs = forge.pids.enqueue_many([()] * 10)
    with worker("forge:lw", "--burst", "--runners", "2", url=own_url, folder=apps) as process:
        assert process.wait() == 0
    assert not any(alive(pid) for pid in {job.result(5)[0] for job in jobs})
