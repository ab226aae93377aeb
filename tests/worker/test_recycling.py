"""--max-jobs and --max-memory: processes are replaced while jobs run (celery#4843, celery#2927)."""

from __future__ import annotations

import os
import time
from collections import Counter
from pathlib import Path
from typing import Any

from history import History
from processes import until, worker


def test_jobs_run_once_while_processes_are_replaced(shift: Any, own_url: str, apps: Path, history: History) -> None:
    with worker("shift:lw", "--max-jobs", "20", "-c", "4", "-p", "2", url=own_url, folder=apps) as process:
        count = 0
        end = time.monotonic() + 40
        while process.errors.count("is replaced: 20 jobs done") < 5:
            assert time.monotonic() < end, "they are not replaced"
            shift.mark.enqueue_many([(history.path, count + number) for number in range(30)])
            count += 30
            history.wait(count)
        status = until(lambda: s if not (s := shift.lw.queue().status()).running else None, "all is settled")
        assert status is not None
        assert (status.succeeded, status.failed, status.recovered) == (count, 0, 0)
        until(lambda: len(process.children()) == 2, "the old ones have gone")
        assert "ended (" not in process.errors
    lines = history.lines("ran")
    assert Counter(line["number"] for line in lines) == dict.fromkeys(range(count), 1)
    assert len({line["pid"] for line in lines}) >= 3


def test_process_works_until_its_successor_is_ready(
    shift: Any, own_url: str, apps: Path, history: History, tmp_path: Path
) -> None:
    """Then it finishes its running jobs."""
    gate = tmp_path / "gate"
    options = ("--max-jobs", "1", "-c", "2", "--grace", "0", "--lease", "60s")
    with worker("shift:lw", *options, url=own_url, folder=apps) as process:
        long = shift.gated.enqueue(history.path, str(gate))
        first = history.wait(1)[0]["pid"]
        until(lambda: [pid for pid in process.children() if pid != first], "the successor is there")
        until(lambda: shift.pid.enqueue().result(30) != first, "the successor works")
        assert first in process.children()
        gate.touch()
        assert long.result(30) == 1
        until(lambda: first not in process.children(), "the first one has gone")


def test_process_above_max_memory_is_replaced(shift: Any, own_url: str, apps: Path) -> None:
    with worker("shift:lw", "--max-memory", "250MB", url=own_url, folder=apps) as process:
        hoarder = shift.hoards.enqueue(300).result(30)
        assert hoarder in process.children() or "is replaced" in process.errors
        until(lambda: hoarder not in process.children(), "it was replaced")
        assert "is replaced: it takes" in process.errors
        assert shift.pid.enqueue().result(30) != hoarder
        assert shift.lw.queue().status().recovered == 0


def test_max_memory_below_the_apps_memory_is_an_error(own_url: str, apps: Path) -> None:
    """Otherwise, processes would be replaced without end."""
    with worker("shift:lw", "--max-memory", "3MB", url=own_url, folder=apps) as process:
        assert process.wait() == 1
        assert "--max-memory 3 MB is too low: a new worker process already takes" in process.errors
        assert "Traceback" not in process.errors


def test_replaced_process_leaves_no_session(shift: Any, own_url: str, apps: Path, history: History) -> None:
    with worker("shift:lw", "--max-jobs", "5", url=own_url, folder=apps) as process:
        shift.mark.enqueue_many([(history.path,)] * 5)
        history.wait(5)
        until(lambda: "is replaced" in process.errors, "it is replaced")
        until(lambda: [info.pid for info in shift.lw.queue().workers()] == process.children(), "one session is left")
        assert not any(info.pid == os.getpid() for info in shift.lw.queue().workers())
