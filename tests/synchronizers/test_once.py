"""At most once per period: who runs it, what everybody else gets, and what happens when the runner fails or dies."""

from __future__ import annotations

import asyncio
import pickle
import threading
from collections.abc import Iterator
from datetime import date
from typing import Any

import pytest
import redis

from lockwork import ConfigError, LockLost, Lockwork, PayloadTooLarge
from lockwork.errors import BlockingCallError, LockworkError, OnceFailed, WaitTimeout
from processes import until


@pytest.fixture
def brief(url: str, admin: redis.Redis) -> Iterator[Lockwork]:
    """An app whose leases are short."""
    with Lockwork(url, lock_lease="300ms") as app:
        yield app


class Counted:
    """A function that counts its calls."""

    def __init__(self, result: object = "made") -> None:
        self.calls = 0
        self.result = result

    def __call__(self, *args: object) -> Any:
        self.calls += 1
        if isinstance(self.result, BaseException):
            raise self.result
        return self.result


def test_the_first_runs_it_and_the_others_get_its_result(lw: Lockwork) -> None:
    make = Counted({"rows": [1, 2]})
    report = lw.once("report", every="1h")
    assert [report.run(make) for _ in range(3)] == [{"rows": [1, 2]}] * 3
    assert make.calls == 1
    status = report.peek()
    assert (status.state, status.fence > 0, 3500 < status.ends_in <= 3600) == ("done", True, True)
    assert lw.once("other").run(make) == {"rows": [1, 2]}
    assert make.calls == 2


async def test_the_same_for_a_task(alw: Lockwork) -> None:
    report = alw.once("report")
    calls = 0

    async def make(day: int) -> int:
        nonlocal calls
        calls += 1
        await asyncio.sleep(0)
        return day

    assert len(set(await asyncio.gather(*(report.arun(make, day) for day in (7, 8, 9))))) == 1
    assert calls == 1
    assert (await report.apeek()).state == "done"
    await report.areset()
    assert (await report.apeek()).state == "idle"
    plain = Counted(5)
    assert await report.arun(plain) == 5
    assert plain.calls == 1


def test_the_period_begins_when_the_run_begins(lw: Lockwork) -> None:
    make = Counted()
    tick = lw.once("tick", every="50ms")
    assert tick.run(make) == "made"
    until(lambda: tick.peek().state == "idle", "the period ended")
    assert tick.run(make) == "made"
    assert make.calls == 2


def test_a_failure_is_kept_too(lw: Lockwork) -> None:
    make = Counted(KeyError("day"))
    report = lw.once("report")
    with pytest.raises(KeyError):
        report.run(make)
    with pytest.raises(OnceFailed, match="once 'report' failed in this period: KeyError: 'day'") as caught:
        report.run(make)
    assert (caught.value.type, caught.value.text) == ("KeyError", "'day'")
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    assert make.calls == 1
    assert report.peek().state == "failed"


def test_who_comes_while_it_runs_waits_for_it(lw: Lockwork) -> None:
    inside, go = threading.Event(), threading.Event()
    got: list[str] = []

    def make() -> str:
        inside.set()
        assert go.wait(20)
        return "made"

    report = lw.once("report")
    threads = [threading.Thread(target=lambda: got.append(report.run(make))) for _ in range(4)]
    for thread in threads:
        thread.start()
    assert inside.wait(20)
    assert report.peek().state == "running"
    holder = report.peek().holder
    assert holder is not None
    assert holder.label.startswith("Thread")
    with pytest.raises(WaitTimeout, match="once 'report' runs elsewhere; this caller does not wait any more"):
        lw.once("report", wait=0).run(make)
    with pytest.raises(WaitTimeout, match=r"and did not end within 0\.05 s"):
        lw.once("report", wait="50ms").run(make)
    go.set()
    for thread in threads:
        thread.join()
    assert got == ["made"] * 4


async def test_waiters_are_woken_not_polling(alw: Lockwork, admin: redis.Redis) -> None:
    go = asyncio.Event()

    async def make() -> str:
        await go.wait()
        return "made"

    report = alw.once("report")
    tasks = [asyncio.create_task(report.arun(make)) for _ in range(30)]
    while sum(str(field).startswith("b'w") for field in admin.hkeys("lw:{once:report}")) < 29:
        await asyncio.sleep(0.005)
    go.set()
    async with asyncio.timeout(4):
        assert await asyncio.gather(*tasks) == ["made"] * 30


def test_reset_forgets_the_period(lw: Lockwork) -> None:
    make = Counted()
    report = lw.once("report")
    report.reset()
    report.run(make)
    report.reset()
    assert report.peek().state == "idle"
    report.run(make)
    assert make.calls == 2


def test_a_reset_while_it_runs(lw: Lockwork) -> None:
    """The run goes on, and its result is neither kept nor an error."""
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


def test_a_run_that_lost_its_lease_stores_nothing_over_another(brief: Lockwork) -> None:
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


def test_a_run_that_lost_its_lease_may_still_end(brief: Lockwork) -> None:
    """Nobody ran it again in between, so its result is the period's."""
    report = brief.once("report")

    def make() -> str:
        _stall(brief)
        until(lambda: report.peek().state == "lost", "the lease ended")
        with pytest.raises(OnceFailed, match="was begun in this period and never ended: its runner died"):
            _elsewhere(lambda: report.run(make))
        return "made"

    assert report.run(make) == "made"
    assert report.run(make) == "made"


