"""Results of many jobs: `lw.gather`, `lw.completed`, `task.map`, `await job`, and iterating over `lw.jobs`.

Reports of other libraries: waits that never end although all jobs have (celery#5359, celery#2672), an empty list
(celery#2041), errors that are raised in spite of an option (celery#10692), bars that stop early (tqdm#1791), iterators
without a length (tqdm#1231), and bars that Ctrl-C leaves behind (htmap#69).
"""

from __future__ import annotations

import asyncio
import re
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from lockwork import ConfigError, JobFailed, Lockwork, ResultTimeout, ResultUnavailable
from lockwork.errors import BlockingCallError, JobCancelled, JobExpired
from lockwork.jobs.current import jobs_here
from lockwork.protocol.effects import Call, Calls
from lockwork.runtime.sync_driver import SyncDriver
from lockwork.testing import inline, record


@contextmanager
def at_work(lw: Lockwork, **options: Any) -> Iterator[None]:
    worker = lw.worker(**options)
    thread = threading.Thread(target=worker.run, name="lockwork-test-worker")
    thread.start()
    try:
        yield
    finally:
        worker.stop()
        thread.join(30)
        assert not thread.is_alive()


def tasks_of(lw: Lockwork) -> tuple[Any, Any]:
    @lw.task(retries=0)
    async def double(number: int) -> int:
        if number < 0:
            raise ValueError(number)
        return 2 * number

    @lw.task(retries=0, queue="slow")
    async def wait(seconds: float) -> float:
        await asyncio.sleep(seconds)
        return seconds

    return double, wait


def test_results_are_in_the_order_of_the_jobs(lw: Lockwork) -> None:
    double, wait = tasks_of(lw)
    jobs = [wait.enqueue(0.2), *double.enqueue_many((n,) for n in range(300)), wait.enqueue(0.1)]
    with at_work(lw):
        assert lw.gather(jobs, timeout=30) == [0.2, *range(0, 600, 2), 0.1]
        assert lw.gather(iter(jobs)) == [0.2, *range(0, 600, 2), 0.1], "all have ended"


def test_empty_lists_of_jobs_need_no_server() -> None:
    with Lockwork("redis://localhost:1") as lw:
        assert lw.gather([]) == []
        assert list(lw.completed([])) == []
        double, _ = tasks_of(lw)
        assert double.map([]) == []


async def test_async_gather(alw: Lockwork) -> None:
    double, wait = tasks_of(alw)
    jobs = [await wait.aenqueue(0.1), *await double.aenqueue_many((n,) for n in range(50))]
    with pytest.raises(BlockingCallError):
        alw.gather(jobs)
    running = asyncio.create_task(alw.worker().arun())
    results = await asyncio.gather(*(alw.agather(jobs, timeout=30) for _ in range(20)))
    assert results == [[0.1, *range(0, 100, 2)]] * 20
    assert await jobs[0] == 0.1
    assert await double.amap(range(5)) == [0, 2, 4, 6, 8]
    assert [job async for job in alw.acompleted(jobs)] == jobs
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


def test_first_failure_is_raised_without_waiting_for_the_others(lw: Lockwork) -> None:
    double, wait = tasks_of(lw)
    jobs = [wait.enqueue(5), double.enqueue(-1), double.enqueue(1)]
    with at_work(lw, grace=0):
        began = time.monotonic()
        with pytest.raises(JobFailed, match="ValueError"):
            lw.gather(jobs)
        assert time.monotonic() - began < 4
        result, error, other = lw.gather([jobs[2], jobs[1], jobs[2]], return_exceptions=True)
        assert (result, other) == (2, 2)
        assert isinstance(error, JobFailed)
        assert error.type == "ValueError"


def test_job_may_be_listed_more_than_once(lw: Lockwork) -> None:
    double, _ = tasks_of(lw)
    job = double.enqueue(4)
    same = lw.job(job.id)
    with at_work(lw):
        assert lw.gather([job, same, job, double.job(job.id)], timeout=10) == [8] * 4
        assert len(list(lw.completed([job, job, same], timeout=10))) == 3


def test_jobs_of_several_queues_are_found(lw: Lockwork, other: Lockwork) -> None:
    double, wait = tasks_of(lw)
    jobs = [double.enqueue(1), wait.enqueue(0.01)]
    with at_work(lw):
        assert other.gather([other.job(job.id) for job in jobs], timeout=10) == [2, 0.01]
        assert other.gather([other.job(jobs[0].id), jobs[1]], timeout=10) == [2, 0.01], "of two objects"
    with pytest.raises(ConfigError, match="expected the jobs that enqueue"):
        lw.gather([jobs[0].id])


