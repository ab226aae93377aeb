"""A limiter when calls are lost, callers are cancelled, and keys are not ours."""

from __future__ import annotations

import asyncio
import contextlib
import threading

import pytest
import redis

from indexed import keys_but_indexes
from lockwork import Lockwork
from lockwork.errors import ServerRefused
from lockwork.protocol.scripts import script
from lockwork.protocol.synchronizers.limiter import Algorithm
from processes import until
from proxy import Phase, Proxy

both = pytest.mark.parametrize("algorithm", ["bucket", "window"])
phases = pytest.mark.parametrize("phase", ["request", "reply"])


@both
@phases
def test_repeated_call_takes_units_once(lw: Lockwork, proxy: Proxy, phase: Phase, algorithm: Algorithm) -> None:
    seen = lw.limiter("api", "10/h", algorithm=algorithm)
    with Lockwork(proxy.url) as app:
        api = app.limiter("api", "10/h", algorithm=algorithm)
        assert api.try_acquire()
        proxy.lose(script("synchronizers/limiter_take").sha, phase)
        api.acquire(2)
        assert proxy.lost == 1
        assert seen.inspect().available == 7


@phases
async def test_repeated_async_call_takes_units_once(alw: Lockwork, proxy: Proxy, phase: Phase) -> None:
    async with Lockwork(proxy.url) as app:
        api = app.limiter("api", "10/h")
        assert await api.atry_acquire()
        proxy.lose(script("synchronizers/limiter_take").sha, phase)
        await api.aacquire(2)
        assert (await alw.limiter("api", "10/h").ainspect()).available == 7


async def cancelled(task: asyncio.Task[None]) -> bool:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
        return False
    return True


@both
async def test_cancelled_at_every_turn_of_the_loop_it_gives_back(alw: Lockwork, algorithm: Algorithm) -> None:
    api = alw.limiter("api", "100/h", algorithm=algorithm)
    await api.ainspect()
    kept = turns = 0
    while kept < 3:
        task = asyncio.create_task(api.aacquire())
        for _ in range(turns):
            await asyncio.sleep(0)
        kept += not await cancelled(task)
        assert (await api.ainspect()).available == 100 - kept
        turns += 1


@both
async def test_cancelled_waiters_free_their_places(alw: Lockwork, algorithm: Algorithm) -> None:
    api = alw.limiter("api", "2/h", algorithm=algorithm)
    await api.aacquire(2)
    before = (await api.ainspect()).full_in
    tasks = [asyncio.create_task(api.aacquire()) for _ in range(5)]
    while (await api.ainspect()).full_in < before + 5000:
        await asyncio.sleep(0)
    for task in reversed(tasks):
        assert await cancelled(task)
    assert (await api.ainspect()).full_in <= before


@both
async def test_timed_out_callers_block_no_other_caller(alw: Lockwork, algorithm: Algorithm) -> None:
    """300 callers leave in the order of arrival, so no later caller waits for their units."""
    api = alw.limiter("api", "10/h", algorithm=algorithm)
    await api.aacquire(10)
    before = (await api.ainspect()).full_in
    tasks = [asyncio.create_task(api.aacquire()) for _ in range(300)]
    while (await api.ainspect()).full_in < before + (299.5 * 360 if algorithm == "bucket" else 90_000):
        await asyncio.sleep(0)
    for task in tasks:
        assert await cancelled(task)
    assert (await api.ainspect()).full_in <= before


@both
async def test_remaining_callers_move_up_when_others_leave(
    alw: Lockwork, admin: redis.Redis, algorithm: Algorithm
) -> None:
    api = alw.limiter("api", "10/s", burst=1 if algorithm == "bucket" else None, algorithm=algorithm)
    used = 1 if algorithm == "bucket" else 10
    await api.aacquire(used)
    loop = asyncio.get_running_loop()
    began = loop.time()
    leaving = [asyncio.create_task(api.aacquire()) for _ in range(60)]
    await asyncio.sleep(0)
    ended: list[float] = []

    async def stay() -> None:
        await api.aacquire()
        ended.append(loop.time() - began)

    staying = [asyncio.create_task(stay()) for _ in range(3)]
    while admin.zcard("lw:{limiter:api}:log") < 1 + 60 + 3:
        await asyncio.sleep(0)
    for task in leaving:
        await cancelled(task)
    await asyncio.gather(*staying)
    earliest = [0.1, 0.2, 0.3] if algorithm == "bucket" else [1.0, 1.0, 1.0]
    assert all(least - 0.02 < at < least + 2 for least, at in zip(earliest, ended, strict=True)), ended


