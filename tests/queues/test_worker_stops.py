"""The end of `lockwork worker`: SIGTERM drains it, unfinished jobs return, and no process remains."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

from history import History
from ports import free_port
from processes import Started, alive, until, worker
from scraping import answer


def nothing_is_left(app: Any, process: Started, children: list[int]) -> None:
    assert not [child for child in children if alive(child)]
    assert app.lw.queue().status().running == 0
    assert app.lw.queue().workers() == []
    assert "Traceback" not in process.errors


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_stopping_worker_finishes_its_jobs_and_fetches_no_more(
    own: Any, own_url: str, apps: Path, history: History, tmp_path: Path, number: signal.Signals
) -> None:
    gate = tmp_path / "gate"
    with worker("chores:lw", "-c", "2", url=own_url, folder=apps) as process:
        own.gated.enqueue(history.path, str(gate))
        own.gated_in_a_thread.enqueue(history.path, str(gate))
        history.wait(2)
        children = process.children()
        waiting = own.hold.enqueue(history.path, 60)
        process.send(number)
        until(lambda: "stopping" in process.errors, "it stops")
        gate.touch()
        assert process.wait() == 0
        assert len(history.lines("done")) == 2
        assert waiting.state() == "ready"
        assert own.lw.queue().status().ready == 1
        nothing_is_left(own, process, children)


@pytest.mark.parametrize("task", ["hold", "hold_in_a_thread"])
def test_jobs_that_outlast_the_grace_period_are_returned_at_once(
    own: Any, own_url: str, apps: Path, history: History, task: str
) -> None:
    """celery#3802, huey#598, #796, procrastinate#307, rq#507: a deployment lost jobs or held them for hours."""
    with worker("chores:lw", "--grace", "200ms", "--lease", "60s", url=own_url, folder=apps) as process:
        jobs = getattr(own, task).enqueue_many([(history.path,)] * 3)
        history.wait(3)
        children = process.children()
        process.send(signal.SIGTERM)
        assert process.wait() == 0
        assert not history.lines("done")
        assert [job.state() for job in jobs] == ["ready"] * 3
        assert own.lw.queue().status().ready == 3
        nothing_is_left(own, process, children)
    with worker("chores:lw", url=own_url, folder=apps):
        history.wait(6)
        # the returned job kept its attempts, although a job in a thread could only be killed
        assert {line["attempt"] for line in history.lines("ran")[3:]} == {1}


def test_jobs_that_have_not_begun_go_back_in_order(own: Any, own_url: str, apps: Path, history: History) -> None:
    with worker("chores:lw", "--grace", "100ms", "-c", "1", url=own_url, folder=apps) as process:
        own.hold_in_a_thread.enqueue(history.path)
        jobs = own.mark.enqueue_many([(history.path, number) for number in range(5)])
        history.wait(1)
        process.send(signal.SIGTERM)
        assert process.wait() == 0
        assert [job.state() for job in jobs] == ["ready"] * 5
        assert own.lw.queue().status().ready == 6


def test_second_signal_ends_the_worker_at_once(own: Any, own_url: str, apps: Path, history: History) -> None:
    with worker("chores:lw", "--grace", "10m", "--lease", "60s", url=own_url, folder=apps) as process:
        own.hold_in_a_thread.enqueue(history.path)
        history.wait(1)
        children = process.children()
        process.send(signal.SIGTERM)
        until(lambda: "stopping" in process.errors, "it stops")
        assert process.process.poll() is None
        process.send(signal.SIGTERM)
        assert process.wait() in (0, 1)
        assert own.lw.queue().status().ready == 1
        nothing_is_left(own, process, children)


def test_idle_worker_ends_quickly(own: Any, own_url: str, apps: Path) -> None:
    with worker("chores:lw", "--processes", "2", url=own_url, folder=apps) as process:
        until(lambda: len(own.lw.queue().workers()) == 2, "both have joined")
        children = process.children()
        process.send(signal.SIGTERM)
        assert process.wait() == 0
        nothing_is_left(own, process, children)


def test_children_end_with_a_supervisor_that_was_killed(own: Any, own_url: str, apps: Path, history: History) -> None:
    with worker("chores:lw", "--processes", "2", "--lease", "60s", url=own_url, folder=apps) as process:
        own.hold.enqueue_many([(history.path,)] * 4)  # a process may receive returned jobs of the other
        history.wait(4)
        until(lambda: len(process.children()) == 2, "both processes run")
        children = process.children()
        process.send(signal.SIGKILL)
        until(lambda: not any(map(alive, children)), "the children have ended")
        # the processes returned their jobs before the end of their leases
        assert own.lw.queue().status().running == 0
        assert own.lw.queue().status().ready == 4
        assert own.lw.queue().status().recovered >= 4


def test_health_port_reports_liveness_and_readiness(own: Any, own_url: str, apps: Path, history: History) -> None:
    port = free_port()
    with worker("chores:lw", "--health-port", str(port), "--grace", "10m", url=own_url, folder=apps) as process:
        until(lambda: answer(port, "/readyz")[0] == 200, "it is ready")
        assert answer(port, "/livez")[0] == 200
        assert answer(port, "/nothing")[0] == 404
        own.hold_in_a_thread.enqueue(history.path)
        history.wait(1)
        process.send(signal.SIGTERM)
        until(lambda: answer(port, "/readyz")[0] == 503, "it is not ready any more")
        assert answer(port, "/livez")[0] == 200
        process.send(signal.SIGTERM)
        process.wait()
