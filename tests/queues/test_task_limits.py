"""Limits of a task over all workers, with real workers."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from app_modules import own_app
from clients import client_of
from history import History
from lockwork import ConfigError, Lockwork
from lockwork.protocol.keys import QueueKeys
from processes import until, worker

own = own_app("limited")


def _most_at_once(history: History, name: str = "ran") -> int:
    events = sorted(
        [(line["at"], 1) for line in history.lines(name)] + [(line["at"], -1) for line in history.lines("ended")]
    )
    running = most = 0
    for _, change in events:
        running += change
        most = max(most, running)
    return most


def test_concurrency_holds_over_all_workers(own: Any, own_url: str, apps: Path, history: History) -> None:
    jobs = own.narrow.enqueue_many([(history.path, 0.05)] * 10)
    with worker("limited:lw", url=own_url, folder=apps), worker("limited:lw", url=own_url, folder=apps):
        for job in jobs:
            job.result(30)
    assert _most_at_once(history) == 2


def test_job_of_a_limited_task_blocks_no_other_task(own: Any, own_url: str, apps: Path, history: History) -> None:
    """Celery #8119: a rate limit of one task delays all tasks of the queue."""
    held = own.narrow.enqueue_many([(history.path, 60)] * 500)
    others = own.free.enqueue_many([(history.path,)] * 50)
    with worker("limited:lw", "--grace", "0", url=own_url, folder=apps):
        for job in others:
            job.result(30)
        (state,) = [state for state in own.lw.queue().task_limits() if state.task == "narrow"]
        assert (state.running, state.state) == (2, "open")
        assert len(history.lines("ran")) == 2
        status = own.lw.queue().status()
        assert (status.ready, status.running) == (498, 2), "held jobs count as ready"
        assert [job.id for job in own.lw.queue().peek(500)], "held jobs are listed"
        assert held[300].state() == "ready"


def test_order_within_the_task_is_kept(own: Any, own_url: str, apps: Path, history: History) -> None:
    jobs = own.narrow.enqueue_many([(history.path, 0.01)] * 12)
    with worker("limited:lw", url=own_url, folder=apps):
        for job in jobs:
            job.result(30)
    ran = [line["id"] for line in history.lines("ran")]
    ids = [job.id for job in jobs]
    assert all(abs(ids.index(id) - at) <= 1 for at, id in enumerate(ran)), "two run at once"


def test_rate_holds_over_all_workers(own: Any, own_url: str, apps: Path, history: History) -> None:
    jobs = own.slow.enqueue_many([(history.path,)] * 12)
    with worker("limited:lw", url=own_url, folder=apps), worker("limited:lw", url=own_url, folder=apps):
        for job in jobs:
            job.result(30)
    times = sorted(line["at"] for line in history.lines("ran"))
    assert times[-1] - times[4] >= 1.2, "7 of 12 wait for the rate after a burst of 5"
    assert times[-1] - times[0] < 10
    assert all(later - earlier >= 0.1 for earlier, later in pairwise(times[6:]))


def test_group_and_task_limits_hold_together(own: Any, own_url: str, apps: Path, history: History) -> None:
    jobs = [own.grouped.enqueue(history.path, group) for group in "abab"]
    jobs += [own.beside.enqueue(history.path, group) for group in "ab"]
    with worker("limited:lw", url=own_url, folder=apps):
        for job in jobs:
            job.result(30)
    assert _most_at_once(history) == 1
    assert len(history.lines("free")) == 2


def test_held_job_keeps_the_limit_of_its_group(own: Any, own_url: str, apps: Path, history: History) -> None:
    """The group had no other waiting or running job for a moment, so its state was deleted."""
    other = own.paired.enqueue(history.path, "x", 60)
    first, second, third = (own.paired.enqueue(history.path, "a", seconds) for seconds in (0.3, 60, 60))
    with worker("limited:lw", "--grace", "0", url=own_url, folder=apps):
        history.wait(2)
        until(lambda: any(state.waiting == 2 for state in own.lw.queue().task_limits()), "jobs are held")
        first.result(30)
        until(lambda: second.state() == "running", "the next job of the group runs")
        assert other.cancel()
        own.paired.enqueue(history.path, "y").result(30)  # a job that may start takes the place of this one
        assert (second.state(), third.state()) == ("running", "ready")


