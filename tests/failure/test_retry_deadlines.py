"""A call that may have taken effect is repeated only while the scripts remember it."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable

import pytest
import redis

from indexed import keys_but_indexes
from lockwork import Lockwork, ServerUnavailable
from lockwork.protocol.scripts import script
from lockwork.runtime import trying
from proxy import Proxy

REMEMBERED = 1.0

CALLS: dict[str, tuple[str, Callable[[Lockwork], Callable[[], object]]]] = {
    "delay queue": ("delay_queue/pop", lambda lw: lw.delay_queue("orders").pop),
    "limiter": ("synchronizers/limiter_take", lambda lw: lw.limiter("api", "100/s").acquire),
    "barrier": ("synchronizers/barrier_arrive", lambda lw: lw.barrier("phase", 1).wait),
    "latch": ("synchronizers/latch_count", lambda lw: lw.latch("boot", 3).count_down),
}


@pytest.fixture(autouse=True)
def forgetful(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trying, "REMEMBERED", REMEMBERED)


def lost(lw: Lockwork, proxy: Proxy, name: str) -> Callable[[], object]:
    """Return the call; its reply will be lost, and afterwards connections are refused."""
    name, made = CALLS[name]
    call = made(lw)
    call()  # opens the connection, and loads the script
    proxy.refuse(True)
    proxy.lose(script(name).sha, "reply")
    return call


@pytest.mark.parametrize("name", CALLS)
def test_call_with_a_lost_reply_gives_up_early(proxy: Proxy, admin: redis.Redis, name: str) -> None:
    with Lockwork(proxy.url, patience="10m") as lw:
        call = lost(lw, proxy, name)
        began = time.monotonic()
        with pytest.raises(ServerUnavailable, match="gave up after"):
            call()
        assert time.monotonic() - began < 20
        proxy.refuse(False)


async def test_async_call_with_a_lost_reply_gives_up_early(proxy: Proxy, admin: redis.Redis) -> None:
    async with Lockwork(proxy.url, patience="10m") as lw:
        orders = lw.delay_queue("orders")
        await orders.aadd("a")
        await orders.aadd("b")
        assert [entry.id for entry in await orders.apop()] == ["a"]
        proxy.refuse(True)
        proxy.lose(script("delay_queue/pop").sha, "reply")
        async with asyncio.timeout(20):
            with pytest.raises(ServerUnavailable, match="gave up after"):
                await orders.apop()
        proxy.refuse(False)
    assert admin.zcard(orders._keys[0]) == 0


def test_unsent_call_uses_its_full_patience(proxy: Proxy, admin: redis.Redis) -> None:
    proxy.refuse(True)
    back = threading.Timer(2.5 * REMEMBERED, proxy.refuse, [False])
    back.start()
    with Lockwork(proxy.url, patience="10m") as lw:
        with lw.lock("x"):
            pass
    back.join()


async def test_unsent_async_call_uses_its_full_patience(proxy: Proxy, admin: redis.Redis) -> None:
    proxy.refuse(True)
    asyncio.get_running_loop().call_later(2.5 * REMEMBERED, proxy.refuse, False)
    async with Lockwork(proxy.url, patience="10m") as lw, lw.lock("x"):
        pass


def test_reply_logs_outlast_the_retries_of_a_call(lw: Lockwork, admin: redis.Redis) -> None:
    """The server remembers a call for a minute, which leaves the last retry a margin of 10 s."""
    for _, made in CALLS.values():
        before = set(keys_but_indexes(admin))
        made(lw)()
        for key in set(keys_but_indexes(admin)) - before:
            assert admin.pttl(key) >= 60_000, key
