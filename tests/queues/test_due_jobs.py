"""A scheduled job that is due counts as ready in every view, even before a worker moves it."""

from __future__ import annotations

from typing import Any

import pytest

from lockwork import Lockwork
from processes import until


@pytest.fixture(params=[1, 3], ids=["one queue", "partitions"])
def app(request: pytest.FixtureRequest, app_url: str, admin: object) -> Any:
    with Lockwork(app_url, partitions={"mail": request.param}) as made:
        yield made


def test_due_job_is_ready_in_every_view(app: Lockwork) -> None:
    @app.task(queue="mail")
    def send(number: int) -> None: ...

    queue = app.queue("mail")
    now = [send.enqueue(number).id for number in range(4)]
    later = [send.options(delay="1h").enqueue(number).id for number in range(3)]
    came = [send.options(delay=0.05).enqueue(number) for number in range(5)]
    until(lambda: queue.status().ready == 9, "their time has come")
    assert queue.status().scheduled == 3

    due = [job.id for job in came]
    assert {job.state() for job in came} == {"ready"}
    assert {job.inspect().state for job in came} == {"ready"}
    assert {app.job(id).state() for id in later} == {"scheduled"}
    assert sorted(job.id for job in queue.peek(100)) == sorted(now + due)
    assert all(job.due_in is None for job in queue.peek(100))
    assert sorted(job.id for job in queue.peek(100, place="scheduled")) == sorted(later)
    for state, ids in (("ready", now + due), ("scheduled", later)):
        found: Any = app.jobs("mail", state=state)  # type: ignore[arg-type]
        assert sorted(row.id for row in found.jobs) == sorted(ids)
        assert {row.state for row in found.jobs} == {state}
        assert found.total == len(ids)
    assert app.jobs("mail").total == 12
    assert [row.id for row in app.jobs("mail", state="ready", arg="4").jobs] == [came[4].id]


def test_pages_list_each_due_job_once(app: Lockwork) -> None:
    @app.task(queue="mail")
    def send(number: int) -> None: ...

    queue = app.queue("mail")
    ids = [send.enqueue(number).id for number in range(3)]
    ids += [send.options(delay=0.01 + number / 1000).enqueue(number).id for number in range(6)]
    later = [send.options(delay=3600 + number).enqueue(number).id for number in range(5)]
    until(lambda: queue.status().ready == 9, "their time has come")
    for place, wanted in (("ready", ids), ("scheduled", later)):
        seen = [job.id for skip in range(0, 12, 2) for job in queue.peek(2, place=place, skip=skip)]  # type: ignore[arg-type]
        assert sorted(seen) == sorted(wanted)
    for state, wanted in (("ready", ids), ("scheduled", later), (None, ids + later)):
        for newest in (True, False):
            seen, after = [], None
            while True:
                page: Any = app.jobs("mail", state=state, limit=2, after=after, newest=newest)  # type: ignore[arg-type]
                seen += [row.id for row in page.jobs]
                if page.next is None:
                    break
                after = page.next
            assert sorted(seen) == sorted(wanted)
    assert queue.clear() == 14
    assert queue.peek(100) == []


def test_due_job_can_be_cancelled_and_rescheduled(app: Lockwork) -> None:
    @app.task(queue="mail")
    def send(number: int) -> None: ...

    first, second = (send.options(delay=0.01).enqueue(number) for number in range(2))
    until(lambda: app.queue("mail").status().ready == 2, "their time has come")
    assert first.cancel()
    assert second.reschedule(delay="1h")
    assert (first.state(), second.state()) == ("cancelled", "scheduled")
    assert app.queue("mail").status().scheduled == 1
