"""Jobs that were leased with a job that blocks the event loop are returned; none runs twice or is lost."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app_modules import load_app
from clients import client_of
from lockwork.jobs.current import SlotContext
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queue.leases import Leased
from lockwork.worker.execution.deliveries import Deliveries
from lockwork.worker.execution.slots import WorkerSlots
from processes import until, worker

BLOCKERS = """
import asyncio, os, time
from pathlib import Path
from lockwork import Lockwork

lw = Lockwork()


@lw.task
async def blocking(gate: str) -> int:
    while not Path(gate).exists():
        time.sleep(0.01)
    return os.getpid()


@lw.task
async def quick(number: int) -> int:
    return os.getpid()


@lw.task
async def noted(log: str, number: int) -> int:
    with open(log, "a") as file:
        print(number, file=file)
    return os.getpid()


@lw.task
async def waiting(gate: str) -> int:
    while not Path(gate).exists():
        await asyncio.sleep(0.05)
    return os.getpid()


@lw.task(queue="other")
async def elsewhere(number: int) -> int:
    return os.getpid()


@lw.task(key="one")
async def keyed(number: int) -> int:
    return os.getpid()
"""


@pytest.fixture
def app(own_url: str, tmp_path: Path) -> Iterator[Any]:
    (tmp_path / "unbegun.py").write_text(BLOCKERS)
    app: Any = load_app(tmp_path, "unbegun", own_url)
    with app.lw:
        yield app


def test_other_process_runs_jobs_leased_with_a_blocking_job(app: Any, own_url: str, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    blocking = app.blocking.options(priority="high").enqueue(str(gate))
    jobs = [*app.quick.enqueue_many([(number,) for number in range(4)]), app.keyed.enqueue(1)]
    with worker("unbegun:lw", "-q", "default", "-c", "20", url=own_url, folder=tmp_path) as blocked:
        until(lambda: app.lw.queue().status().running == 6, "one process has leased them all")
        with worker("unbegun:lw", "-q", "default", url=own_url, folder=tmp_path) as other:
            pids = {job.result(30) for job in jobs}
            assert blocking.inspect().state == "running"
            assert [job.inspect().attempts for job in jobs] == [1] * len(jobs)
            gate.touch()
            assert blocking.result(30) not in pids
            until(lambda: "5 jobs that had not begun were returned to queue default" in blocked.errors, "it is logged")
            assert "the lease had ended" not in blocked.errors + other.errors
            status = app.lw.queue().status()
            assert (status.succeeded, status.failed, status.recovered) == (6, 0, 0)


def test_jobs_of_a_fetch_that_the_blocked_loop_has_not_read_go_back(app: Any, own_url: str, tmp_path: Path) -> None:
    """With 20 slots, the process fetches 10 jobs, and 10 more while the first 10 start."""
    gate, log = tmp_path / "gate", tmp_path / "log"
    blocking = app.blocking.options(priority="high").enqueue(str(gate))
    jobs = app.noted.enqueue_many([(str(log), number) for number in range(19)])
    with worker("unbegun:lw", "-q", "default", "-c", "20", url=own_url, folder=tmp_path) as blocked:
        until(lambda: app.lw.queue().status().running == 20, "one process has leased them all")
        assert jobs[3].cancel()
        assert jobs[14].cancel()
        with worker("unbegun:lw", "-q", "default", "-c", "1", url=own_url, folder=tmp_path) as other:
            ran = [number for number in range(19) if number not in (3, 14)]
            pids = {jobs[number].result(30) for number in ran}
            assert blocking.inspect().state == "running"
            assert [int(line) for line in log.read_text().split()] == ran, "they keep their order"
            assert [jobs[number].inspect().attempts for number in ran] == [1] * 17
            assert (jobs[3].state(), jobs[14].state()) == ("cancelled", "cancelled")
            assert "the lease had ended" not in other.errors
            gate.touch()
            assert blocking.result(30) not in pids
        gate.unlink()
        all_slots = app.waiting.enqueue_many([(str(gate),)] * 20)
        until(lambda: app.lw.queue().status().running == 20, "the process uses all of its slots again")
        gate.touch()
        assert {job.result(30) for job in all_slots} == {blocking.result(30)}
        until(lambda: "19 jobs that had not begun were returned to queue default" in blocked.errors, "it is logged")
        assert "the lease had ended" not in blocked.errors
        status = app.lw.queue().status()
        assert (status.succeeded, status.cancelled, status.failed, status.recovered) == (38, 2, 0, 0)


def test_job_that_was_offered_to_a_blocked_process_goes_back(app: Any, own_url: str, tmp_path: Path) -> None:
    """Then the process is neither offered jobs nor woken for any queue."""
    gate, other = tmp_path / "gate", QueueKeys("lw", "other")
    options = ("-q", "default", "-q", "other")
    with client_of(own_url) as admin, worker("unbegun:lw", *options, url=own_url, folder=tmp_path):
        until(lambda: admin.zcard(other.idle_workers), "it sleeps")
        own_pid = app.elsewhere.enqueue(0).result(30)
        until(lambda: admin.zcount(other.idle_workers, 0, "+inf"), "it sleeps again")
        blocking = app.blocking.enqueue(str(gate))
        until(lambda: blocking.inspect().state == "running", "it blocks")
        offered = app.elsewhere.enqueue(1)
        assert offered.inspect().state == "running"
        with worker("unbegun:lw", "-q", "other", url=own_url, folder=tmp_path):
            pid = offered.result(30)
            assert pid != own_pid
            assert app.elsewhere.enqueue(2).result(30) == pid
            assert blocking.inspect().state == "running"
            gate.touch()
            assert blocking.result(30) == own_pid
            assert offered.inspect().attempts == 1
            status = app.lw.queue("other").status()
            assert (status.succeeded, status.failed, status.recovered) == (3, 0, 0)


def test_returned_job_expires_and_has_its_unique_name_again(app: Any, own_url: str, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    blocking = app.blocking.options(priority="high").enqueue(str(gate))
    short = app.quick.options(expires="1h").enqueue(1)
    expires = short.inspect().expires
    assert expires is not None
    unique = app.quick.options(unique="one", unique_until="start").enqueue(2)
    with worker("unbegun:lw", "-q", "default", "-c", "20", url=own_url, folder=tmp_path):
        until(lambda: app.lw.queue().status().running == 3, "one process has leased them all")
        until(lambda: app.lw.queue().status().running == 1, "two go back")
        assert app.quick.options(unique="one", unique_until="start").enqueue(3).id == unique.id
        assert short.inspect().expires == expires
        gate.touch()
        assert unique.result(30) == blocking.result(30)


def test_process_runs_its_returned_jobs_when_it_is_alone(app: Any, own_url: str, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    blocking = app.blocking.options(priority="high").enqueue(str(gate))
    jobs = app.quick.enqueue_many([(number,) for number in range(7)])
    with worker("unbegun:lw", "-q", "default", "-c", "16", "--burst", url=own_url, folder=tmp_path) as process:
        until(lambda: app.lw.queue().status().ready == 7 and app.lw.queue().status().running == 1, "they went back")
        gate.touch()
        assert {job.result(30) for job in jobs} == {blocking.result(30)}
        assert process.wait() == 0


class _Runner:
    def __init__(self) -> None:
        self.ran: list[str] = []

    async def run(self, job: Leased, slot: SlotContext) -> None:
        self.ran.append(job.id)

    def give_back(self, job: Leased) -> None:
        raise AssertionError

    def cancelled(self, job: Leased) -> None:
        raise AssertionError


async def test_job_is_either_taken_or_run() -> None:
    runner, slots = _Runner(), WorkerSlots(50)
    over, taken = threading.Event(), list[str]()

    def take() -> None:
        while not over.is_set():
            taken.extend(job.id for job, _ in slots.take_unbegun())

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    thread = threading.Thread(target=take)
    thread.start()
    try:
        for start in range(0, 20_000, 50):
            slots.start([Leased(str(number), b"", b"", 1, 1) for number in range(start, start + 50)], runner)
            while slots.running:
                await asyncio.sleep(0)
    finally:
        over.set()
        thread.join()
        sys.setswitchinterval(interval)
        await slots.close()
    assert sorted(map(int, runner.ran + taken)) == list(range(20_000))
    assert runner.ran
    assert taken


def test_taken_deliveries_of_two_messages_do_not_start() -> None:
    deliveries = Deliveries()
    first, second = (Leased(f"j{fence}", b"1 %d r" % fence, b"", 1, fence) for fence in (1, 2))
    taken = deliveries.take_unread([(job.id, job.token) for job in (first, second)])
    assert [job.id for job in taken] == ["j2", "j1"]
    assert deliveries.read([first]) == []
    assert deliveries.read([second]) == []


def test_delivery_is_either_read_or_returned() -> None:
    deliveries, over = Deliveries(), threading.Event()
    leased, read, taken = list[Leased](), list[Leased](), list[Leased]()

    def take() -> None:
        while not over.is_set():
            taken.extend(deliveries.take_unread([(job.id, job.token) for job in list(leased)]))

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    thread = threading.Thread(target=take)
    thread.start()
    try:
        fence = 0
        while fence < 3000 or not taken:
            fence += 1
            batch = [Leased(f"{fence}-{number}", b"1 %d 1" % fence, b"", 1, fence) for number in range(3)]
            leased[:] = batch
            read += deliveries.read(batch)
    finally:
        over.set()
        thread.join()
        sys.setswitchinterval(interval)
    ids = [job.id for job in read + taken]
    assert sorted(ids) == sorted(f"{one}-{number}" for one in range(1, fence + 1) for number in range(3))
    assert read