def test_held_jobs_of_a_group_are_found(own: Any, own_url: str, apps: Path, history: History) -> None:
    blocking = own.grouped.enqueue(history.path, "a", 60)
    jobs = [own.grouped.enqueue(history.path, "b") for _ in range(3)]
    with worker("limited:lw", "--grace", "0", url=own_url, folder=apps):
        history.wait(1)
        until(lambda: any(state.waiting == 3 for state in own.lw.queue().task_limits()), "jobs are held")
        assert {job.id for job in own.lw.jobs(group="b").jobs} == {job.id for job in jobs}
        blocking.cancel()


@pytest.mark.parametrize("kind", ["cancel", "delete", "reschedule"])
def test_held_job_can_be_changed(own: Any, own_url: str, apps: Path, history: History, kind: str) -> None:
    jobs = own.narrow.enqueue_many([(history.path, 0.5)] * 4)
    with worker("limited:lw", url=own_url, folder=apps):
        history.wait(2)
        until(lambda: any(state.waiting for state in own.lw.queue().task_limits()), "jobs are held")
        if kind == "cancel":
            assert jobs[3].cancel()
        elif kind == "delete":
            assert jobs[3].delete()
        else:
            assert jobs[3].reschedule(delay="1h")
        jobs[2].result(30)
        status = own.lw.queue().status()
    assert status.ready == 0
    assert status.scheduled == (1 if kind == "reschedule" else 0)
    assert len(history.lines("ran")) == 3


def test_clear_deletes_held_jobs(own: Any, own_url: str, apps: Path, history: History) -> None:
    own.narrow.enqueue_many([(history.path, 0.5)] * 20)
    with worker("limited:lw", url=own_url, folder=apps):
        history.wait(2)
        until(lambda: any(state.waiting for state in own.lw.queue().task_limits()), "jobs are held")
        assert own.lw.queue().clear() == 18
        own.lw.queue().drain(30)
        assert own.narrow.enqueue(history.path, 0).result(30) is None


def test_place_of_a_dead_worker_is_free_again(own: Any, own_url: str, apps: Path, history: History) -> None:
    """solid_queue#546: a worker that dies keeps the place of its job."""
    jobs = own.dies.enqueue_many([(history.path,)] * 3)
    with worker("limited:lw", url=own_url, folder=apps):
        for job in jobs:
            until(lambda job=job: job.state() == "dead", "it is dead")  # type: ignore[misc]
        assert all(state.running == 0 for state in own.lw.queue().task_limits())
    assert len(history.lines("ran")) == 3


def test_alias_shares_the_limits(own: Any, own_url: str, apps: Path, history: History) -> None:
    with Lockwork(own_url) as before:
        old = before.task(name="old.narrow", retries=0)(own.narrow.function)
        jobs = [old.enqueue(history.path, 0.1) for _ in range(3)]
    jobs = [own.lw.job(job.id) for job in jobs] + [own.narrow.enqueue(history.path, 0.1)]
    with worker("limited:lw", url=own_url, folder=apps):
        for job in jobs:
            job.result(30)
    assert _most_at_once(history) == 2


