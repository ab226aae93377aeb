"""Runner processes in the metrics: their number, their memory, and the reasons for replacements."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from history import History
from lockwork import JobFailed
from lockwork.worker.ipc.messages import RunnerExited, RunnerStarted
from lockwork.worker.supervisor.child_process import WorkerProcess
from ports import free_port
from processes import children, until, worker
from scraping import scraped


def of_runners(found: dict[str, float]) -> list[float]:
    return [size for name, size in found.items() if re.fullmatch(r'worker_memory_bytes\{process="1\.\d+"\}', name)]


def replaced(found: dict[str, float]) -> dict[str, float]:
    return {
        reason: found.get(f'runner_replaced_total{{reason="{reason}"}}', -1)
        for reason in ("died", "max-memory", "hard-timeout")
    }


def test_runners_are_measured_and_counted(
    forge: Any, own_url: str, apps: Path, history: History, tmp_path: Path
) -> None:
    port, gate = free_port(), tmp_path / "gate"
    options = ("--runners", "2", "--max-memory", "200MB", "--health-port", str(port))
    with worker("forge:lw", *options, url=own_url, folder=apps) as process:
        before = until(lambda: scraped(port), "it answers")
        assert (before["worker_runners"], of_runners(before)) == (0, [])
        held = forge.gated.enqueue(history.path, str(gate))
        history.wait(1)
        now = until(lambda: found if (found := scraped(port)).get("worker_runners") == 1 else None, "one is there")
        assert now is not None
        (size,) = of_runners(now)
        assert size > 5_000_000
        assert now["worker_processes"] == 1

        forge.hoards.enqueue(300).result(30)
        assert forge.dies_once.enqueue(history.path, "exit").result(30) == 2
        with pytest.raises(JobFailed):
            forge.stubborn.options(retries=0).enqueue(history.path).result(30)
        wanted = {"died": 1, "max-memory": 1, "hard-timeout": 1}
        until(lambda: replaced(scraped(port)) == wanted, "each is counted once")
        gate.touch()
        assert held.result(30) == 1
        (child,) = process.children()
        until(lambda: len(of_runners(scraped(port))) == len(children(child)), "ended runners are no longer counted")
        after = scraped(port)
        assert replaced(after) == wanted
        assert after['worker_replaced_total{reason="died"}'] == 0


@pytest.fixture
def child() -> Iterator[WorkerProcess]:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    yield WorkerProcess(process, "host/1/x", 0.0)
    process.communicate(b"\n")


def test_reported_runners_are_measured_until_they_exit(child: WorkerProcess) -> None:
    reports = [RunnerStarted(child.pid), RunnerStarted(99_999_999)]
    assert [child.on_runner_report(message) for message in reports] == ["", ""]
    assert len(child.memory_of_runners()) == 1, "the other one cannot be measured"
    ends = [RunnerExited(child.pid, "died"), RunnerExited(99_999_999, "")]
    assert [child.on_runner_report(message) for message in ends] == ["died", ""]
    assert child.memory_of_runners() == []


def test_unknown_exit_reason_is_not_counted(child: WorkerProcess) -> None:
    assert child.on_runner_report(RunnerExited(1, "nonsense")) == ""
    assert child.memory_of_runners() == []
