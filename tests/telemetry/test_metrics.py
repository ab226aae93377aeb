"""Metrics as an app reads them that knows only the server, while real workers run jobs."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from app_modules import Load
from lockwork import ConfigError, Lockwork
from lockwork.ids import new_id
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.metrics import metrics
from lockwork.protocol.queue.leases import Leased
from lockwork.worker.execution import durations
from lockwork.worker.execution.durations import Durations
from processes import until, worker


@pytest.fixture
def measured(own_url: str, load: Load) -> Iterator[Any]:
    module: Any = load(own_url, "measured")
    with module.lw:
        yield module


def test_workers_count_and_measure(measured: Any, own_url: str, apps: Path) -> None:
    measured.quick.enqueue_many([(number,) for number in range(700)])
    measured.slow.enqueue_many([(0.1,)] * 20)
    dead = measured.fails.enqueue()
    cancelled = measured.slow.enqueue(9)
    cancelled.cancel()
    measured.threaded.enqueue_many([()] * 40)
    apart = measured.apart.enqueue()
    with worker("measured:lw", "-q", "default,split", "-p", "2", url=own_url, folder=apps) as process:
        until(lambda: measured.lw.queue("split").status().succeeded == 40, "all of the partitions succeeded")
        until(lambda: measured.lw.queue().status().succeeded == 721, "all others succeeded")
        until(lambda: dead.state() == "dead", "it is dead")
        assert apart.result(10) == 1
        process.send(signal.SIGTERM)
        assert process.wait() == 0
    with Lockwork(own_url) as lw:
        whole = lw.metrics(span="15m")
        by_task = {task: point for (queue, task), point in lw.task_metrics().items() if queue == "default"}
        split = lw.metrics("split", span="24h").total
        one = lw.metrics("default", measured.slow.name, span="7d").total
    # the processes flushed their last counts when they stopped
    counts = {
        task: (point.succeeded, point.failed, point.cancelled, point.run.count) for task, point in by_task.items()
    }
    assert counts == {
        measured.quick.name: (700, 0, 0, 700),
        measured.slow.name: (20, 0, 1, 20),
        measured.fails.name: (0, 2, 0, 2),
        measured.apart.name: (1, 0, 0, 1),
    }
    assert (by_task[measured.fails.name].retried, by_task[measured.fails.name].dead) == (1, 1)
    assert by_task[measured.fails.name].wait.count == 1, "the pause before a retry is no wait"
    assert split.succeeded == split.run.count == split.wait.count == 40
    assert (one.succeeded, one.cancelled, one.run.sum) == (20, 1, by_task[measured.slow.name].run.sum)
    assert 0.09 < (one.run.quantile(0.5) or 0) < 1
    assert (by_task[measured.quick.name].run.quantile(0.5) or 1) < 0.05
    assert whole.total.succeeded == sum(point.succeeded for point in whole.points) == 761
    assert whole.total.cancelled == 1


def test_series_has_no_gaps(lw: Lockwork) -> None:
    lw.task(name="t")(len).enqueue("x")
    for span, seconds, count in (("15m", 60, 15), ("1h", 60, 60), ("24h", 3600, 24), ("7d", 3600, 168)):
        series = lw.metrics(span=span)  # type: ignore[arg-type]
        steps = [point.at for point in series.points]
        assert len(steps) == count
        assert {later - earlier for earlier, later in pairwise(steps)} == {timedelta(seconds=seconds)}
        assert steps[-1] <= datetime.now(UTC) < steps[-1] + timedelta(seconds=seconds + 1)
        assert (series.total.at, series.total.seconds) == (steps[0], seconds * count)
        assert {point.seconds for point in series.points} == {seconds}
    assert lw.metrics("unknown").total.succeeded == 0
    assert lw.task_metrics() == {}
    with pytest.raises(ConfigError, match="one of 15m, 1h, 24h, 7d, not '2h'"):
        lw.metrics(span="2h")  # type: ignore[arg-type]


def test_nothing_on_an_empty_server(lw: Lockwork) -> None:
    assert len(lw.metrics().points) == 60
    assert lw.queue_ages() == {}


async def test_twins(alw: Lockwork) -> None:
    await alw.task(name="t")(len).aenqueue("x")
    assert len((await alw.ametrics(span="24h")).points) == 24
    assert await alw.atask_metrics(span="7d") == {}
    assert (await alw.aqueue_ages()).keys() == {"default"}


def test_ages_of_queues(lw: Lockwork, monkeypatch: pytest.MonkeyPatch) -> None:
    for queue in ("old", "new"):
        lw.task(name=queue, queue=queue)(len).enqueue("x")
    later = lw.task(name="later", queue="later")(len)
    later.options(delay="1h").enqueue("x")
    until(lambda: (lw.queue_ages()["old"] or 0) > 0.2, "it grows old")
    ages = {queue: age for queue, age in lw.queue_ages().items() if age is not None}
    assert ages["later"] == 0
    assert 0 <= ages["new"] <= ages["old"] < 30


def test_busy_task_is_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    measured = Durations(QueueKeys("lw", "q"), "host/1/a")
    taken: Counter[int] = Counter()
    add = metrics.Times.add

    def counted(self: metrics.Times, microseconds: int, weight: int = 1) -> None:
        taken[weight] += 1
        add(self, microseconds, weight)

    monkeypatch.setattr(metrics.Times, "add", counted)
    job = Leased("no-time", b"1 1 r", b"", 1, 1)
    for _ in range(100_000):
        measured.ended(job, "t", 0.001)
    found = measured._tasks["t"].run
    assert found.counts.total() == pytest.approx(100_000, abs=100)
    assert found.sum == found.counts.total() * 1000
    assert taken.total() < 20_000
    assert taken[1] == pytest.approx(durations._SAMPLED, abs=1)


def test_wait_is_from_the_enqueue_to_the_first_start() -> None:
    measured, id = Durations(QueueKeys("lw", "q"), "host/1/a"), new_id()
    now_us = int(datetime.now(UTC).timestamp() * 1e6)
    measured.ended(Leased(id, b"", b"", 1, now_us + 2_000_000), "t", 0.5)
    measured.ended(Leased(id, b"", b"", 2, now_us + 9_000_000), "t", 0.5)
    measured.ended(Leased(id, b"", b"", 1, now_us - 2_000_000), "t", 0.5)  # a producer's clock that is ahead
    times = measured._tasks["t"]
    assert times.wait.counts.total() == 2
    assert times.wait.sum == pytest.approx(2_000_000, abs=100_000)
    assert (times.run.counts.total(), times.run.sum) == (3, 1_500_000)
