"""Flows across queues end although workers of each queue, which also relay the messages, are killed at random."""

from __future__ import annotations

import os
import random
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from history import History
from processes import Started, until, worker

_CHORDS, _SIZE, _KILLS = 5, 10, 5


def _kill(workers: list[Started], history: History, done: Callable[[], bool], rng: random.Random) -> int:
    """Kill the processes of one worker with -9 each time several more jobs have run; return the number of kills."""
    killed = 0
    for _ in range(_KILLS):
        more = len(history.lines()) + rng.randint(4, 12)
        until(lambda more=more: len(history.lines()) >= more or done(), "the jobs continue")  # type: ignore[misc]
        pids = [] if done() else rng.choice(workers).children()
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        killed += len(pids)
    return killed


def test_flows_across_queues_complete_while_workers_are_killed(
    idle: Any, own_url: str, apps: Path, history: History
) -> None:
    runs = []
    for chord in range(_CHORDS):
        flow = idle.lw.flow()
        header = [
            flow.add((idle.slow, idle.slow_elsewhere)[n % 2].call(history.path, f"{chord}.{n}")) for n in range(_SIZE)
        ]
        callback = flow.add(idle.gathered.call(history.path, f"callback {chord}", header))
        flow.add(idle.slow.call(history.path, f"{chord}.end"), after=[callback])
        runs.append(flow.returning(callback).enqueue())

    def done() -> bool:
        return all(run.inspect().state == "succeeded" for run in runs)

    options = ("--processes", "2", "--lease", "1", "--concurrency", "4")
    with (
        worker("crossing:lw", *options, "-q", "home", url=own_url, folder=apps) as one,
        worker("crossing:lw", *options, "-q", "other", url=own_url, folder=apps) as two,
    ):
        history.wait(1)
        killed = _kill([one, two], history, done, random.Random(1))
        until(done, "all flows have ended")
    assert killed, "no process was killed"
    assert [run.result(0) for run in runs] == [f"callback {chord}" for chord in range(_CHORDS)]
    lines = history.lines()
    for at, line in enumerate(lines):
        before = {other["name"] for other in lines[:at] if other["event"] == "done"}
        chord, _, last = line["name"].removeprefix("callback ").partition(".")
        if line["name"].startswith("callback"):
            assert {f"{chord}.{n}" for n in range(_SIZE)} <= before, "a callback ran before its group had ended"
        elif last == "end":
            assert f"callback {chord}" in {other["name"] for other in lines[:at]}
    attempts = Counter(line["name"] for line in lines if line["event"] == "ran")
    again = sum(count - 1 for count in attempts.values())
    assert again <= killed * 4, "a job runs again only for a worker that was killed"
    for queue in ("home", "other"):
        status = idle.lw.queue(queue).status()
        assert (status.ready, status.scheduled, status.running, status.blocked) == (0, 0, 0, 0)
    for run in runs:
        assert {job.queue for job in run.jobs()} == {"home", "other"}
        assert all(job.state() == "succeeded" for job in run.jobs())


def test_flow_of_thousands_of_jobs_across_queues_completes(idle: Any, own_url: str, apps: Path) -> None:
    calls = [(idle.number, idle.double)[n % 2].call(n) for n in range(4000)]
    run = idle.lw.chord(calls, idle.total).enqueue()
    with worker("crossing:lw", "--concurrency", "100", url=own_url, folder=apps):
        assert run.result(60) == sum(n * (1 + n % 2) for n in range(4000))
    assert run.inspect().succeeded == 4001


def test_thousands_of_dependents_elsewhere_are_cancelled(idle: Any, own_url: str, apps: Path) -> None:
    flow = idle.lw.flow()
    first = flow.add(idle.number.options(delay="1h").call(1))
    flow.group(idle.double.call(first) for _ in range(4000))
    run = flow.enqueue()
    assert idle.lw.queue("other").status().blocked == 4000
    assert run.job(first).cancel()
    with worker("crossing:lw", url=own_url, folder=apps):
        until(lambda: run.inspect().cancelled == 4001, "all are cancelled")
        until(lambda: idle.lw.queue("other").status().blocked == 0, "their queue knows")
    assert run.inspect().state == "cancelled"
