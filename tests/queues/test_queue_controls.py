"""Controls of a whole queue, with real workers: pause, limits of rate and concurrency, and drain."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from history import History
from lockwork import ConfigError, Lockwork, ResultTimeout, WaitTimeout
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queue.status import status_and_rules
from lockwork.queues.limits import QueueLimits
from processes import Started, until, worker


@pytest.fixture
def queue(own: Any) -> Any:
    return own.lw.queue()


@pytest.fixture
def two_processes(own_url: str, apps: Path) -> Iterator[Started]:
    with worker("chores:lw", "-p", "2", "-c", "10", "--lease", "2", url=own_url, folder=apps) as process:
        yield process


def peak_concurrency(history: History) -> int:
    running = most = 0
    for line in history.lines():
        running += {"ran": 1, "done": -1}[line["event"]]
        most = max(most, running)
    return most


# -- pause ------------------------------------------------------------------------------------------------------------


def test_paused_queue_starts_no_jobs_and_resume_wakes_the_workers(
    own: Any, queue: Any, two_processes: Started, history: History, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    running = own.gated.enqueue(history.path, str(gate))
    history.wait(1)
    queue.pause()
    queue.pause()
    assert queue.status().paused
    ready, delayed = own.add.enqueue(1), own.add.options(delay=0.1).enqueue(2)
    gate.touch()
    assert running.result(20) == 1, "the running job continues"
    with pytest.raises(ResultTimeout):
        ready.result(0.5)
    until(lambda: not queue.peek(place="scheduled"), "due jobs become ready")
    assert queue.status().ready == 2
    queue.resume()
    assert (ready.result(20), delayed.result(20)) == (2, 3)
    assert not queue.status().paused
    assert queue.limits() == QueueLimits(None, None, None)


def test_pause_outlives_workers(own: Any, queue: Any, own_url: str, apps: Path, history: History) -> None:
    queue.pause()
    job = own.add.enqueue(1)
    with worker("chores:lw", "--burst", url=own_url, folder=apps) as process:
        assert process.wait() == 0, "no job can run"
    assert job.state() == "ready"
    queue.resume()
    with worker("chores:lw", "--burst", url=own_url, folder=apps) as process:
        assert process.wait() == 0
    assert job.result(0) == 2


# -- concurrency ------------------------------------------------------------------------------------------------------


def test_concurrency_limit_counts_all_workers(own: Any, queue: Any, two_processes: Started, history: History) -> None:
    assert queue.limit(concurrency=3).concurrency == 3
    own.hold.enqueue_many([(history.path, 0.02)] * 60)
    queue.drain(60)
    assert len(history.lines("done")) == 60
    assert peak_concurrency(history) <= 3


def test_killed_process_frees_its_slots(own: Any, queue: Any, two_processes: Started, history: History) -> None:
    """After kill -9 at the concurrency limit, the count is right and the other jobs run."""
    queue.limit(concurrency=2)
    own.hold_once.enqueue_many([(history.path,)] * 2)
    history.wait(2)
    others = own.add.enqueue_many([(number,) for number in range(20)])
    assert queue.status().running == 2
    for child in two_processes.children():
        os.kill(child, signal.SIGKILL)
    assert [job.result(30) for job in others] == list(range(1, 21))
    queue.drain(30)
    assert len(history.lines("ran")) == 4


def test_killed_worker_frees_its_slots(own: Any, queue: Any, own_url: str, apps: Path, history: History) -> None:
    """The whole machine dies: another worker ends its session."""
    queue.limit(concurrency=1)
    with worker("chores:lw", "--lease", "1", url=own_url, folder=apps) as first:
        own.hold_once.enqueue(history.path)
        history.wait(1)
        job = own.add.enqueue(1)
        with worker("chores:lw", "--lease", "1", url=own_url, folder=apps):
            for pid in (first.pid, *first.children()):
                os.kill(pid, signal.SIGKILL)
            assert job.result(30) == 2
            queue.drain(30)


def test_higher_concurrency_limit_wakes_the_workers(
    own: Any, queue: Any, two_processes: Started, history: History, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    queue.limit(concurrency=1)
    own.gated.enqueue(history.path, str(gate))
    history.wait(1)
    job = own.add.enqueue(1)
    with pytest.raises(ResultTimeout):
        job.result(0.3)
    queue.limit(concurrency=None)
    assert job.result(20) == 2
    gate.touch()
    queue.drain(30)


# -- rate -------------------------------------------------------------------------------------------------------------


def test_rate_limit_counts_all_workers(own: Any, queue: Any, two_processes: Started, history: History) -> None:
    queue.limit(rate="10/500ms")
    asked = time.time()
    own.mark.enqueue_many([(history.path, number) for number in range(30)])
    queue.drain(60)
    began = [line["at"] for line in history.lines("ran")]
    assert len(began) == 30
    # ten at once, and then one every 50 ms; a job may start later than its lease, not earlier
    assert max(began) - asked > 0.9
    queue.limit(rate=None)
    own.mark.enqueue_many([(history.path, number) for number in range(100)])
    queue.drain(30)


# -- drain ------------------------------------------------------------------------------------------------------------


def test_drain_waits_for_waiting_and_running_jobs(
    own: Any, queue: Any, two_processes: Started, history: History, tmp_path: Path
) -> None:
    queue.drain(0)
    gate = tmp_path / "gate"
    own.gated.enqueue(history.path, str(gate))
    later = own.add.options(delay=600).enqueue(1)
    history.wait(1)
    with pytest.raises(WaitTimeout, match=r"was not drained within 0\.1 s: 0 jobs wait, 1 run"):
        queue.drain(0.1)
    drained = threading.Event()

    def wait() -> None:
        queue.drain(30)
        drained.set()

    waiting = threading.Thread(target=wait)
    waiting.start()
    assert not drained.wait(0.2)
    gate.touch()
    assert drained.wait(20)
    waiting.join()
    with pytest.raises(WaitTimeout):
        queue.drain(0.1, delayed=True)
    later.cancel()
    queue.drain(20, delayed=True)


async def test_async_methods_of_queue_controls(alw: Lockwork) -> None:
    @alw.task
    async def work() -> None: ...

    queue = alw.queue()
    await queue.apause()
    assert (await queue.alimit(rate="5/m", concurrency=7)).rate == "5/m"
    assert (await queue.alimits()).concurrency == 7
    await work.aenqueue()
    with pytest.raises(WaitTimeout, match="1 job waits, 0 run, and the queue is paused"):
        await queue.adrain(0.05)
    await queue.aresume()
    assert not (await queue.astatus()).paused
    await queue.aclear()
    await queue.adrain(5)


# -- validation -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rate", "shown"),
    [("100/s", "100/s"), ("5/m", "5/m"), ("10/30s", "10/30s"), ("3/250ms", "3/250ms"), ("1/h", "1/h")],
)
def test_rate_is_returned_in_its_written_form(lw: Lockwork, rate: str, shown: str) -> None:
    queue = lw.queue()
    assert queue.limit(rate=rate).rate == shown
    assert queue.limit(size=3).rate == shown, "other limits stay"
    assert queue.limits().rate == shown


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({}, "pass one of them"),
        ({"concurency": 3}, "did you mean 'concurrency'"),
        ({"concurrency": 0}, r"from 1 to 1,000,000,000, not 0; to start no jobs, call pause\(\)"),
        ({"concurrency": True}, "whole number"),
        ({"concurrency": "3"}, "whole number"),
        ({"size": -1}, "from 0 to"),
        ({"size": 1.5}, "whole number"),
        ({"rate": 5}, "a rate must be units per time"),
        ({"rate": "5"}, "a rate must be units per time"),
        ({"rate": "5/1.5ms"}, "whole milliseconds"),
    ],
)
def test_wrong_limits_are_refused(lw: Lockwork, limits: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        lw.queue().limit(**limits)
    assert lw.queue().limits() == QueueLimits(None, None, None)


def test_last_eight_pauses_are_recorded(lw: Lockwork) -> None:
    queue = lw.queue("mail")
    queue.resume()
    found: list[tuple[tuple[int, int], ...]] = []
    for _ in range(10):
        queue.pause()
        queue.resume()
        queue.resume()
        _, _, rules = lw.runtime.run(status_and_rules(QueueKeys(lw.config.prefix, "mail")))
        found.append(rules.pauses)
    assert [len(pauses) for pauses in found] == [1, 2, 3, 4, 5, 6, 7, 8, 8, 8]
    assert found[-1][:6] == found[-3][2:]
    assert all(began <= ended for began, ended in found[-1])
    assert list(found[-1]) == sorted(found[-1])
