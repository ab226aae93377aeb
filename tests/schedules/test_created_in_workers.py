"""Schedules that are created at run time, with real workers that do not have them in their code."""

from __future__ import annotations

import signal
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from history import History
from lockwork import Lockwork, Task
from processes import until, worker

_APPS = Path(__file__).parent / "apps"


def _report(lw: Lockwork) -> Task[[int], Any, Any]:
    @lw.task
    async def report(tenant: int) -> None: ...

    return report


def _ids(history: History) -> list[str]:
    return [str(line["id"]) for line in history.lines("report")]


def test_idle_workers_fire_schedules_that_are_created_and_deleted(own_url: str, history: History) -> None:
    """django-celery-beat needs one beat process, which polls; here all idle workers receive a message."""
    with (
        Lockwork(own_url) as lw,
        worker("tenants:lw", url=own_url, folder=_APPS) as one,
        worker("tenants:lw", url=own_url, folder=_APPS) as two,
    ):
        report = _report(lw)
        report.enqueue(0)
        history.wait(1, "report")
        began = time.monotonic()
        handle = lw.create_schedule(report.call(42), name="report:42", every="1s")
        history.wait(2, "report")
        assert time.monotonic() - began < 2.5, "the first slot is at most 1 s away"
        one.send(signal.SIGKILL)  # the other worker has received the message, too
        one.wait()
        history.wait(5, "report")
        assert handle.delete()
        assert not handle.delete()
        count = len(_ids(history))
        time.sleep(2.2)
        assert len(_ids(history)) <= count + 1, "a job of the last slot may have waited"
        at = datetime.now(UTC) + timedelta(seconds=1)
        lw.create_schedule(report.call(43), name="report:43", at=at)
        until(lambda: any(id.startswith("report:43@") for id in _ids(history)), "one moment fires")
        assert lw.schedules() == []
        two.send(signal.SIGTERM)
        assert two.wait() == 0
        assert "Traceback" not in two.errors
    slots = [id for id in _ids(history) if "@" in id]
    assert len(set(slots)) == len(slots), "each slot ran once"


def test_created_schedule_survives_a_restart_of_all_workers(own_url: str, history: History) -> None:
    with Lockwork(own_url) as lw:
        lw.create_schedule(_report(lw).call(1), name="r", every="1s", misfire="all")
    for _ in range(2):  # an app without the line, and one with other schedules in its code
        for app in ("tenants:lw", "clockwork:lw"):
            word = "report" if app == "tenants:lw" else "second"
            seen = len(history.lines(word))
            with worker(app, url=own_url, folder=_APPS) as process:
                history.wait(seen + 2, word)
                process.send(signal.SIGTERM)
                assert process.wait() == 0
    with Lockwork(own_url) as lw:
        status = lw.schedule("r").inspect()
        assert status is not None
        assert status.created
        assert lw.schedule("r").delete()
    ids = _ids(history)
    assert len(set(ids)) == len(ids)