async def test_callers_moving_up_keep_rate_and_order(alw: Lockwork, admin: redis.Redis) -> None:
    """Every other caller leaves, among them some that take more than one unit."""
    wide = alw.limiter("wide", "10/s", burst=3)
    loop = asyncio.get_running_loop()
    began = loop.time()
    await wide.aacquire(3)
    ended: list[tuple[float, int]] = []

    async def stay(number: int) -> None:
        await wide.aacquire(1 + number % 2)
        ended.append((loop.time(), number))

    leaving, staying = [], []
    for number in range(10):
        leaving.append(asyncio.create_task(wide.aacquire(1 + number % 3)))
        await asyncio.sleep(0)
        staying.append(asyncio.create_task(stay(number)))
        await asyncio.sleep(0)
    while admin.zcard("lw:{limiter:wide}:log") < 1 + 20:
        await asyncio.sleep(0)
    for task in leaving:
        await cancelled(task)
    await asyncio.gather(*staying)
    assert [number for _, number in ended] == list(range(10))
    assert 1.4 < ended[-1][0] - began < 3.3, "15 units at 10 a second, not 34"


async def test_freed_slot_goes_to_next_waiter(alw: Lockwork, admin: redis.Redis) -> None:
    """The next caller gets the place after the last waiter, without exceeding the rate."""
    api = alw.limiter("api", "10/s", burst=1)
    await api.aacquire()
    loop = asyncio.get_running_loop()
    began = loop.time()
    first = asyncio.create_task(api.aacquire())
    await asyncio.sleep(0)
    second = asyncio.create_task(api.aacquire())
    while admin.zcard("lw:{limiter:api}:log") < 3:
        await asyncio.sleep(0)
    await cancelled(first)
    await api.aacquire()
    assert second.done()
    assert loop.time() - began > 0.18
    await second


def test_ctrl_c_while_waiting_removes_the_waiter(lw: Lockwork, url: str) -> None:
    api = lw.limiter("api", "1/h")
    api.acquire()
    before = api.inspect().full_in

    async def main() -> None:
        async with Lockwork(url) as mine:
            task = asyncio.current_task()
            assert task is not None
            threading.Timer(0.05, asyncio.get_running_loop().call_soon_threadsafe, [task.cancel]).start()
            await mine.limiter("api", "1/h").aacquire()

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(main())
    assert api.inspect().full_in <= before


@pytest.mark.parametrize("at", [0, 1])
def test_foreign_key_is_refused_without_partial_effects(lw: Lockwork, admin: redis.Redis, at: int) -> None:
    key = ["lw:{limiter:api}", "lw:{limiter:api}:log"][at]
    admin.set(key, "text", ex=100)
    api = lw.limiter("api", "1/s")
    for call in (api.acquire, api.try_acquire, api.inspect):
        with pytest.raises(ServerRefused, match="data of another program"):
            call()
    assert keys_but_indexes(admin) == [key.encode()]


@both
@pytest.mark.parametrize("key", ["lw:{limiter:api}", "lw:{limiter:api}:log"])
def test_limiter_continues_after_losing_a_key(lw: Lockwork, admin: redis.Redis, key: str, algorithm: Algorithm) -> None:
    """After an eviction or manual deletion, usage may be forgotten, but no call fails and each key expires."""
    api = lw.limiter("api", "20/h", algorithm=algorithm)
    for _ in range(10):
        api.acquire()
    admin.delete(key)
    assert 10 <= api.inspect().available <= 20
    for _ in range(10):
        assert api.try_acquire()
    assert api.inspect().available <= 10
    assert all(admin.ttl(name) > 0 for name in keys_but_indexes(admin))


def test_slot_is_freed_when_server_is_out_of_memory(lw: Lockwork, admin: redis.Redis) -> None:
    api = lw.limiter("api", "2/h")
    api.acquire(2)
    before = api.inspect().full_in
    failed = threading.Event()

    async def main() -> None:
        task = asyncio.create_task(api.aacquire())
        while (await api.ainspect()).full_in < before + 1000:
            await asyncio.sleep(0)
        admin.config_set("maxmemory", 1)
        await cancelled(task)
        failed.set()
        await lw.aclose()

    try:
        asyncio.run(main())
        assert failed.is_set()
        with pytest.raises(ServerRefused, match="out of memory"):
            api.acquire()
    finally:
        admin.config_set("maxmemory", 0)
    until(lambda: api.inspect().full_in <= before, "it was given back")
