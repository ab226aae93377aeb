"""Rate limits of threads and tasks: grants, waits and refusals."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import redis

from commandstats import script_calls
from lockwork import Lockwork, words
from lockwork.errors import ConfigError, RateLimited
from lockwork.protocol.synchronizers.limiter import Algorithm
from lockwork.runtime.clock import now
from lockwork.synchronizers.limiter import Limiter
from processes import until

ALGORITHMS: tuple[Algorithm, ...] = ("bucket", "window")

both = pytest.mark.parametrize("algorithm", ALGORITHMS)


@both
def test_as_many_as_the_rate_at_once_and_then_none(lw: Lockwork, algorithm: Algorithm) -> None:
    api = lw.limiter("api", "5/h", algorithm=algorithm)
    assert api.inspect().available == api.inspect().limit == 5
    assert api.inspect().full_in == 0
    assert [api.try_acquire() for _ in range(7)] == [True] * 5 + [False] * 2
    status = api.inspect()
    assert status.available == 0
    assert 3500 < status.full_in <= 3600


def test_burst_is_available_at_once(lw: Lockwork) -> None:
    api = lw.limiter("api", "36/h", burst=3)
    assert [api.try_acquire() for _ in range(4)] == [True] * 3 + [False]
    with pytest.raises(RateLimited) as refused:
        api.acquire(3, wait="500ms")
    assert 200 < refused.value.retry_after <= 300
    assert refused.value.args[0] == (
        f"3 units of limiter 'api' (36/h, burst 3): no free units within the wait; "
        f"try again in {words.time_left(refused.value.retry_after)}"
    )


def test_refused_call_takes_no_units(lw: Lockwork) -> None:
    api = lw.limiter("api", "4/h", algorithm="window")
    assert api.try_acquire(3)
    assert not api.try_acquire(2)
    assert api.try_acquire(1)


@both
def test_waiter_continues_in_time_and_never_early(lw: Lockwork, algorithm: Algorithm) -> None:
    api = lw.limiter("api", "10/200ms", burst=1 if algorithm == "bucket" else None, algorithm=algorithm)
    began = time.monotonic()
    for _ in range(21):
        api.acquire()
    assert time.monotonic() - began >= 0.4


async def test_asyncio_calls_are_limited(alw: Lockwork) -> None:
    api = alw.limiter("api", "20/200ms", burst=1)
    began = time.monotonic()
    await asyncio.gather(*(api.aacquire() for _ in range(20)))
    assert time.monotonic() - began >= 0.19
    rare = alw.limiter("rare", "1/h")
    assert await rare.atry_acquire()
    assert not await rare.atry_acquire()
    assert (await rare.ainspect()).available == 0
    with pytest.raises(
        RateLimited, match=r"limiter 'rare' \(1/h\): no free units within the wait; try again in (1 h|59 min 5\d)"
    ):
        await rare.aacquire(wait="1m")


async def test_coroutines_are_granted_in_the_order_of_their_calls(alw: Lockwork) -> None:
    api = alw.limiter("api", "10/h")
    await api.ainspect()
    ends = await asyncio.gather(*(api.aacquire(wait=0) for _ in range(20)), return_exceptions=True)
    assert [isinstance(end, RateLimited) for end in ends] == [False] * 10 + [True] * 10


async def test_calls_of_a_script_that_is_new_to_the_server_keep_their_order(alw: Lockwork, admin: redis.Redis) -> None:
    """Otherwise the first call would be repeated in full, after the later ones."""
    api = alw.limiter("api", "3/h")
    await api.ainspect()
    admin.script_flush()

    async def call(number: int) -> None:
        for _ in range(number):
            await asyncio.sleep(0)
        await api.aacquire(wait=0)

    ends = await asyncio.gather(*(call(number) for number in range(6)), return_exceptions=True)
    assert [isinstance(end, RateLimited) for end in ends] == [False] * 3 + [True] * 3


def test_threads_share_it(lw: Lockwork) -> None:
    api = lw.limiter("api", "40/h")
    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(lambda _: api.try_acquire(), range(100))) == 40


def test_with_and_decorator(lw: Lockwork) -> None:
    with lw.limiter("api", "3/h"):
        pass

    @lw.limiter("api", "3/h")
    def call(x: int) -> int:
        return x + 1

    assert [call(1), call(2)] == [2, 3]
    assert lw.limiter("api", "3/h").inspect().available == 0


async def test_with_and_decorator_for_tasks(alw: Lockwork) -> None:
    async with alw.limiter("user:7", "3/h"):
        pass

    @alw.limiter("user:{user}", "3/h")
    async def call(user: int) -> int:
        return user

    assert [await call(7), await call(user=7), await call(8)] == [7, 7, 8]
    assert (await alw.limiter("user:7", "3/h").ainspect()).available == 0
    assert (await alw.limiter("user:8", "3/h").ainspect()).available == 2


@both
def test_changed_rate_applies_at_once_and_keeps_usage(lw: Lockwork, algorithm: Algorithm) -> None:
    assert lw.limiter("api", "10/h", algorithm=algorithm).try_acquire(6)
    assert lw.limiter("api", "8/h", algorithm=algorithm).inspect().available == 2
    assert lw.limiter("api", "20/h", algorithm=algorithm).inspect().available == 14
    assert not lw.limiter("api", "5/h", algorithm=algorithm).try_acquire()


def test_algorithm_cannot_change_while_the_limiter_is_in_use(lw: Lockwork, admin: redis.Redis) -> None:
    bucket, window = lw.limiter("api", "5/h"), lw.limiter("api", "5/h", algorithm="window")
    bucket.acquire()
    for call in (window.acquire, window.try_acquire, window.inspect):
        with pytest.raises(ConfigError, match="limiter 'api' is in use as a bucket, and this handle says window"):
            call()
    quick = lw.limiter("quick", "1000/s")
    quick.acquire()
    slow = lw.limiter("slow", "100/s", burst=1)
    slow.acquire()
    slow.acquire()  # ten milliseconds later: the quick one is full again
    assert lw.limiter("quick", "1000/s", algorithm="window").try_acquire()


@both
def test_acquire_costs_one_call(lw: Lockwork, admin: redis.Redis, algorithm: Algorithm) -> None:
    api: Limiter = lw.limiter("api", "20/200ms", algorithm=algorithm)
    api.acquire()  # the server has the script from now on
    lw.runtime.engine.wait("nothing", now())
    time.sleep(1.2)  # a process that has just subscribed asks once more, because a message may have been lost
    before = script_calls(admin)
    for _ in range(30):
        api.acquire()
    assert script_calls(admin) - before == 30


@both
def test_limiter_keys_expire(lw: Lockwork, admin: redis.Redis, algorithm: Algorithm) -> None:
    api = lw.limiter("api", "20/s", algorithm=algorithm)
    api.acquire(3)
    api.try_acquire(20)
    limiter_keys = sorted(admin.scan_iter(match="lw:{limiter:*"))
    assert limiter_keys == [b"lw:{limiter:api}", b"lw:{limiter:api}:log"]
    assert all(0 < admin.ttl(key) <= 182 for key in limiter_keys)


def test_wait_survives_the_end_of_the_connection(lw: Lockwork, admin: redis.Redis) -> None:
    api = lw.limiter("api", "4/s", burst=1)
    api.acquire()
    done = threading.Event()

    def call() -> None:
        api.acquire()
        done.set()

    thread = threading.Thread(target=call)
    thread.start()
    until(lambda: admin.zcard("lw:{limiter:api}:log") == 2, "it waits")
    admin.client_kill_filter(_type="normal", skipme=True)
    admin.client_kill_filter(_type="pubsub")
    assert done.wait(10)
    thread.join()
