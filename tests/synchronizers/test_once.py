"""At most one run per period: its runner, and the result for other callers."""

from __future__ import annotations

import asyncio
import pickle
import threading
from typing import cast

import pytest
import redis

from commandstats import script_calls
from lockwork import Lockwork
from lockwork.errors import OnceFailed, WaitTimeout
from processes import until
from synchronizers.counted import Counted


def test_first_caller_runs_it_and_others_get_its_result(lw: Lockwork) -> None:
    make = Counted({"rows": [1, 2]})
    report = lw.once("report", every="1h")
    assert [report.run(make) for _ in range(3)] == [{"rows": [1, 2]}] * 3
    assert make.calls == 1
    status = report.inspect()
    assert (status.state, status.fence > 0, 3500 < status.ends_in <= 3600) == ("done", True, True)
    assert lw.once("other").run(make) == {"rows": [1, 2]}
    assert make.calls == 2


async def test_asyncio_callers_share_one_run(alw: Lockwork) -> None:
    report = alw.once("report")
    calls = 0

    async def make(day: int) -> int:
        nonlocal calls
        calls += 1
        await asyncio.sleep(0)
        return day

    assert len(set(await asyncio.gather(*(report.arun(make, day) for day in (7, 8, 9))))) == 1
    assert calls == 1
    assert (await report.ainspect()).state == "done"
    await report.areset()
    assert (await report.ainspect()).state == "idle"
    plain = Counted(5)
    assert await report.arun(plain) == 5
    assert plain.calls == 1


def test_period_begins_when_the_run_begins(lw: Lockwork) -> None:
    make = Counted()
    tick = lw.once("tick", every="50ms")
    assert tick.run(make) == "made"
    until(lambda: tick.inspect().state == "idle", "the period ended")
    assert tick.run(make) == "made"
    assert make.calls == 2


def test_failure_is_stored(lw: Lockwork) -> None:
    make = Counted(KeyError("day"))
    report = lw.once("report")
    with pytest.raises(KeyError):
        report.run(make)
    with pytest.raises(OnceFailed, match="once 'report' failed in this period: KeyError: 'day'") as caught:
        report.run(make)
    assert (caught.value.type, caught.value.text) == ("KeyError", "'day'")
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    assert make.calls == 1
    assert report.inspect().state == "failed"


def test_caller_during_a_run_waits_for_it(lw: Lockwork) -> None:
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
    assert report.inspect().state == "running"
    holder = report.inspect().holder
    assert holder is not None
    assert holder.label.startswith("Thread")
    with pytest.raises(WaitTimeout, match="once 'report' runs elsewhere; this caller stopped waiting"):
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
    before = script_calls(admin)
    tasks = [asyncio.create_task(report.arun(make)) for _ in range(30)]

    def waiting() -> list[bytes]:
        return [field for field in cast("list[bytes]", admin.hkeys("lw:{once:report}")) if field.startswith(b"w")]

    while script_calls(admin) < before + 29 or not waiting():
        await asyncio.sleep(0.005)
    # one field for all that wait in this process
    assert waiting() == [b"w" + alw.runtime.channel.encode()]
    go.set()
    async with asyncio.timeout(4):
        assert await asyncio.gather(*tasks) == ["made"] * 30


def test_reset_forgets_the_period(lw: Lockwork) -> None:
    make = Counted()
    report = lw.once("report")
    report.reset()
    report.run(make)
    report.reset()
    assert report.inspect().state == "idle"
    report.run(make)
    assert make.calls == 2


def test_nested_call_does_not_wait_for_its_own_run(lw: Lockwork) -> None:
    report = lw.once("report")
    with pytest.raises(OnceFailed, match="would wait for itself"):
        report.run(lambda: report.run(Counted()))


def test_everything_expires(lw: Lockwork, admin: redis.Redis) -> None:
    lw.once("a", every="1h").run(Counted())
    lw.once("b").run(Counted())
    lw.once("b").reset()
    assert 3600 < admin.ttl("lw:{once:a}") < 3700
    assert 0 < admin.ttl("lw:{once:b}") < 100
