"""Workers that die, freeze, or lose their server: no job is lost, and only recovered jobs run again (Q1 to Q4)."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import redis

from app_modules import Load
from clients import client_of
from history import History
from lockwork.runtime.embedded import start_private
from processes import alive, until, worker


def ended(app: Any, count: int) -> Any:
    def look() -> Any:
        status = app.lw.queue().status()
        return status if status.succeeded + status.dead >= count else None

    return until(look, f"{count} jobs have ended")


def test_jobs_of_killed_process_restart_at_once(own: Any, own_url: str, apps: Path, history: History) -> None:
    """Q4: before the end of the lease. (In rq#1571 and rq#1041, minutes later and as failed.)"""
    with worker("chores:lw", "--lease", "60s", url=own_url, folder=apps) as process:
        jobs = own.hold_once.enqueue_many([(history.path,)] * 3)
        first = history.wait(3)
        (child,) = process.children()
        os.kill(child, signal.SIGKILL)
        until(lambda: own.lw.queue().status().recovered == 3, "they were given back", 5)
        assert [job.result(30) for job in jobs] == [2, 2, 2]
        again = history.lines("ran")[3:]
        assert len(again) == 3
        assert {line["attempt"] for line in again} == {2}
        assert child not in {line["pid"] for line in again} <= set(process.children())
        assert min(line["fence"] for line in again) > max(line["fence"] for line in first)
        assert own.lw.queue().status().recovered == 3


def test_frozen_process_keeps_its_jobs(own: Any, own_url: str, apps: Path, history: History, tmp_path: Path) -> None:
    """The supervisor renews the lease: native code that never lets Python run is no dead worker."""
    with worker("chores:lw", "--lease", "2s", url=own_url, folder=apps) as process:
        gate = tmp_path / "gate"
        job = own.gated.enqueue(history.path, str(gate))
        history.wait(1)
        (child,) = process.children()
        os.kill(child, signal.SIGSTOP)
        threading.Event().wait(3)
        assert own.lw.queue().status().running == 1
        gate.touch()
        os.kill(child, signal.SIGCONT)
        assert job.result(30) == 1
        assert own.lw.queue().status().recovered == 0
    assert len(history.lines("ran")) == 1


def test_worker_takes_over_jobs_of_a_dead_machine(own: Any, own_url: str, apps: Path, history: History) -> None:
    options = ("--lease", "1s")
    with worker("chores:lw", *options, url=own_url, folder=apps) as dead:
        jobs = own.hold_once.enqueue_many([(history.path,)] * 3)
        history.wait(3)
        children = dead.children()
        with worker("chores:lw", *options, url=own_url, folder=apps):
            until(lambda: len(own.lw.queue().workers()) == 2, "both are there")
            for pid in (dead.pid, *children):
                os.kill(pid, signal.SIGSTOP)  # so that no process can return its jobs
            for pid in (dead.pid, *children):
                os.kill(pid, signal.SIGKILL)
            assert [job.result(30) for job in jobs] == [2, 2, 2]
            status = own.lw.queue().status()
            assert (status.succeeded, status.running, status.dead, status.recovered) == (3, 0, 0, 3)


def test_worker_frozen_past_its_lease_settles_no_jobs(
    own: Any, own_url: str, apps: Path, history: History, tmp_path: Path
) -> None:
    """Q3: the server refuses late outcomes."""
    options = ("--lease", "1s", "-c", "1")
    with worker("chores:lw", *options, url=own_url, folder=apps) as frozen:
        gate = tmp_path / "gate"
        job = own.gated.enqueue(history.path, str(gate))
        history.wait(1)
        (child,) = frozen.children()
        for pid in (frozen.pid, child):
            os.kill(pid, signal.SIGSTOP)
        with worker("chores:lw", *options, url=own_url, folder=apps) as other:
            assert job.result(30) == 2
            assert own.lw.queue().status().recovered == 1
            other.send(signal.SIGTERM)
            assert other.wait() == 0
        gate.touch()
        os.kill(child, signal.SIGCONT)
        until(lambda: len(history.lines("done")) == 2, "the zombie ends the job too")
        until(lambda: "the lease had ended" in frozen.errors or not alive(child), "it is refused")
        os.kill(frozen.pid, signal.SIGCONT)
        assert job.result(30) == 2
        status = own.lw.queue().status()
        assert (status.succeeded, status.running, status.recovered) == (1, 0, 1)
        assert own.add.enqueue(1, 2).result(30) == 3  # by the frozen process or its replacement


def test_worker_survives_script_flush_and_killed_connections(
    own: Any, own_url: str, apps: Path, history: History
) -> None:
    """arq#386, taskiq-redis#65: a broken connection ended the worker."""
    with worker("chores:lw", "-c", "50", url=own_url, folder=apps), client_of(own_url) as admin:
        own.lw.queue().status()
        jobs = own.mark.enqueue_many([(history.path, number) for number in range(1500)])
        while own.lw.queue().status().succeeded < len(jobs):
            admin.script_flush()
            for kind in ("normal", "pubsub"):
                admin.execute_command("CLIENT", "KILL", "TYPE", kind, "SKIPME", "yes")
            threading.Event().wait(0.02)
        status = own.lw.queue().status()
        assert (status.succeeded, status.failed, status.recovered, status.running) == (1500, 0, 0, 0)
    assert Counter(line["number"] for line in history.lines("ran")) == dict.fromkeys(range(1500), 1)


def test_processes_run_thousands_of_jobs_once_each(own: Any, own_url: str, apps: Path, history: History) -> None:
    with worker("chores:lw", "--processes", "3", "-c", "10", url=own_url, folder=apps):
        own.mark.enqueue_many([(history.path, number) for number in range(2000)])
        status = ended(own, 2000)
    lines = history.lines("ran")
    assert Counter(line["number"] for line in lines) == dict.fromkeys(range(2000), 1)
    assert (status.enqueued, status.succeeded, status.recovered) == (2000, 2000, 0)


@pytest.mark.timeout(100)
def test_jobs_survive_a_killed_server_with_append_only_file(
    tmp_path: Path, load: Load, apps: Path, history: History
) -> None:
    """Q1 and Q4: no acknowledged job is lost, and the worker continues within five seconds.

    celery#1789, sidekiq#2999, asynq#55: jobs were lost with the server; dramatiq#527: delayed jobs came hours later.
    """
    folder = tmp_path / "server"
    first = start_private(folder, durable=True)
    try:
        app: Any = load(first.url, "chores")
        with app.lw, redis.Redis.from_url(first.url) as admin:
            admin.config_set("appendfsync", "always")
            with worker("chores:lw", "--lease", "2s", url=first.url, folder=apps) as process:
                assert app.add.enqueue(1, 2).result(30) == 3
                running = app.hold.enqueue(history.path, 1)
                later = app.mark.options(delay="1s").enqueue(history.path, 7)
                history.wait(1)
                os.kill(first.pid, signal.SIGKILL)
                first.close()
                threading.Event().wait(1)
                first = start_private(folder, durable=True)
                back = time.monotonic()
                waiting = app.mark.enqueue(history.path, 8)
                until(lambda: {7, 8} <= {line.get("number") for line in history.lines("ran")}, "the worker goes on", 5)
                assert time.monotonic() - back < 5
                assert running.result(30) in (1, 2)
                until(lambda: {later.state(), waiting.state()} == {"succeeded"}, "both have ended")
                assert process.process.poll() is None
                # a job runs again only if its lease ended, and then that was counted
                assert len(history.lines("ran")) - 3 == app.lw.queue().status().recovered
    finally:
        first.close()


def test_priorities_are_strict(own: Any, own_url: str, apps: Path, history: History) -> None:
    for number, priority in enumerate(("low", "normal", "high", "low", "high", "normal")):
        own.mark.options(priority=priority).enqueue(history.path, number)
    with worker("chores:lw", "-c", "1", url=own_url, folder=apps):
        lines = history.wait(6)
    assert [line["number"] for line in lines] == [2, 4, 1, 5, 0, 3]


def test_worker_runs_jobs_of_its_queues_only(own: Any, own_url: str, apps: Path, history: History) -> None:
    other = own.once.enqueue(history.path)
    with worker("chores:lw", "--queue", "default", url=own_url, folder=apps):
        assert own.add.enqueue(1).result(30) == 2
        assert other.state() == "ready"
    assert not history.lines()
    with worker("chores:lw", url=own_url, folder=apps):
        other.result(30)
    assert len(history.lines()) == 1
