"""Runs that are stalled, cancelled, interrupted or reset: their callers, and the result of the period."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import redis

from lockwork import LockLost, Lockwork
from lockwork.errors import LockworkError, OnceFailed
from processes import until
from synchronizers.counted import Counted


@pytest.fixture
def brief(url: str, admin: redis.Redis) -> Iterator[Lockwork]:
    """An app whose leases are short."""
    with Lockwork(url, lock_lease="1s") as app:
        yield app


def test_result_of_a_reset_run_is_returned_but_not_stored(lw: Lockwork) -> None:
    report = lw.once("report")
    later = Counted("later")
    other: list[str] = []

    def make() -> str:
        report.reset()
        thread = threading.Thread(target=lambda: other.append(report.run(later)))
        thread.start()
        thread.join()
        return "first"

    assert report.run(make) == "first"
    assert other == ["later"]
    assert report.run(make) == "later"


def test_run_with_a_lost_lease_does_not_overwrite_another(brief: Lockwork) -> None:
    report = brief.once("report", again_if_lost=True)
    second = Counted("second")

    def make() -> str:
        _stall(brief)
        thread = threading.Thread(target=report.run, args=(second,))
        thread.start()
        thread.join()
        return "first"

    with pytest.raises(LockLost, match="once 'report' lost its lease while it ran: it may have run again"):
        report.run(make)
    assert second.calls == 1
    assert report.run(make) == "second"


def test_run_that_lost_its_lease_may_still_end(brief: Lockwork) -> None:
    """No other caller ran it in between, so its result is the period's."""
    report = brief.once("report")

    def make() -> str:
        _stall(brief)
        until(lambda: report.inspect().state == "lost", "the lease ended")
        with pytest.raises(OnceFailed, match="started in this period and never ended: its runner died"):
            _elsewhere(lambda: report.run(make))
        return "made"

    assert report.run(make) == "made"
    assert report.run(make) == "made"


def _stall(lw: Lockwork) -> None:
    """Stop renewal: the engine forgets its leases, as if this process had stopped."""
    book = lw.runtime.engine._book
    for lease in list(book._leases):
        book.remove(lease)


def _elsewhere(what: Any) -> Any:
    """Run something as another owner; raise its exception."""
    outcomes: list[Any] = []

    def call() -> None:
        try:
            outcomes.append(what())
        except LockworkError as error:
            outcomes.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
    if isinstance(outcomes[0], Exception):
        raise outcomes[0]
    return outcomes[0]


def test_lease_is_renewed_during_the_run(brief: Lockwork, admin: redis.Redis) -> None:
    report = brief.once("report")
    seen: list[str] = []

    def make() -> str:
        key = "lw:{once:report}"
        renewals: set[float] = set()

        def renewed() -> bool:
            renewals.add(float(admin.hget(key, "d") or 0))
            return len(renewals) > 4

        until(renewed, "it was renewed")
        seen.append(report.inspect().state)
        return "made"

    assert report.run(make) == "made"
    assert seen == ["running"]


async def test_cancelled_run_is_lost(alw: Lockwork) -> None:
    report = alw.once("report")
    began = asyncio.Event()

    async def make() -> None:
        began.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(report.arun(make))
    await began.wait()
    waiting = asyncio.create_task(report.arun(make))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    with pytest.raises(OnceFailed, match="never ended: its runner was interrupted") as caught:
        await waiting
    assert caught.value.type == "CancelledError"
    assert await alw.once("report", again_if_lost=True).arun(Counted("again")) == "again"
    assert await report.arun(Counted("never")) == "again"


async def test_cancelled_wait_has_no_effect(alw: Lockwork) -> None:
    report = alw.once("report")
    began, go = asyncio.Event(), asyncio.Event()

    async def make() -> str:
        began.set()
        await go.wait()
        return "made"

    task = asyncio.create_task(report.arun(make))
    await began.wait()
    waiting = asyncio.create_task(report.arun(make))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    go.set()
    assert await task == "made"


async def test_cancelled_thread_ends_before_its_run_is_lost(alw: Lockwork) -> None:
    report = alw.once("report")
    began, go = threading.Event(), threading.Event()

    def make() -> str:
        began.set()
        assert go.wait(20)
        return "made"

    task = asyncio.create_task(report.arun(make))
    assert await asyncio.to_thread(began.wait, 20)
    task.cancel()
    await asyncio.sleep(0)
    assert (await report.ainspect()).state == "running"
    go.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await report.ainspect()).state == "lost"


def test_interrupted_run_is_lost(lw: Lockwork) -> None:
    report = lw.once("report")
    with pytest.raises(KeyboardInterrupt):
        report.run(Counted(KeyboardInterrupt()))
    with pytest.raises(OnceFailed, match="its runner was interrupted"):
        report.run(Counted())