def test_jobs_of_two_apps_on_one_server_are_gathered(own_url: str) -> None:
    with Lockwork(own_url) as shop, Lockwork(own_url, prefix="bank") as bank:
        double, wait = tasks_of(shop)[0], tasks_of(bank)[1]
        late, lost = wait.enqueue(0.3), wait.options(expires="10ms").enqueue(1)
        jobs: list[Any] = [double.enqueue(4), late, double.enqueue(5)]
        with pytest.raises(JobExpired):
            shop.gather([lost], timeout=10)
        with at_work(shop), at_work(bank):
            began = time.monotonic()
            assert shop.gather(jobs, timeout=20) == [8, 0.3, 10]
            assert time.monotonic() - began < 4, "by a message, not by the check every 5 s"
            more: list[Any] = [wait.enqueue(0.2), double.enqueue(1)]
            assert [job.result() for job in bank.completed(more, timeout=20)] == [2, 0.2]
        expired: Any = wait.options(expires="10ms").enqueue(1)
        found = shop.gather([jobs[0], expired], timeout=10, return_exceptions=True)
        assert isinstance(found[1], JobExpired)


async def test_jobs_of_two_async_apps_are_gathered(own_url: str) -> None:
    async with Lockwork(own_url) as shop, Lockwork(own_url, prefix="bank") as bank:
        double, wait = tasks_of(shop)[0], tasks_of(bank)[1]
        jobs: list[Any] = [await double.aenqueue(4), await wait.aenqueue(0.1)]
        with at_work(shop), at_work(bank):
            assert await shop.agather(jobs, timeout=20) == [8, 0.1]
            assert {await job async for job in bank.acompleted(jobs, timeout=20)} == {8, 0.1}


@pytest.mark.usefixtures("admin")
def test_jobs_of_two_databases_are_refused(own_url: str, url: str) -> None:
    if own_url == url:
        pytest.skip("a Cluster has one database")
    with Lockwork(own_url) as shop, Lockwork(url) as bank:
        jobs: list[Any] = [tasks_of(shop)[0].enqueue(4), tasks_of(bank)[0].enqueue(4)]
        with pytest.raises(ConfigError, match=f"job {jobs[1].id} .* with another server, database or user"):
            shop.gather(jobs)
        jobs[1].delete()


def test_completed_yields_jobs_as_they_end(lw: Lockwork, monkeypatch: pytest.MonkeyPatch) -> None:
    double, wait = tasks_of(lw)
    jobs = [wait.enqueue(0.4), wait.enqueue(0.05), wait.enqueue(0.2), double.enqueue(-1)]
    with at_work(lw):
        ended = list(lw.completed(jobs, timeout=30))
        assert [job for job in ended if job is not jobs[3]] == [jobs[1], jobs[2], jobs[0]]
        with monkeypatch.context() as patch:
            made = calls_of(patch)
            assert [job.result() for job in ended if job is not jobs[3]] == [0.05, 0.2, 0.4]
            with pytest.raises(JobFailed):
                jobs[3].result()
            assert "queue/outcome" not in [name for name, _ in made], "the outcomes were read"
        assert jobs[0].result() == 0.4, "the second result() asks the server"


def test_deleted_cancelled_and_expired_jobs_end_the_wait(lw: Lockwork) -> None:
    double, _ = tasks_of(lw)
    jobs = [double.enqueue(n) for n in range(3)]
    jobs.append(double.options(expires=0.5).enqueue(4))

    def disturb() -> None:
        time.sleep(0.2)
        jobs[0].delete()
        jobs[1].cancel()
        jobs[2].delete()

    thread = threading.Thread(target=disturb)
    thread.start()
    unknown = double.job("0" * 20)
    errors = lw.gather([*jobs, unknown], timeout=20, return_exceptions=True)
    thread.join()
    assert [type(error) for error in errors] == [JobFailed, JobCancelled, JobFailed, JobExpired, ResultUnavailable]


