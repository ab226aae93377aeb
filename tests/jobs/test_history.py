"""The history of ended jobs and failed attempts; deleted jobs, and bulk changes of jobs."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
import redis

from clients import client_of
from lockwork import ConfigError, JobFailed, Lockwork
from lockwork.history_bounds import HistoryBounds
from lockwork.ids import new_ids
from lockwork.protocol.dead import dead
from lockwork.protocol.dead.dead import Bounds
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queue import enqueue, leases
from lockwork.protocol.queue import job_control as control
from lockwork.protocol.queue.enqueue import NewJob
from lockwork.protocol.queue.leases import Leased, Outcome
from processes import until, worker

KEYS = QueueKeys("lw", "default")
SESSION = "host/1/a"
WINDOW_MS = 600_000
ERROR = b'{"type":"ValueError","message":"no such order","traceback":"line 1"}'
RECORD = b'1,9,,;["send",[1],{"to":"ada"},{"tags":["vip"]}]'


@pytest.fixture
def session(lw: Lockwork) -> str:
    """A worker session."""
    lw.runtime.run(leases.beat(KEYS, {SESSION: True}, 600_000, 5))
    return SESSION


def leased(lw: Lockwork, count: int = 1, record: bytes = RECORD) -> list[Leased]:
    """Enqueue and lease this many jobs."""
    held: list[Leased] = []
    for at in range(0, count, 500):
        lw.runtime.run(enqueue.push(KEYS, [NewJob(id, record) for id in new_ids(min(500, count - at))]))
        held += again(lw, 500)
    return held


def again(lw: Lockwork, count: int = 1) -> list[Leased]:
    """Lease the next jobs."""
    return lw.runtime.run(leases.reserve(KEYS, SESSION, count, new_ids(1)[0], "")).jobs


def settle(lw: Lockwork, jobs: list[Leased], kind: str, delay: int = 0) -> None:
    value = ERROR if kind in "rdkK" else b"[1]" if kind == "s" else b""
    ends = [Outcome(job.id, job.token, kind, value, delay) for job in jobs]  # type: ignore[arg-type]
    assert all(lw.runtime.run(leases.settle(KEYS, SESSION, ends, WINDOW_MS)))


def now() -> datetime:
    return datetime.now(UTC)


def test_job_is_known_from_its_enqueue_to_its_end(lw: Lockwork, session: str) -> None:
    [job] = leased(lw)
    handle = lw.job(job.id)
    seen = handle.inspect()
    assert (seen.state, seen.attempt, seen.worker, seen.ended) == ("running", 1, session, None)
    assert [(each.number, each.outcome) for each in seen.timeline] == [(1, "running")]
    settle(lw, [job], "r")
    seen = handle.inspect()
    assert (seen.state, seen.attempts, seen.worker) == ("ready", 1, session)
    assert seen.error is not None
    assert (seen.error.type, seen.error.text, seen.error.traceback) == ("ValueError", "no such order", "")
    assert handle.error() == seen.error
    [job] = again(lw)
    settle(lw, [job], "k")
    [job] = again(lw)
    settle(lw, [job], "s")
    seen = handle.inspect()
    assert (seen.state, seen.attempts, seen.error, seen.result) == ("succeeded", 3, None, [1])
    assert [each.outcome for each in seen.timeline] == ["failed", "died", "succeeded"]
    assert [each.worker for each in seen.timeline] == [session] * 3
    assert (seen.task, seen.args, seen.kwargs, seen.tags) == ("send", (1,), {"to": "ada"}, ("vip",))
    moments = [seen.enqueued, seen.timeline[0].started, seen.timeline[0].ended, seen.timeline[-1].started, seen.ended]
    assert all(moment is not None and abs(now() - moment) < timedelta(minutes=1) for moment in moments)
    assert moments[1:] == sorted(moments[1:])  # type: ignore[type-var]
    assert seen.size == len(RECORD)


def test_job_is_known_when_its_result_is_gone(lw: Lockwork, admin: redis.Redis, session: str) -> None:
    done, cancelled = leased(lw, 2)
    settle(lw, [done], "s")
    settle(lw, [cancelled], "c")
    admin.delete(*KEYS.results)
    assert lw.job(done.id).state() == "succeeded"
    assert lw.job(done.id).inspect().task == "send"
    assert lw.job(cancelled.id).state() == "cancelled"
    assert lw.job(cancelled.id).retry(), "history has all of its record"
    assert lw.job(cancelled.id).state() == "ready"
    assert not lw.job(done.id).retry()
    settle(lw, again(lw), "s")


def test_dead_job_keeps_its_attempts(lw: Lockwork, admin: redis.Redis, session: str) -> None:
    [job] = leased(lw)
    for _ in range(12):
        settle(lw, [job], "r")
        [job] = again(lw)
    settle(lw, [job], "d")
    seen = lw.job(job.id).inspect()
    assert [each.number for each in seen.timeline] == list(range(4, 14)), "the last ten"
    assert (seen.state, seen.worker) == ("dead", session)
    assert lw.queue().dead.delete(job.id)
    assert not admin.exists(KEYS.timelines)


def test_busy_queue_keeps_a_sample_of_its_successes(lw: Lockwork, admin: redis.Redis, session: str) -> None:
    settle(lw, leased(lw, 1500), "s")
    cancelled = leased(lw, 300)
    settle(lw, cancelled, "c")
    page = lw.jobs(state="succeeded", limit=1000)
    assert 200 <= len(page.jobs) < 1500
    assert len(page.jobs) + page.sampled == 1500
    assert {job.id for job in cancelled} <= {job.id for job in lw.jobs(state="cancelled", limit=1000).jobs}
    assert lw.queue().status().succeeded == 1500


def test_history_is_kept_within_its_bound(lw: Lockwork, admin: redis.Redis, session: str) -> None:
    def trim(bound: str) -> bool:
        return lw.runtime.run(dead.trim(KEYS, Bounds(60_000, 100, bound)))[1]

    assert not trim("50")
    settle(lw, leased(lw, 300), "c")
    assert (admin.zcard(KEYS.history_order), admin.hlen(KEYS.history)) == (50, 50)
    newest = leased(lw, 10)
    settle(lw, newest, "c")
    kept = [job.id for job in lw.jobs(state="cancelled", limit=10).jobs]
    assert sorted(kept) == sorted(job.id for job in newest)
    admin.zadd(KEYS.history_order, {newest[0].id: 5})
    trim("3600000ms")
    assert admin.zcard(KEYS.history_order) == 49
    assert not admin.hexists(KEYS.history, newest[0].id)
    trim("0")
    settle(lw, leased(lw, 10), "s")
    assert not admin.exists(KEYS.history, KEYS.history_order)
    assert lw.jobs(state="done").sampled == 0, "without history, nothing is left out of it"
    trim("")
    settle(lw, leased(lw, 10), "s")
    assert admin.zcard(KEYS.history_order) == 10


def test_bounded_steps_shrink_a_large_history(lw: Lockwork, admin: redis.Redis, session: str) -> None:
    for at in range(0, 3000, 500):
        admin.zadd(KEYS.history_order, {f"j{number:05}": 1 for number in range(at, at + 500)})
    steps = 1
    while lw.runtime.run(dead.trim(KEYS, Bounds(60_000, 100, "10")))[1]:
        steps += 1
    assert steps >= 6
    assert admin.zcard(KEYS.history_order) == 10


def test_small_job_costs_300_bytes_at_most(lw: Lockwork, admin: redis.Redis, session: str) -> None:
    settle(lw, leased(lw, 1000), "c")
    used = sum(admin.memory_usage(key, samples=0) or 0 for key in (KEYS.history, KEYS.history_order))
    assert used / admin.zcard(KEYS.history_order) <= 300


def test_cut_texts_are_read(lw: Lockwork, session: str) -> None:
    long = '1,4,,;["send",["' + "ä" * 2000 + '"]]'
    held = leased(lw, 2, long.encode())
    error = msgspec.json.encode({"type": "ä" * 200, "message": "€" * 400, "traceback": "x"})
    ends = [Outcome(held[0].id, held[0].token, "c"), Outcome(held[1].id, held[1].token, "r", error, 0)]
    lw.runtime.run(leases.settle(KEYS, SESSION, ends, WINDOW_MS))
    [row] = lw.jobs(state="cancelled").jobs
    assert (row.task, row.args, row.size) == ("send", None, len(long.encode()))
    seen = lw.job(held[1].id).inspect()
    assert seen.error is not None
    assert seen.error.text.startswith("€" * 100)


@pytest.mark.parametrize(
    "error", [b"", b"{", b"5", b'{"type":5}', b"\xff\xfe", b"[" * 2000, b'{"type":null,"message":{}}']
)
def test_malformed_errors_are_kept(lw: Lockwork, session: str, error: bytes) -> None:
    [job] = leased(lw)
    lw.runtime.run(leases.settle(KEYS, SESSION, [Outcome(job.id, job.token, "r", error, 50_000)], WINDOW_MS))
    [attempt] = lw.job(job.id).inspect().timeline
    assert attempt.outcome == "failed"
    lw.job(job.id).cancel()


def test_odd_timelines_are_replaced(lw: Lockwork, admin: redis.Redis, session: str) -> None:
    for odd in (b"", b"\x05", b"\x9a", b"\x91", b"\x9f" + b"\x01" * 15, b"{}"):
        [job] = leased(lw)
        admin.hset(KEYS.timelines, job.id, odd)
        lw.job(job.id).inspect()
        settle(lw, [job], "r", 50_000)
        lw.job(job.id).inspect()
        assert lw.job(job.id).delete()
    assert not admin.exists(KEYS.timelines)


def test_jobs_are_deleted_where_they_are(lw: Lockwork, admin: redis.Redis, session: str) -> None:
    @lw.task
    async def send(n: int) -> None: ...

    ready, later, gone = send.enqueue(1), send.options(delay=60).enqueue(2), send.enqueue(3)

    def wait() -> None:
        with pytest.raises(JobFailed, match="it was deleted before it ran"):
            gone.result(10)

    waits = threading.Thread(target=wait)
    waits.start()
    while not admin.hexists(KEYS.watch, gone.id):
        pass
    assert ready.delete()
    assert later.delete()
    assert gone.delete()
    waits.join(10)
    assert not waits.is_alive()
    assert not ready.delete()
    assert not lw.jobs(state="ready").jobs
    running, died, done = leased(lw, 3)
    assert not lw.job(running.id).delete()
    settle(lw, [died], "d")
    settle(lw, [done], "s")
    assert lw.job(died.id).delete()
    assert lw.job(done.id).delete()
    settle(lw, [running], "g")
    assert lw.job(running.id).delete()
    assert lw.jobs().jobs == []
    assert not admin.exists(KEYS.jobs, KEYS.errors, KEYS.tries, KEYS.timelines, KEYS.history, KEYS.history_order)


async def test_job_is_deleted_by_a_coroutine(alw: Lockwork) -> None:
    @alw.task
    async def send(n: int) -> None: ...

    job = await send.aenqueue(1)
    assert await job.adelete()
    assert await job.astate() == "unknown"


def test_bulk_changes_apply_to_matching_jobs(lw: Lockwork, session: str) -> None:
    calls: list[tuple[int, int]] = []
    lw.runtime.run(enqueue.push(KEYS, [NewJob(id, b'1,4,,;["send",[1]]') for id in new_ids(700)]))
    lw.runtime.run(enqueue.push(KEYS, [NewJob(id, b'1,4,k,;["save",[1]]', 50_000) for id in new_ids(30)]))
    lw.runtime.run(enqueue.push(KEYS, [NewJob(id, b'1,4,k,;["save",[2]]') for id in new_ids(30)]))
    again(lw, 0)
    assert lw.cancel_jobs(task="send", limit=5) == 5
    assert lw.cancel_jobs(task="send", progress=lambda done, searched: calls.append((done, searched))) == 695
    assert calls[-1][0] == 695
    assert [done for done, _ in calls] == sorted(done for done, _ in calls)
    assert lw.cancel_jobs("default", arg="1", task="save") == 30
    assert lw.cancel_jobs("default", key="k") == 30
    assert lw.jobs(state="cancelled").total == 760
    assert lw.retry_jobs(task="save") == 60
    assert lw.delete_jobs(state="cancelled") == 700
    assert lw.delete_jobs() == 60
    assert lw.jobs().total == 0


async def test_async_bulk_changes(alw: Lockwork) -> None:
    @alw.task
    async def send(n: int) -> None: ...

    await send.aenqueue_many((number,) for number in range(5))
    assert await alw.acancel_jobs(arg="3") == 1
    assert await alw.aretry_jobs("default") == 1
    assert await alw.adelete_jobs() == 5


@pytest.mark.parametrize(
    ("bound_setting", "bound"),
    [
        ("10k", "10000"),
        ("2000k", "2000000"),
        (500, "500"),
        ("500", "500"),
        ("off", "0"),
        (None, "0"),
        (0, "0"),
        ("1d", "86400000ms"),
        (timedelta(hours=1), "3600000ms"),
        ({"mail": "1d"}, ""),
        ({"default": "off"}, "0"),
    ],
)
def test_history_bound_is_read_from_settings(bound_setting: Any, bound: str) -> None:
    assert HistoryBounds.read(bound_setting).of("default") == bound
    assert HistoryBounds.read({"mail": "1d"}).of("mail/3") == "86400000ms"


@pytest.mark.parametrize(
    "bound_setting", ["", "often", "-1", -1, True, 1.5, "10kk", "2M", "1D", {"a/b": "1d"}, {"a": "x"}, 10**12]
)
def test_wrong_history_bound_is_refused(bound_setting: Any) -> None:
    with pytest.raises(ConfigError):
        Lockwork("redis://localhost:1", history=bound_setting)


def test_cancelled_running_job_has_its_attempt(lw: Lockwork, session: str) -> None:
    [job] = leased(lw)
    assert lw.runtime.run(control.cancel(KEYS, job.id, "lw")) == "running"
    settle(lw, [job], "r")
    seen = lw.job(job.id).inspect()
    assert (seen.state, [each.outcome for each in seen.timeline]) == ("cancelled", ["cancelled"])


def test_worker_applies_its_setting(own_url: str, tmp_path: Path) -> None:
    app = 'from lockwork import Lockwork\nlw = Lockwork(history={"default": 2})\n@lw.task\ndef add(a: int): return a\n'
    (tmp_path / "few.py").write_text(app)
    with Lockwork(own_url) as lw, client_of(own_url) as client:

        @lw.task
        def add(a: int) -> int:
            return a

        with worker("few:lw", url=own_url, folder=tmp_path):
            jobs = [add.enqueue(number) for number in range(5)]
            assert [job.result(10) for job in jobs] == list(range(5))
            until(lambda: client.hget(KEYS.stats, "history") == b"2", "the setting is on the server")
            until(lambda: client.zcard(KEYS.history_order) == 2, "the bound is kept")
            last = add.enqueue(5)
            assert last.result(10) == 5
            [row] = lw.jobs(state="succeeded", limit=1).jobs
            assert (row.id, row.task, row.args, row.attempt) == (last.id, "add", (5,), 1)
            assert row.worker is not None
            assert [row.worker] == [info.session for info in lw.queue().workers()]
