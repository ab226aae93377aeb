"""The ID and task of the job that holds a lock or waits for it, in every list of holders and waiters."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner

from app_modules import Load
from dashboard.browsing import serving
from lockwork import Job, Lockwork
from lockwork.cli.commands import cli
from lockwork.doctor.findings import findings
from lockwork.protocol.locks.overview import Holder
from processes import until, worker

EXCLUSIVE = ["lock", "rwlock", "semaphore", "multilock", "queuelock"]


@pytest.fixture
def holding(own_url: str, load: Load, apps: Path) -> Iterator[Any]:
    """The app's tasks, and a worker."""
    module: Any = load(own_url, "holding")
    with module.lw, worker("holding:lw", "--runners", "2", "-c", "20", url=own_url, folder=apps):
        yield module


def holders(lw: Lockwork) -> list[Holder]:
    return [held.holder for lock in lw.locks().locks for held in lock.holders]


def waiters(lw: Lockwork) -> list[Holder]:
    return [waiter.holder for lock in lw.locks().locks for waiter in lock.line]


def open_latch(lw: Lockwork, *jobs: Job[Any]) -> None:
    lw.latch("done", 1).count_down()
    for job in jobs:
        job.result(30)


@pytest.mark.parametrize("kind", [*EXCLUSIVE, "reader", "election"])
@pytest.mark.parametrize("task", ["hold", "ahold"])
def test_holder_is_the_job(holding: Any, task: str, kind: str) -> None:
    call = getattr(holding, task)
    job = call.enqueue(kind)
    found = until(lambda: holders(holding.lw), "the job holds it") or []
    assert {(holder.job, holder.task) for holder in found} == {(job.id, call.name)}
    if kind == "lock":
        assert found[0].tags == ("night", "a;b")
    open_latch(holding.lw, job)


@pytest.mark.parametrize("kind", EXCLUSIVE)
def test_waiter_is_the_job(holding: Any, kind: str) -> None:
    with holding.KINDS[kind]():
        job = holding.ahold.enqueue(kind)
        (waiter,) = until(lambda: waiters(holding.lw), "the job waits") or []
        assert (waiter.job, waiter.task) == (job.id, holding.ahold.name)
        assert {holder.job for holder in holders(holding.lw)} == {None}
    open_latch(holding.lw, job)


@pytest.mark.parametrize("task", ["hold_in_a_child_task", "hold_in_a_process", "hold_in_a_batch"])
def test_holder_is_the_job_in_every_kind_of_call(holding: Any, task: str) -> None:
    job = getattr(holding, task).enqueue("lock")
    (holder,) = until(lambda: holders(holding.lw), "the job holds it") or []
    assert (holder.job, holder.task) == (job.id, task)
    open_latch(holding.lw, job)


def test_quorum_lock_names_the_job(holding: Any, own_url: str) -> None:
    job = holding.hold_a_quorum.enqueue(own_url)
    (holder,) = until(lambda: holders(holding.lw), "the job holds it") or []
    assert (holder.job, holder.task) == (job.id, "hold_a_quorum")
    open_latch(holding.lw, job)


def test_owner_of_an_inspected_lock_and_permit_is_the_job(holding: Any) -> None:
    jobs = [holding.ahold.enqueue("lock"), holding.ahold.enqueue("semaphore")]
    owner = until(holding.lw.lock("lock").owner, "the job holds it")
    assert owner.job == jobs[0].id
    (held,) = until(lambda: holding.lw.semaphore("semaphore", 1).inspect().holders, "the job has a permit") or []
    assert held.holder.job == jobs[1].id
    open_latch(holding.lw, *jobs)


def test_run_of_once_names_the_job(holding: Any) -> None:
    job = holding.run_once.enqueue()
    assert job.result(30) == "done"
    holder = holding.lw.once("once", "1h").inspect().holder
    assert (holder.job, holder.task) == (job.id, "run_once")


def test_sticky_lock_has_no_job(holding: Any) -> None:
    """After the release, the next job of the process uses the same grant."""
    job = holding.ahold.enqueue("sticky")
    (holder,) = until(lambda: holders(holding.lw), "the job holds it") or []
    assert (holder.job, holder.task) == (None, None)
    open_latch(holding.lw, job)


def test_job_that_waits_for_a_sticky_lock_is_named(holding: Any) -> None:
    with holding.lw.lock("sticky"):
        job = holding.ahold.enqueue("sticky")
        (waiter,) = until(lambda: waiters(holding.lw), "the job waits") or []
        assert waiter.job == job.id
    open_latch(holding.lw, job)


def test_deadlock_of_jobs_is_shown_with_their_ids_and_ended_as_advised(holding: Any, own_url: str) -> None:
    lw = holding.lw
    jobs = [holding.cross.enqueue("x", "y"), holding.cross.enqueue("y", "x")]
    until(lambda: len(lw.locks().waits) == 2, "both wait")
    seen = lw.locks("x")
    (deadlock,) = seen.deadlocks
    assert {seen.owners[owner].job for owner in deadlock.members} == {job.id for job in jobs}
    printed = CliRunner(env={"COLUMNS": "500"}).invoke(cli, ["locks", "x", "--url", own_url]).output
    document = json.loads(CliRunner().invoke(cli, ["locks", "x", "--json", "--url", own_url]).output)
    (found,) = [finding for finding in findings(lw) if finding.subject == "Deadlock"]
    with serving(own_url) as address:
        page = httpx.get(f"{address}/locks", headers={"Accept": "text/html"}).text
    for job in jobs:
        assert f"job {job.id} (cross) holds lock" in found.text
        assert f"job {job.id} (cross) holds lock" in printed, "also if it holds and waits for locks that do not match"
        assert f'href="/job/{job.id}"' in page
    shown = {each["job"] for each in (*document["locks"][0]["holders"], *document["locks"][0]["waiters"])}
    assert shown == {job.id for job in jobs}
    advice = re.search("`lockwork (job cancel .*?)`", found.fix)
    assert advice
    assert "is being cancelled" in CliRunner().invoke(cli, [*advice[1].split(), "--url", own_url]).output
    until(lambda: sorted(job.state() for job in jobs) == ["cancelled", "succeeded"], "the other job continues")


def test_request_outside_of_a_job_names_no_job(holding: Any) -> None:
    with holding.lw.lock("plain"):
        (lock,) = holding.lw.locks().locks
        assert ";" not in lock.holders[0].request
        assert (lock.holders[0].holder.job, lock.holders[0].holder.task) == (None, None)
