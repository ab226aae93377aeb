"""Schedules with real workers: each slot once, whoever of them dies, and nothing of what left the code."""

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
    """A job that ran twice because its worker was killed has one id all the same."""
    with Lockwork(url) as lw:
        status, queue = lw.schedule("second").inspect(), lw.queue().status()
    assert status is not None
    assert status.last is not None
    slots = (status.last - min(_seconds(history))).total_seconds() + 1
    assert status.enqueued == slots, "a slot was left out, or came twice"
    assert queue.enqueued == slots, "a slot's job was there already"
    assert len(set(_seconds(history))) >= slots - queue.ready - queue.running


def test_two_workers_enqueue_each_slot_once_and_one_may_die(own_url: str, history: History) -> None:
    """Celery's scheduler is one process; rq-scheduler#312: two, when its lock runs out. Here every worker is one."""
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


def test_missed_slots_are_made_up_after_all_workers_were_down(own_url: str, history: History) -> None:
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


def test_a_paused_schedule_is_quiet_in_all_workers_and_runs_on_demand(own_url: str, history: History) -> None:
    with worker("clockwork:lw", url=own_url, folder=_APPS) as process, Lockwork(own_url) as lw:
        history.wait(1, "second")
        ticks, yearly = lw.schedule("second"), lw.schedule("new-year")
        assert ticks.pause()
        status = ticks.inspect()
        assert status is not None
        assert status.paused
        passed = status.next[0]
        until(lambda: datetime.now(UTC) > passed + timedelta(seconds=1), "a slot of it goes by")
        found = ticks.inspect()
        assert found is not None
        assert found.enqueued == status.enqueued
        job = yearly.run_now()
        assert job is not None
        assert job.id.startswith("new-year@")
        assert job.result("20s") == "hello you"
        assert ticks.resume()
        until(lambda: max(_seconds(history)) > passed, "it goes on")
        assert passed not in _seconds(history)
        process.send(signal.SIGTERM)
        assert process.wait() == 0


def test_a_schedule_removed_from_the_code_does_not_fire(own_url: str, history: History) -> None:
    """In celery beat a removed entry stays in the scheduler's own database; in rq-scheduler, in the server's."""
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
        # what the old one had enqueued may still have run
        assert len(history.lines("second")) <= seen + 1
        new.send(signal.SIGTERM)
        assert new.wait() == 0


def test_a_stopping_worker_enqueues_no_more_slots(own_url: str, history: History, tmp_path: Path) -> None:
    """Nobody would run it there, and the next worker's code may not have the schedule any more."""
    gate = tmp_path / "gate"
    with worker("clockwork:lw", url=own_url, folder=_APPS) as process, Lockwork(own_url) as lw:
        history.wait(1, "second")
        enqueue_gated(lw, gate)
        history.wait(1, "gated")
        process.send(signal.SIGTERM)
        until(lambda: "stopping: " in process.errors, "it stops")
        status = lw.schedule("second").inspect()
        assert status is not None
        until(lambda: datetime.now(UTC) > status.next[0] + timedelta(seconds=1), "two slots go by")
        after = lw.schedule("second").inspect()
        assert after is not None
        assert after.enqueued <= status.enqueued + 1, "but one that was on its way"
        gate.touch()
        assert process.wait() == 0


def enqueue_gated(lw: Lockwork, gate: Path) -> None:
    """A job that keeps its worker until the file is there."""

    @lw.task
    async def gated(path: str) -> None: ...

    gated.enqueue(str(gate))