def test_changed_limits_of_a_deploy_apply_to_waiting_jobs(
    own: Any, own_url: str, apps: Path, history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = own.narrow.enqueue_many([(history.path, 0.1)] * 12)
    monkeypatch.setenv("NARROW_AT_ONCE", "1")
    with worker("limited:lw", "--grace", "5", url=own_url, folder=apps):
        history.wait(2)
    assert _most_at_once(history) == 1
    monkeypatch.setenv("NARROW_AT_ONCE", "0")
    with worker("limited:lw", url=own_url, folder=apps):
        for job in jobs:
            job.result(30)
    assert _most_at_once(history) > 4, "a version without the limit starts all jobs"
    assert "narrow" not in [state.task for state in own.lw.queue().task_limits()]


def test_lost_limits_are_declared_again(own: Any, own_url: str, apps: Path) -> None:
    queue = own.lw.queue()
    with worker("limited:lw", "--lease", "1s", url=own_url, folder=apps):
        until(queue.task_limits, "the limits are declared")
        client_of(own_url).hdel(QueueKeys(own.lw.config.prefix, "default").stats, "limited")
        until(queue.task_limits, "they are declared again")


def test_breaker_pauses_probes_and_resumes(own: Any, own_url: str, apps: Path, history: History) -> None:
    gate = Path(history.path).with_name("gate")
    jobs = own.fragile.enqueue_many([(history.path, str(gate))] * 3)
    with worker("limited:lw", url=own_url, folder=apps):
        for job in jobs:
            until(lambda job=job: job.state() == "dead", "it is dead")  # type: ignore[misc]
        jobs = own.fragile.enqueue_many([(history.path, str(gate))] * 5)
        free = own.free.enqueue(history.path)
        free.result(30)
        state = next(state for state in own.lw.queue().task_limits() if state.task == "fragile")
        assert state.state in ("paused", "probing")
        until(lambda: len(history.lines("ran")) >= 4, "a job probes")
        until(lambda: jobs[0].state() == "dead", "the first probe failed")
        gate.touch()
        for job in jobs[1:]:
            assert job.result(30) == "well"
        state = next(state for state in own.lw.queue().task_limits() if state.task == "fragile")
        assert (state.state, state.failures) == ("open", 0)
    times = [line["at"] for line in history.lines("ran")]
    assert times[3] - times[2] >= 0.9, "the first pause"
    assert times[4] - times[3] >= 0.9, "the second pause"
    assert times[-1] - times[4] < 5


def test_paused_task_is_resumed_by_hand(own: Any, own_url: str, apps: Path, history: History) -> None:
    gate = Path(history.path).with_name("gate")
    queue = own.lw.queue()
    with worker("limited:lw", url=own_url, folder=apps):
        for job in own.fragile.enqueue_many([(history.path, str(gate))] * 3):
            until(lambda job=job: job.state() == "dead", "it is dead")  # type: ignore[misc]
        gate.touch()
        assert queue.resume_task("fragile")
        assert not queue.resume_task("fragile")
        assert own.fragile.enqueue(history.path, str(gate)).result(30) == "well"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rate": "x"}, "a rate must be units per time"),
        ({"rate": "1/1us"}, "a rate must be units per time"),
        ({"concurrency": 0}, "concurrency must be a whole number from 1"),
        ({"concurrency": True}, "concurrency must be a whole number from 1"),
        ({"pause_after": "5 failures in 1m"}, "a circuit breaker needs both"),
        ({"pause_for": "5m"}, "a circuit breaker needs both"),
        ({"pause_after": "5 in 1m", "pause_for": "5m"}, "pause_after must be"),
        ({"pause_after": "0 failures in 1m", "pause_for": "5m"}, "pause_after must be"),
        ({"pause_after": "5000 failures in 1m", "pause_for": "5m"}, "pause_after must be"),
        ({"pause_after": "5 failures in x", "pause_for": "5m"}, "the time of pause_after"),
        ({"pause_after": "1 failure in 1m", "pause_for": 0}, "pause_for must be more than 0"),
    ],
)
def test_wrong_limits_are_refused(lw: Lockwork, options: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        lw.task(**options)(_nothing)


@pytest.mark.parametrize("option", ["rate", "concurrency", "pause_after", "pause_for"])
def test_limits_belong_to_the_task(lw: Lockwork, option: Any) -> None:
    changes: Any = {option: 1}
    with pytest.raises(ConfigError, match=f"@lw.task\\({option}=...\\)"):
        lw.task(name="a")(_nothing).options(**changes)


def _nothing() -> None:
    """Do nothing."""