def _stall(lw: Lockwork) -> None:
    """Let nobody renew any more: the engine forgets its leases, as if this process had stopped."""
    lw.runtime.engine._book.clear()


def _elsewhere(what: Any) -> Any:
    """Run something as another owner; raises what it raises."""
    found: list[Any] = []

    def call() -> None:
        try:
            found.append(what())
        except LockworkError as error:
            found.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
    if isinstance(found[0], Exception):
        raise found[0]
    return found[0]


def test_its_lease_is_kept_while_it_runs(brief: Lockwork, admin: redis.Redis) -> None:
    report = brief.once("report")
    seen: list[str] = []

    def make() -> str:
        key = "lw:{once:report}"
        renewals: set[float] = set()

        def renewed() -> bool:
            renewals.add(float(admin.hget(key, "d") or 0))
            return len(renewals) > 4

        until(renewed, "it was renewed")
        seen.append(report.peek().state)
        return "made"

    assert report.run(make) == "made"
    assert seen == ["running"]


async def test_a_cancelled_run_is_lost(alw: Lockwork) -> None:
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


async def test_a_cancelled_wait_changes_nothing(alw: Lockwork) -> None:
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


async def test_a_cancelled_thread_ends_first(alw: Lockwork) -> None:
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
    assert (await report.apeek()).state == "running"
    go.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await report.apeek()).state == "lost"


def test_a_run_that_is_interrupted(lw: Lockwork) -> None:
    report = lw.once("report")
    with pytest.raises(KeyboardInterrupt):
        report.run(Counted(KeyboardInterrupt()))
    with pytest.raises(OnceFailed, match="its runner was interrupted"):
        report.run(Counted())


def test_it_does_not_wait_for_itself(lw: Lockwork) -> None:
    report = lw.once("report")
    with pytest.raises(OnceFailed, match="would wait for itself"):
        report.run(lambda: report.run(Counted()))


def test_a_result_that_cannot_be_kept(url: str, admin: redis.Redis) -> None:
    with Lockwork(url, max_result=100) as lw:
        with pytest.raises(ConfigError, match="the result cannot be sent as JSON"):
            lw.once("a").run(Counted(object()))
        with pytest.raises(OnceFailed, match="ConfigError: the result cannot"):
            lw.once("a").run(Counted(1))
        with pytest.raises(PayloadTooLarge):
            lw.once("b").run(Counted("x" * 200))
        assert lw.once("b").peek().state == "failed"


def test_results_are_given_as_the_function_says(lw: Lockwork) -> None:
    def day() -> date:
        return date(2026, 11, 21)

    assert [lw.once("day").run(day) for _ in range(2)] == [date(2026, 11, 21)] * 2


def test_a_decorated_function(lw: Lockwork) -> None:
    calls: list[tuple[str, int]] = []

    @lw.once("report:{day}:{user[id]}", every="1d")
    def report(day: str, user: dict[str, int], *, copies: int = 1) -> str:
        calls.append((day, user["id"]))
        return f"{day} {copies}"

    assert report("mon", {"id": 7}, copies=2) == "mon 2"
    assert report(day="mon", user={"id": 7}) == "mon 2"
    assert report("tue", {"id": 7}) == "tue 1"
    assert calls == [("mon", 7), ("tue", 7)]
    assert lw.once("report:mon:7").peek().state == "done"
    with pytest.raises(ConfigError, match="unless it decorates a function"):
        lw.once("report:{day}").peek()
    with pytest.raises(ConfigError, match="names a parameter that the function lacks"):
        lw.once("report:{dya}")(report)


async def test_a_decorated_coroutine_function(alw: Lockwork) -> None:
    @alw.once("push:{user}")
    async def push(user: int) -> int:
        return user

    assert [await push(1), await push(user=1), await push(2)] == [1, 1, 2]


def test_what_cannot_be_asked(lw: Lockwork) -> None:
    async def make() -> None: ...

    with pytest.raises(ConfigError, match=r"is a coroutine function: await arun\(\.\.\.\) instead"):
        lw.once("a").run(make)  # type: ignore[unused-coroutine]
    with pytest.raises(ConfigError, match="every must be more than 0"):
        lw.once("a", every=0)
    with pytest.raises(ConfigError, match="wait must be between 0"):
        lw.once("a", wait=-1)
    with pytest.raises(ConfigError, match="a once's name must be"):
        lw.once("a b")
    with pytest.raises(ConfigError, match="decorates functions that return their result"):

        @lw.once("a")
        def numbers() -> Iterator[int]:
            yield 1


async def test_the_sync_call_in_a_loop_is_an_error(alw: Lockwork) -> None:
    with pytest.raises(BlockingCallError):
        alw.once("a").run(Counted())


def test_everything_expires(lw: Lockwork, admin: redis.Redis) -> None:
    lw.once("a", every="1h").run(Counted())
    lw.once("b").run(Counted())
    lw.once("b").reset()
    assert 3600 < admin.ttl("lw:{once:a}") < 3700
    assert 0 < admin.ttl("lw:{once:b}") < 100