def test_timeout_names_the_first_job_that_has_not_ended(lw: Lockwork) -> None:
    double, _ = tasks_of(lw)
    jobs = [double.enqueue(n) for n in range(3)]
    jobs[0].cancel()
    text = f"2 of 3 jobs have not ended yet; the first: job {jobs[1].id} in queue 'default' has not ended yet: "
    with pytest.raises(ResultTimeout, match=re.escape(text + "it is ready, and no worker serves the queue")):
        list(lw.completed(jobs, timeout=0.1))
    cancelled, *late = lw.gather(jobs, timeout=0, return_exceptions=True)
    assert isinstance(cancelled, JobCancelled)
    assert all(isinstance(error, ResultTimeout) for error in late)
    assert len(late) == 2


def test_ctrl_c_ends_the_wait_and_leaves_nothing(lw: Lockwork, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")  # with a bar
    double, _ = tasks_of(lw)
    jobs = [double.enqueue(n) for n in range(3)]
    timer = threading.Timer(0.3, signal.raise_signal, (signal.SIGINT,))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        lw.gather(jobs, progress=True)
    timer.join()
    assert not lw.runtime.engine._mail._followers
    with at_work(lw):
        assert lw.gather(jobs, timeout=10) == [0, 2, 4]


def test_interrupted_job_ends_its_wait(lw: Lockwork) -> None:
    double, _ = tasks_of(lw)

    @lw.task(queue="parents", retries=0, timeout=0.5)
    def parent(id: str) -> None:
        lw.gather([lw.job(id, "idle")])

    idle = lw.task(queue="idle", name="idle")(lambda: None)
    waiting = parent.enqueue(idle.enqueue().id)
    with at_work(lw, queues=["parents", "default"]):
        with pytest.raises(JobFailed, match="TimeoutError|JobTimeout"):
            waiting.result(20)
        assert double.map([1]) == [2]
    assert not lw.runtime.engine._mail._followers


async def test_cancelled_wait_leaves_nothing(alw: Lockwork) -> None:
    double, _ = tasks_of(alw)
    jobs = [await double.aenqueue(n) for n in range(3)]
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(alw.agather(jobs), 0.2)
    assert not alw.runtime.engine._mail._followers


def calls_of(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """Record the scripts of all calls of this process to queues, with the number of calls sent together."""
    made: list[tuple[str, int]] = []
    perform = SyncDriver.perform

    def recorded(self: SyncDriver, effect: Any) -> Any:
        calls = effect.calls if type(effect) is Calls else [effect] if type(effect) is Call else []
        if calls and calls[0].script.name.startswith("queue/"):  # engines add names to the index at any time
            made.append((calls[0].script.name, len(calls)))
        return perform(self, effect)

    monkeypatch.setattr(SyncDriver, "perform", recorded)
    return made


def test_ended_jobs_are_read_in_few_round_trips(lw: Lockwork, monkeypatch: pytest.MonkeyPatch) -> None:
    double, _ = tasks_of(lw)
    jobs = double.enqueue_many((n,) for n in range(1000))
    with at_work(lw):
        lw.gather(jobs, timeout=30)
    made = calls_of(monkeypatch)
    assert lw.gather(jobs) == [*range(0, 2000, 2)]
    assert made == [("queue/outcome", 200)] * 5


def test_wait_calls_the_server_twice_per_job_at_most(
    lw: Lockwork, other: Lockwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    double, _ = tasks_of(lw)
    tasks_of(other)
    jobs = double.enqueue_many((n,) for n in range(2000))
    lw.runtime.engine.listen()
    while not (lw.runtime.subscribed or lw.runtime.clustered):
        time.sleep(0.01)
    made = calls_of(monkeypatch)
    waiting = threading.Thread(target=lambda: results.extend(lw.gather(jobs, timeout=60)))
    results: list[int] = []
    waiting.start()
    while len(made) < 10:
        time.sleep(0.01)
    with at_work(other):
        waiting.join()
    assert results == [*range(0, 4000, 2)]
    # on a Cluster, a new subscription causes one more read of each
    assert sum(count for name, count in made if name == "queue/outcome") <= (6000 if lw.runtime.clustered else 4000)


def test_lost_messages_delay_no_result(lw: Lockwork) -> None:
    double, _ = tasks_of(lw)
    jobs = double.enqueue_many((n,) for n in range(500))
    results: list[int] = []
    waiting = threading.Thread(target=lambda: results.extend(lw.gather(jobs, timeout=60)))
    waiting.start()
    time.sleep(0.2)
    mail = lw.runtime.engine._mail
    collect, mail._collect = mail._collect, lambda ticket, text: None  # type: ignore[method-assign]
    with at_work(lw):
        while double.job(jobs[-1].id).state() != "succeeded":
            time.sleep(0.01)
        mail._collect = collect  # type: ignore[method-assign]
        mail.wake_all()  # as after a new connection
        began = time.monotonic()
        waiting.join()
    assert results == [*range(0, 1000, 2)]
    assert time.monotonic() - began < 4


def test_map_reads_items_as_jobs_end(lw: Lockwork) -> None:
    double, _ = tasks_of(lw)
    lw.queue().limit(size=60)
    taken = 0

    def items() -> Iterator[int]:
        nonlocal taken
        for number in range(1000):
            taken += 1
            yield number

    with at_work(lw):
        assert double.map(items(), chunk=30) == [*range(0, 2000, 2)]
        assert taken == 1000
        taken = 0
        with pytest.raises(JobFailed):
            double.map((-1 if number == 50 else number for number in items()), chunk=20)
        assert taken < 200
        mixed = double.map([1, -1, 2], return_exceptions=True)
        assert [type(each) for each in mixed] == [int, JobFailed, int]
    with pytest.raises(ConfigError, match="chunk must be"):
        double.map([1], chunk=0)


async def test_blocking_map_is_refused_on_an_event_loop(alw: Lockwork) -> None:
    double, _ = tasks_of(alw)
    with pytest.raises(BlockingCallError):
        double.map([])


def test_wait_without_a_worker_is_logged(
    lw: Lockwork, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lockwork.jobs.completion.RECHECK", 0.1)
    double, _ = tasks_of(lw)
    job = double.enqueue(1)
    threading.Timer(0.5, job.cancel).start()
    with pytest.raises(JobCancelled):
        lw.gather([job])
    assert caplog.text.count(f"{job.id} waits without a timeout, and no worker serves queue 'default'") == 1


def test_first_unended_job_is_announced(lw: Lockwork) -> None:
    _, wait = tasks_of(lw)
    seen: list[list[str]] = []

    @lw.task(queue="parents", retries=0)
    def parent(ids: list[str]) -> list[float]:
        waits = jobs_here()[0].waits
        seen.extend([each.id for each in waits] for _ in lw.completed([wait.job(id) for id in ids]))
        return [len(waits)]

    children = [wait.enqueue(0.1), wait.enqueue(0.4)]
    with at_work(lw):
        assert parent.enqueue([child.id for child in children]).result(20) == [0]
    assert seen == [[children[0].id], [children[1].id]]


def test_inline_jobs_are_gathered() -> None:
    with Lockwork("redis://localhost:1") as lw:
        double, _ = tasks_of(lw)
        with inline():
            assert lw.gather(double.enqueue_many([(1,), (2,)])) == [2, 4]
            assert double.map([1, 2, 3], progress=True) == [2, 4, 6]
        with record():
            double.enqueue(1)


def test_iteration_reads_all_pages(lw: Lockwork) -> None:
    double, _ = tasks_of(lw)
    jobs = double.enqueue_many((n,) for n in range(25))
    first = lw.jobs(limit=10, task="double")
    assert len(first.jobs) == 10
    assert [row.id for row in first] == [job.id for job in reversed(jobs)]
    assert [row.id for row in lw.jobs(limit=10, after=first.next)] == [job.id for job in reversed(jobs[:15])]
    assert [row.id for row in lw.jobs(newest=False, limit=7)] == [job.id for job in jobs]
    assert list(lw.jobs(task="other")) == []


async def test_async_iteration_reads_all_pages(alw: Lockwork) -> None:
    double, _ = tasks_of(alw)
    jobs = await double.aenqueue_many((n,) for n in range(25))
    assert [row.id async for row in await alw.ajobs(limit=10)] == [job.id for job in reversed(jobs)]


def test_bar_is_drawn_on_a_terminal_only(lw: Lockwork, capfd: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    double, _ = tasks_of(lw)
    with at_work(lw):
        assert double.map(range(3), progress=True) == [0, 2, 4]
        assert capfd.readouterr().err == ""
        monkeypatch.setenv("FORCE_COLOR", "1")
        monkeypatch.setenv("TERM", "xterm-256color")
        assert double.map((n for n in range(250)), chunk=50, progress=True)[-1] == 498
        assert "250/250" in capfd.readouterr().err, "the last state, also if the number of items was not known"
