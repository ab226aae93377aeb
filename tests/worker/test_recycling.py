"""--max-jobs, --max-memory and --max-time replace processes while jobs run (celery#4843, celery#2927); --exit-after and
--exit-memory stop the worker."""

from __future__ import annotations

import os
import signal
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


def test_process_is_replaced_after_max_time(shift: Any, own_url: str, apps: Path, history: History) -> None:
    with worker("shift:lw", "--max-time", "1.5s", "-p", "2", "--grace", "0", url=own_url, folder=apps) as process:
        until(lambda: len(process.children()) == 2, "both have started")
        first = set(process.children())
        count, end = 0, time.monotonic() + 30
        while first & set(process.children()) or process.errors.count("is replaced: it has worked for 1.5 s") < 4:
            assert time.monotonic() < end, "they are not replaced"
            shift.mark.enqueue_many([(history.path, count + number) for number in range(10)])
            count += 10
            time.sleep(0.05)
        history.wait(count)
        until(lambda: not shift.lw.queue().status().running, "all is settled")
        assert shift.lw.queue().status().recovered == 0
        process.send(signal.SIGTERM)
        assert process.wait() == 0
    assert Counter(line["number"] for line in history.lines("ran")) == dict.fromkeys(range(count), 1)


def test_worker_stops_in_order_after_exit_after(
    shift: Any, own_url: str, apps: Path, history: History, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    with worker("shift:lw", "--exit-after", "6s", url=own_url, folder=apps) as process:
        job = shift.gated.enqueue(history.path, str(gate))
        history.wait(1)
        until(lambda: "this worker stops: it has run for 6 s" in process.errors, "it says why")
        gate.touch()
        assert process.wait() == 0
        assert job.result(1) == 1
        assert shift.pid.enqueue().state() == "ready"


def test_worker_stops_in_order_above_exit_memory(shift: Any, own_url: str, apps: Path) -> None:
    with worker("shift:lw", "--exit-memory", "350MB", url=own_url, folder=apps) as process:
        job = shift.hoards.enqueue(400)
        until(lambda: "more than --exit-memory 350 MB" in process.errors, "it says why")
        assert process.wait() == 0
        assert job.result(10)


def test_exit_memory_below_the_workers_memory_is_an_error(own_url: str, apps: Path) -> None:
    with worker("shift:lw", "--exit-memory", "3MB", url=own_url, folder=apps) as process:
        assert process.wait() == 1
        assert "--exit-memory 3 MB is too low: the new worker already takes" in process.errors
