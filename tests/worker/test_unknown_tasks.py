"""Jobs that a worker cannot run wait for a worker that can, during rolling deployments and when apps share a queue."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import redis

from app_modules import Load
from history import History
from lockwork import JobFailed, Lockwork
from lockwork.protocol.keys import QueueKeys
from processes import Started, until, worker

KEYS = QueueKeys("lw", "default")


class Deployment:
    """The new version of the app, and workers of both versions on its server."""

    def __init__(self, app: Any, url: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.app = app
        self.lw: Lockwork = app.lw
        self._url, self._folder, self._monkeypatch = url, folder, monkeypatch

    def worker(self, version: str, *options: str, app: str = "rolling:lw") -> AbstractContextManager[Started]:
        self._monkeypatch.setenv("ROLLING", version)
        return worker(app, *options, url=self._url, folder=self._folder)

    def dead(self) -> int:
        return self.lw.queue().status().dead

    def given_back(self) -> list[int]:
        """Return the number of returns of each parked job."""
        with redis.Redis.from_url(self._url) as client:
            return [int(since.split()[1]) for since in client.hvals(KEYS.parked_since)]

    def check_nothing_parked(self) -> None:
        with redis.Redis.from_url(self._url) as client:
            until(lambda: not client.exists(KEYS.parked, KEYS.parked_since), "no job is parked")
            assert not client.hexists(KEYS.stats, "parked")


@pytest.fixture
def deployment(own_url: str, load: Load, apps: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Deployment]:
    monkeypatch.setenv("ROLLING", "new")
    module: Any = load(own_url, "rolling")
    with module.lw:
        yield Deployment(module, own_url, apps, monkeypatch)


def ran(history: History, count: int) -> Counter[str]:
    """Wait for this number of attempts; return the number of starts of each job."""
    lines = history.wait(count)
    assert {line["attempt"] for line in lines} == {1}, "no attempt was counted that did not start"
    return Counter(line["id"] for line in lines)


def test_jobs_of_new_task_run_once_beside_old_workers(deployment: Deployment, history: History) -> None:
    with deployment.worker("old", "-p", "2"), deployment.worker("old"), deployment.worker("new", "-c", "5"):
        calls = [(history.path, number) for number in range(100)]
        jobs = [*deployment.app.added.enqueue_many(calls), *deployment.app.added_in_a_thread.enqueue_many(calls)]
        assert ran(history, 200) == Counter(job.id for job in jobs)
        until(lambda: not deployment.lw.queue().status().running, "all have ended")
        assert deployment.dead() == 0
        deployment.check_nothing_parked()


def test_old_workers_alone_send_no_job_to_the_dead_set(deployment: Deployment, history: History) -> None:
    with deployment.worker("old", "-p", "2") as old:
        calls = [(history.path, number) for number in range(50)]
        jobs = [*deployment.app.added.enqueue_many(calls), *deployment.app.added_in_a_process.enqueue_many(calls)]
        until(lambda: min([0, *deployment.given_back()][1:], default=0) >= 4, "each was given back several times")
        assert len(deployment.given_back()) == 100
        assert deployment.dead() == 0
        assert history.lines() == []
        assert old.errors.count("returns to queue default, uncounted") <= 4, "a task is logged once a minute"
        with deployment.worker("new"):
            assert ran(history, 100) == Counter(job.id for job in jobs)
        assert deployment.dead() == 0
        deployment.check_nothing_parked()


def test_starting_worker_takes_parked_jobs_at_once(deployment: Deployment, history: History, own_url: str) -> None:
    deployment.app.added.enqueue(history.path, 1)
    with deployment.worker("old"):
        until(lambda: max(deployment.given_back(), default=0) >= 6, "its pause has grown")
    with redis.Redis.from_url(own_url) as client:
        ((id, due),) = client.zrange(KEYS.due, 0, -1, withscores=True)
        client.zadd(KEYS.due, {id: due + 3_600_000})
    with deployment.worker("new"):
        ran(history, 1)


def test_starting_worker_takes_parked_jobs_of_all_tasks_without_a_pause(
    deployment: Deployment, history: History, own_url: str
) -> None:
    """The first request has room for jobs of one task only."""
    calls = [(history.path, number) for number in range(60)]
    deployment.app.added.enqueue_many(calls)
    deployment.app.added_in_a_thread.enqueue_many(calls)
    with deployment.worker("old"):
        until(lambda: len(deployment.given_back()) == 120, "all are parked")
    with redis.Redis.from_url(own_url) as client:
        for id in client.zrange(KEYS.due, 0, -1):
            client.zincrby(KEYS.due, 3_600_000, id)
    with deployment.worker("new"):
        history.wait(1)
        began = time.monotonic()
        history.wait(120)
        assert time.monotonic() - began < 4, "an idle worker asks again after five seconds"


def test_parked_job_expires_at_its_time(deployment: Deployment, history: History) -> None:
    job = deployment.app.added.options(expires="3s").enqueue(history.path, 1)
    with deployment.worker("old"):
        until(lambda: deployment.given_back() == [1] or job.state() == "expired", "it is given back")
        until(lambda: job.state() == "expired", "it has not started in time")
    with deployment.worker("new", "--burst") as new:
        assert new.wait() == 0
    assert history.lines() == []
    deployment.check_nothing_parked()


def test_worker_with_once_runs_one_job_after_it_gave_another_back(deployment: Deployment, history: History) -> None:
    deployment.app.added.enqueue(history.path, 1)
    known = deployment.app.common.enqueue(history.path, 2)
    with deployment.worker("old", "--once") as once:
        assert once.wait() == 0
    assert ran(history, 1) == Counter([known.id])


def test_keys_groups_names_and_batches_are_kept(deployment: Deployment, history: History) -> None:
    app = deployment.app
    with deployment.worker("old"):
        keyed = [app.added_with_a_key.enqueue(history.path, number, "k") for number in range(5)]
        grouped = [app.added_in_a_group.enqueue(history.path, 10 + number, "g") for number in range(5)]
        batched = app.added_in_batches.enqueue_many([([history.path, 20 + number],) for number in range(5)])
        unique = app.added_as_unique.enqueue(history.path)
        until(lambda: min([0, *deployment.given_back()][1:], default=0) >= 2, "each that may run was given back")
        assert not app.added_as_unique.enqueue(history.path).new, "its name is still taken"
        with deployment.worker("new"):
            ids = [job.id for job in (*keyed, *grouped, *batched, unique)]
            assert ran(history, 16) == Counter(ids)
        numbers = [line["number"] for line in history.lines("ran")]
        assert [number for number in numbers if 0 < number < 5] == [1, 2, 3, 4], "jobs of a key run in order"
    assert deployment.dead() == 0


def test_flows_and_schedules_wait_for_new_worker(deployment: Deployment, history: History) -> None:
    with deployment.worker("new"):
        until(deployment.lw.schedules, "the schedule is declared")
    with deployment.worker("old"):
        flow = deployment.lw.flow()
        first = flow.add(deployment.app.added.call(history.path, 1))
        last = flow.add(deployment.app.added.call(history.path, first))
        run = flow.enqueue()
        slot = deployment.lw.schedule("added_schedule").run_now()
        until(lambda: len(deployment.given_back()) == 2, "the flow's first job and the slot's are parked")
        with deployment.worker("new"):
            assert run.job(last).result(30) == 1
            assert slot is not None
            assert slot.result(30) == 7
            ran(history, 2)
    assert deployment.dead() == 0


def test_apps_share_a_queue(deployment: Deployment, history: History, load: Load, own_url: str) -> None:
    shift: Any = load(own_url, "shift")
    with shift.lw, deployment.worker("new"), deployment.worker("", app="shift:lw"):
        calls = [(history.path, number) for number in range(50)]
        jobs = [*deployment.app.added.enqueue_many(calls), *shift.mark.enqueue_many(calls)]
        assert ran(history, 100) == Counter(job.id for job in jobs)
    assert deployment.dead() == 0


def test_job_of_unknown_task_is_dead(deployment: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROLLING_TTL", "300ms")
    with deployment.worker("old") as old:
        job = deployment.app.added.enqueue("", 1)
        with pytest.raises(JobFailed, match="UnknownTask: no task is named 'added' here"):
            job.result(30)
        until(lambda: "no live worker knew its task" in old.errors, "the log names the reason")
        assert deployment.dead() == 1
    deployment.check_nothing_parked()


def test_job_lives_while_quiet_worker_knows_its_task(deployment: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROLLING_TTL", "0s")
    with deployment.worker("new"):
        (new,) = until(deployment.lw.workers, "it is announced")
        assert deployment.lw.worker(new.name).quiet()
        until(lambda: [each.state for each in deployment.lw.workers()] == ["quiet"], "it is quiet")
        with deployment.worker("old"):
            deployment.app.added.enqueue("", 1)
            until(lambda: max(deployment.given_back(), default=0) >= 2, "it was given back again")
            assert deployment.dead() == 0


@pytest.mark.parametrize("task", ["changed", "changed_type"])
def test_call_of_new_signature_waits_for_new_worker(deployment: Deployment, history: History, task: str) -> None:
    app = deployment.app
    with deployment.worker("old"):
        enqueue = partial(app.changed.enqueue, why="x") if task == "changed" else app.changed_type.enqueue
        values = [number if task == "changed" else {"value": number} for number in range(20)]
        jobs = [enqueue(history.path, value) for value in values]
        until(lambda: len(deployment.given_back()) == 20, "each was given back")
        with deployment.worker("new"):
            assert ran(history, 20) == Counter(job.id for job in jobs)
    assert deployment.dead() == 0


def test_call_that_fits_no_version_fails(deployment: Deployment, own_url: str) -> None:
    with deployment.worker("new"), Lockwork(own_url) as producer:
        until(producer.workers, "the worker is announced")

        @producer.task(name="changed", retries=0)
        def changed(number: int) -> None: ...

        with pytest.raises(JobFailed, match="TypeError"):
            changed.enqueue(1).result(30)


def test_job_enqueued_under_alias_keeps_its_name(deployment: Deployment, history: History, own_url: str) -> None:
    with Lockwork(own_url) as producer:

        @producer.task(name="before")
        def before(path: str) -> None: ...

        job = before.enqueue(history.path)
        with deployment.worker("new"):
            assert [line["task"] for line in history.wait(1)] == ["before"]
            job.result(30)
            assert job.inspect().task == "before"
