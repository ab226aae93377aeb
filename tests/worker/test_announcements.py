"""Announcements of workers and apps, and the orders that workers receive."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from app_modules import Load
from clients import client_of
from history import History
from lockwork import Lockwork, acl
from lockwork.protocol.announcements import announcements
from lockwork.protocol.announcements.announcements import WORKERS
from lockwork.workers import SILENT, Worker
from processes import until, worker
from roles import as_role
from server_steps import stepping


def wait_announced(lw: Lockwork, **facts: object) -> Worker:
    """Wait until one worker is announced, with these facts."""

    def found() -> list[Worker]:
        return [one for one in lw.workers() if all(getattr(one, name) == value for name, value in facts.items())]

    (worker,) = until(found, f"a worker is announced with {facts}")
    return worker


def test_worker_announces_itself_and_its_jobs(
    shift: Any, own_url: str, apps: Path, history: History, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    with worker("shift:lw", "-p", "2", "-c", "3", url=own_url, folder=apps) as process, Lockwork(own_url) as lw:
        jobs = shift.gated.enqueue_many([(history.path, str(gate))] * 4)
        history.wait(4)
        busy = wait_announced(lw, busy=4)
        assert (busy.pid, busy.app, busy.state, busy.slots) == (process.pid, "shift:lw", "running", 6)
        assert {job.id for job in busy.jobs} == {job.id for job in jobs}
        assert {(job.queue, job.task, job.attempt) for job in busy.jobs} == {("default", "gated", 1)}
        assert busy.started <= min(job.since for job in busy.jobs) <= busy.seen
        assert busy.memory is not None
        assert busy.memory > 10 << 20
        assert busy.lag is not None
        assert 0 <= busy.lag < 30
        gate.touch()
        wait_announced(lw, busy=0)
        process.send(signal.SIGTERM)
        assert process.wait() == 0
        assert lw.workers() == []


def test_app_announces_its_tasks(shift: Any, own_url: str, apps: Path) -> None:
    with worker("shift:lw", url=own_url, folder=apps), Lockwork(own_url) as lw:
        (app,) = until(lw.apps, "the app is announced")
        assert app.name == "shift:lw"
        tasks = {task.name: task for task in app.tasks}
        assert tasks.keys() == {task.name for task in shift.lw.registry.of(shift.lw.registry.queues())}
        assert (tasks["mark_a"].queue, tasks["mark_a"].kind, tasks["mark_a"].retries) == ("a", "async", 3)
        assert (tasks["mark_a"].parameters[:1], tasks["mark_a"].hidden) == (["path"], False)
        assert app.partitions == {}


def test_orders_reach_a_worker_within_a_second(shift: Any, own_url: str, apps: Path, history: History) -> None:
    with worker("shift:lw", "-p", "2", url=own_url, folder=apps) as process, Lockwork(own_url) as lw:
        found = wait_announced(lw)
        handle = lw.worker(found.name)
        shift.mark.enqueue(history.path)
        history.wait(1)
        for order, state in [(handle.quiet, "quiet"), (handle.resume, "running"), (handle.quiet, "quiet")]:
            began = time.monotonic()
            assert order()
            wait_announced(lw, state=state)
            assert time.monotonic() - began < 2  # a second, doubled for a busy machine
        assert shift.mark.enqueue(history.path).state() == "ready"
        assert handle.resume()
        history.wait(2)
        assert handle.stop()
        assert process.wait() == 0
        assert lw.workers() == []
        assert not handle.stop()


def test_order_to_unknown_worker_returns_false(own_url: str) -> None:
    with Lockwork(own_url) as lw:
        assert not lw.worker("host/1/abc").quiet()


def test_killed_worker_is_lost_and_forgotten_after_an_hour(own_url: str, apps: Path, load: Load) -> None:
    load(own_url, "shift")
    with client_of(own_url) as admin, Lockwork(own_url) as lw:
        with worker("shift:lw", url=own_url, folder=apps) as process:
            found = wait_announced(lw)
            os.kill(process.pid, signal.SIGKILL)
            process.process.wait()
        with stepping(admin) as clock:
            clock.step(SILENT + 1)
            (lost,) = lw.workers()
            assert (lost.state, lost.alive, lost.name) == ("lost", False, found.name)
            clock.step(3600)
            lw.runtime.run(announcements.put("lw", WORKERS, "another", b"\x80"))
            assert admin.hkeys("lw:{lockwork}:workers") == [b"another"]
            assert not lw.worker(found.name).quiet()


def test_announced_workers_are_bounded(own_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kind = WORKERS._replace(most=200)
    monkeypatch.setattr("lockwork.workers.WORKERS", kind)
    with client_of(own_url) as admin, Lockwork(own_url) as lw:
        for number in range(250):
            lw.runtime.run(announcements.put("lw", kind, f"w{number}", b"not a worker"))
        assert admin.hlen("lw:{lockwork}:workers") == admin.zcard("lw:{lockwork}:workers:seen") == 200
        assert lw.workers() == []  # unreadable records are skipped
        assert admin.pttl("lw:{lockwork}:workers") > 3_600_000


def test_worker_without_the_right_to_announce_works(
    shift: Any, own_url: str, apps: Path, history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    role = acl.ROLES["worker"]
    bare = acl.Role(role.about, tuple(key for key in role.keys if "lockwork" not in key), role.commands)
    monkeypatch.setitem(acl.ROLES, "worker", bare)
    url = as_role(own_url, "worker")
    with client_of(own_url) as admin:
        try:
            with worker("shift:lw", url=url, folder=apps) as process:
                shift.mark.enqueue(history.path)
                history.wait(1)
                until(lambda: "could not be announced" in process.errors, "it says so")
                process.send(signal.SIGTERM)
                assert process.wait() == 0
                assert process.errors.count("could not be announced") == 1
        finally:
            admin.acl_deluser("worker")
