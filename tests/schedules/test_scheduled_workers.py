"""Schedules with real workers: each slot fires once when workers die, and removed schedules stop."""

from __future__ import annotations

import signal
from datetime import UTC, datetime, timedelta
from pathlib import Path

from history import History
from lockwork import Lockwork
from processes import alive, until, worker

_APPS = Path(__file__).parent / "apps"
_FORM = "second@%Y-%m-%dT%H:%M:%SZ"


def _seconds(history: History) -> list[datetime]:
    return [datetime.strptime(line["id"], _FORM).replace(tzinfo=UTC) for line in history.lines("second")]


def _without_gap(url: str, history: History) -> None:
    """Check that each slot was enqueued once; a job that ran twice has one ID."""
    with Lockwork(url) as lw:
        status, queue = lw.schedule("second").inspect(), lw.queue().status()
    assert status is not None
    assert status.last is not None
    slots = (status.last - min(_seconds(history))).total_seconds() + 1
    assert status.enqueued == slots, "a slot was missed or fired twice"
    assert queue.enqueued == slots, "a slot's job was enqueued twice"
    assert len(set(_seconds(history))) >= slots - queue.ready - queue.running


def test_workers_enqueue_each_slot_once_when_one_dies(own_url: str, history: History) -> None:
    """Celery has one scheduler process; rq-scheduler#312 has two when its lock expires; here each worker has one."""
    with (
        worker("clockwork:lw", url=own_url, folder=_APPS) as one,
        worker("clockwork:lw", url=own_url, folder=_APPS) as two,
    ):
        history.wait(3, "second")
        children = one.children()
        one.send(signal.SIGKILL)
        one.wait()
        seen = len(history.lines("second"))
        history.wait(seen + 3, "second")
        until(lambda: not [child for child in children if alive(child)], "the dead supervisor's children are gone")
        two.send(signal.SIGTERM)
        assert two.wait() == 0
        assert "Traceback" not in two.errors
    _without_gap(own_url, history)


def test_missed_slots_fire_after_all_workers_were_down(own_url: str, history: History) -> None:
    with worker("clockwork:lw", url=own_url, folder=_APPS) as first:
        history.wait(1, "second")
        first.send(signal.SIGTERM)
        assert first.wait() == 0
    before = max(_seconds(history))
    until(lambda: datetime.now(UTC) > before + timedelta(seconds=3), "two slots and more go by")
    with worker("clockwork:lw", url=own_url, folder=_APPS) as again:
        history.wait(4, "second")
        again.send(signal.SIGTERM)
        assert again.wait() == 0
    _without_gap(own_url, history)


def test_paused_schedule_fires_on_demand_only(own_url: str, history: History) -> None:
    with worker("clockwork:lw", url=own_url, folder=_APPS) as process, Lockwork(own_url) as lw:
        history.wait(1, "second")
        ticks, yearly = lw.schedule("second"), lw.schedule("new-year")
        assert ticks.pause()
        status = ticks.inspect()
        assert status is not None
        assert status.paused
        passed = status.next[0]
        until(lambda: datetime.now(UTC) > passed + timedelta(seconds=1), "a slot passes")
        found = ticks.inspect()
        assert found is not None
        assert found.enqueued == status.enqueued
        job = yearly.run_now()
        assert job is not None
        assert job.id.startswith("new-year@")
        assert job.result("20s") == "hello you"
        assert ticks.resume()
        until(lambda: max(_seconds(history)) > passed, "the schedule continues")
        assert passed not in _seconds(history)
        process.send(signal.SIGTERM)
        assert process.wait() == 0


def test_schedule_removed_from_the_code_does_not_fire(own_url: str, history: History) -> None:
    """In celery beat, removed entries stay in the scheduler's database; in rq-scheduler, on the server."""
    with (
        worker("clockwork:lw", url=own_url, folder=_APPS) as old,
        worker("without:lw", url=own_url, folder=_APPS) as new,
    ):
        history.wait(2, "second")
        history.wait(2, "other")
        old.send(signal.SIGTERM)
        assert old.wait() == 0
        seen, others = len(history.lines("second")), len(history.lines("other"))
        history.wait(others + 3, "other")
        # jobs that the old worker had enqueued may still run
        assert len(history.lines("second")) <= seen + 1
        new.send(signal.SIGTERM)
        assert new.wait() == 0


def test_stopping_worker_enqueues_no_more_slots(own_url: str, history: History, tmp_path: Path) -> None:
    """The worker would not run the job, and the next worker's code may not have the schedule."""
    gate = tmp_path / "gate"
    with worker("clockwork:lw", url=own_url, folder=_APPS) as process, Lockwork(own_url) as lw:
        history.wait(1, "second")
        enqueue_gated(lw, gate)
        history.wait(1, "gated")
        process.send(signal.SIGTERM)
        until(lambda: "stopping: " in process.errors, "it stops")
        status = lw.schedule("second").inspect()
        assert status is not None
        until(lambda: datetime.now(UTC) > status.next[0] + timedelta(seconds=1), "two slots pass")
        after = lw.schedule("second").inspect()
        assert after is not None
        assert after.enqueued <= status.enqueued + 1, "one slot may have been in progress"
        gate.touch()
        assert process.wait() == 0


def enqueue_gated(lw: Lockwork, gate: Path) -> None:
    """Enqueue a job that keeps its worker busy until the file exists."""

    @lw.task
    async def gated(path: str) -> None: ...

    gated.enqueue(str(gate))
