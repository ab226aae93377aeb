"""Flows end although their workers are killed at random; also flows of ten thousand jobs."""

from __future__ import annotations

import os
import random
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from history import History
from lockwork.protocol.flows import flows
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queue import leases
from processes import Started, until, worker

_CHORDS, _SIZE, _KILLS = 5, 10, 4


def _kill(process: Started, history: History, done: Callable[[], bool], rng: random.Random) -> int:
    """Kill the worker's processes with -9 each time several more jobs have run; return the number of kills."""
    killed = 0
    for _ in range(_KILLS):
        more = len(history.lines()) + rng.randint(4, 12)
        until(lambda more=more: len(history.lines()) >= more or done(), "the jobs continue")  # type: ignore[misc]
        pids = [] if done() else process.children()
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        killed += len(pids)
    return killed


def test_chords_complete_while_workers_are_killed(own: Any, own_url: str, apps: Path, history: History) -> None:
    """celery#4207, #2725, #3021: chords hang when a worker dies."""
    runs = []
    for chord in range(_CHORDS):
        flow = own.lw.flow()
        header = flow.group(own.slow.call(history.path, f"{chord}.{n}") for n in range(_SIZE))
        flow.add(own.noted.call(history.path, f"callback {chord}", header))
        runs.append(flow.enqueue())

    def done() -> bool:
        return all(run.inspect().state == "succeeded" for run in runs)

    with worker(
        "flowing:lw", "--processes", "2", "--lease", "1", "--concurrency", "4", url=own_url, folder=apps
    ) as one:
        history.wait(1)
        killed = _kill(one, history, done, random.Random(1))
        until(done, "all flows have ended")
    assert killed, "no process was killed"
    assert [run.result(0) for run in runs] == [f"callback {chord}" for chord in range(_CHORDS)]
    lines = history.lines()
    ended = {line["name"] for line in lines if line["event"] == "done"}
    for at, line in enumerate(lines):
        if line["name"].startswith("callback"):
            chord = line["name"].split()[1]
            before = {other["name"] for other in lines[:at] if other["event"] == "done"}
            assert {f"{chord}.{n}" for n in range(_SIZE)} <= before, "a callback ran before its group had ended"
    assert len(ended) == _CHORDS * _SIZE
    attempts = Counter(line["name"] for line in lines if line["event"] == "ran")
    again = sum(count - 1 for count in attempts.values())
    assert again <= killed * 4, "a job runs again only for a worker that was killed"
    status = own.lw.queue().status()
    assert (status.ready, status.scheduled, status.running, status.blocked) == (0, 0, 0, 0)


def test_flow_completes_after_worker_dies_with_its_last_job(
    own: Any, own_url: str, apps: Path, history: History
) -> None:
    flow = own.lw.flow()
    header = flow.group([own.noted.call(history.path, "a"), own.dies_once.call(history.path, "b")])
    flow.add(own.noted.call(history.path, "callback", header))
    run = flow.enqueue()
    with worker("flowing:lw", "--lease", "1", url=own_url, folder=apps):
        assert run.result(30) == "callback"
    names = Counter(line["name"] for line in history.lines("ran"))
    assert names["callback"] == 1
    assert history.lines("ran")[-1]["others"] == [["a", "b"]]


def test_chord_of_ten_thousand_jobs_completes(own: Any, own_url: str, apps: Path) -> None:
    run = own.lw.chord([own.number.call(n) for n in range(10_000)], own.total).enqueue()
    status = own.lw.queue().status()
    assert (status.ready, status.scheduled, status.blocked) == (10_000, 0, 1)
    with worker("flowing:lw", "--concurrency", "100", url=own_url, folder=apps):
        assert run.result(50) == sum(range(10_000))
    assert run.inspect().succeeded == 10_001


def test_job_with_ten_thousand_dependents_is_cancelled_in_steps(own: Any) -> None:
    """Each further call to the server handles a part of the dependents."""
    flow = own.lw.flow()
    first = flow.add(own.number.call(1))
    flow.group(own.double.call(first) for _ in range(10_000))
    run = flow.enqueue()
    assert own.lw.queue().status().blocked == 10_000
    assert run.job(first).cancel()
    keys = QueueKeys("lw", "default")
    own.lw.runtime.run(leases.expire(keys, 600_000))
    assert run.inspect().cancelled == 10_001
    assert own.lw.queue().status().blocked == 0
    again = flow.enqueue()
    assert again.cancel()
    assert again.inspect().state == "cancelled"


def test_flow_of_dead_producer_never_runs(own: Any) -> None:
    """celery#1700: a chord whose producer is interrupted is polled forever."""
    keys = QueueKeys("lw", "default")
    storing = flows.push(keys, "f", [flows.FlowJob(b"1,1,,;[]")] * 2000, 0)
    call = next(storing)
    for _ in range(2):
        reply = own.lw.runtime.run(_one(call))
        call = storing.send(reply)
    status = own.lw.queue().status()
    assert (status.ready, status.scheduled, status.blocked, status.enqueued) == (0, 0, 0, 0)
    assert own.lw.flow(id="f").inspect().jobs == 2000


def _one(call: Any) -> Any:
    return (yield call)
