"""Workers that die, freeze, or lose their server: nothing is lost, only what was recovered runs again (Q1 to Q4)."""

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


def test_a_killed_childs_jobs_restart_at_once(own: Any, own_url: str, apps: Path, history: History) -> None:
    """Q4: although the lease has a minute left. (rq#1571, rq#1041: minutes later, and then as failed.)"""
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
        assert {line["pid"] for line in again} == set(process.children()) != {child}
        assert min(line["fence"] for line in again) > max(line["fence"] for line in first)
        assert own.lw.queue().status().recovered == 3


def test_a_frozen_childs_jobs_stay_its_own(
    own: Any, own_url: str, apps: Path, history: History, tmp_path: Path
) -> None:
    """Its supervisor keeps its lease: a native extension that never lets Python run is no dead worker."""
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


def test_another_worker_takes_over_from_a_dead_machine(own: Any, own_url: str, apps: Path, history: History) -> None:
    options = ("--lease", "1s")
    with worker("chores:lw", *options, url=own_url, folder=apps) as dead:
        jobs = own.hold_once.enqueue_many([(history.path,)] * 3)
        history.wait(3)
        children = dead.children()
        with worker("chores:lw", *options, url=own_url, folder=apps):
            until(lambda: len(own.lw.queue().workers()) == 2, "both are there")
            for pid in (dead.pid, *children):
                os.kill(pid, signal.SIGSTOP)  # so that no one of them can give anything back
            for pid in (dead.pid, *children):
                os.kill(pid, signal.SIGKILL)
            assert [job.result(30) for job in jobs] == [2, 2, 2]
            status = own.lw.queue().status()
            assert (status.succeeded, status.running, status.dead, status.recovered) == (3, 0, 0, 3)


def test_a_worker_frozen_past_its_lease_settles_no_jobs(
    own: Any, own_url: str, apps: Path, history: History, tmp_path: Path
) -> None:
    """Q3: what it finishes late is refused, and its supervisor replaces it."""
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
        until(lambda: "the lease was over" in frozen.errors or not alive(child), "it is refused")
        os.kill(frozen.pid, signal.SIGCONT)
        assert job.result(30) == 2
        status = own.lw.queue().status()
        assert (status.succeeded, status.running, status.recovered) == (1, 0, 1)
        assert own.add.enqueue(1, 2).result(30) == 3  # by the one that was frozen, or by its next process
        assert not alive(child)


def test_scripts_flushed_and_connections_killed_while_it_works(
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


def test_a_thousand_jobs_run_once_each_by_many_processes(own: Any, own_url: str, apps: Path, history: History) -> None:
    with worker("chores:lw", "--processes", "3", "-c", "10", url=own_url, folder=apps):
        own.mark.enqueue_many([(history.path, number) for number in range(2000)])
        status = ended(own, 2000)
    lines = history.lines("ran")
    assert Counter(line["number"] for line in lines) == dict.fromkeys(range(2000), 1)
    assert (status.enqueued, status.succeeded, status.recovered) == (2000, 2000, 0)


@pytest.mark.timeout(100)
def test_a_server_that_was_killed_and_comes_back(tmp_path: Path, load: Load, apps: Path, history: History) -> None:
    """Q1 and Q4 under an append-only file: nothing acknowledged is lost, and the worker goes on within five seconds.

    celery#1789, sidekiq#2999, asynq#55: jobs were lost with the server; dramatiq#527: delayed ones came hours later.
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


def test_it_works_only_on_the_queues_it_was_given(own: Any, own_url: str, apps: Path, history: History) -> None:
    other = own.once.enqueue(history.path)
    with worker("chores:lw", "--queue", "default", url=own_url, folder=apps):
        assert own.add.enqueue(1).result(30) == 2
        assert other.state() == "ready"
    assert not history.lines()
    with worker("chores:lw", url=own_url, folder=apps):
        other.result(30)
    assert len(history.lines()) == 1
