"""The register: compare-and-set by fence on the server."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor

import pytest
import redis

from lockwork import ConfigError, Lockwork, PayloadTooLarge
from lockwork.compat.plain import PlainLock
from lockwork.errors import StaleFence
from lockwork.protocol.scripts import script
from processes import until
from proxy import Phase, Proxy


def test_register_refuses_the_writes_of_older_holders(lw: Lockwork) -> None:
    register = lw.fenced("leader")
    assert register.get() is None
    with lw.lock("leader") as first:
        register.set({"step": 1}, first)
        register.set({"step": 2}, first)
    with lw.lock("leader") as second:
        register.set({"step": 3}, second)
        with pytest.raises(StaleFence, match="this grant has ended") as refused:
            register.set({"step": 4}, first)
        assert (refused.value.fence, refused.value.seen) == (first.fence, second.fence)
        assert register.get() == ({"step": 3}, second.fence)
        found = register.get()
        assert found is not None
        assert found.value["step"] == 3
        assert found.fence == second.fence


def test_strict_takes_one_write_of_each_fence(lw: Lockwork) -> None:
    register = lw.fenced("leader")
    register.set(1, 7, strict=True)
    with pytest.raises(StaleFence, match="strict"):
        register.set(2, 7, strict=True)
    register.set(3, 8, strict=True)
    register.set(4, 8)
    assert register.get() == (4, 8)


async def test_in_asyncio(alw: Lockwork) -> None:
    register = alw.fenced("leader")
    assert await register.aget() is None
    async with alw.lock("leader") as grant:
        await register.aset([1, None, "é"], grant)
        assert await register.aget() == ([1, None, "é"], grant.fence)
    with pytest.raises(StaleFence):
        await register.aset("late", grant.fence - 1)
    with pytest.raises(StaleFence):
        await register.aset("again", grant, strict=True)


@pytest.mark.parametrize("phase", ["request", "reply"])
@pytest.mark.parametrize("strict", [False, True])
def test_lost_call_is_written_once(lw: Lockwork, proxy: Proxy, phase: Phase, strict: bool) -> None:
    with Lockwork(proxy.url) as app:
        app.fenced("warm").set(0, 1)
        proxy.lose(script("locks/register_set").sha, phase)
        app.fenced("x").set("mine", 5, strict=strict)
        assert proxy.lost == 1
    assert lw.fenced("x").get() == ("mine", 5)


def test_repeated_write_does_not_undo_a_later_write(admin: redis.Redis) -> None:
    run = admin.register_script(script("locks/register_set").source)

    def write(request: str, value: str) -> object:
        return run(keys=["x"], args=[request.ljust(16, "-"), value, 5, 0, 0])

    assert write("one", "1") == [1, 5]
    assert write("two", "2") == [1, 5]
    assert write("one", "1") == [1, 5]
    assert admin.hget("x", "v") == b"2"
    for number in range(100):
        write(f"more{number}", "3")
    assert admin.hstrlen("x", "r") <= 16 * 17  # bounded


def test_highest_fence_of_concurrent_writers_remains(lw: Lockwork) -> None:
    register = lw.fenced("x")

    def write(fence: int) -> bool:
        try:
            register.set(fence, fence)
        except StaleFence:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        written = list(pool.map(write, [number * 37 % 101 + 1 for number in range(101)]))
    assert register.get() == (101, 101)
    assert written.count(True) >= 1


def test_grant_without_a_fence_is_refused(lw: Lockwork) -> None:
    with PlainLock(lw, "shared") as grant, pytest.raises(ConfigError, match="shared format"):
        lw.fenced("x").set(1, grant)


@pytest.mark.parametrize("fence", [0, -1, 2**53, True, 1.5, "7", None])
def test_bad_fences(lw: Lockwork, fence: object) -> None:
    with pytest.raises(ConfigError, match="fence"):
        lw.fenced("x").set(1, fence)  # type: ignore[arg-type]


def test_bad_names_and_values(lw: Lockwork) -> None:
    with pytest.raises(ConfigError, match="register's name must be text, not 5"):
        lw.fenced(5)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="JSON"):
        lw.fenced("x").set(object(), 1)
    with pytest.raises(PayloadTooLarge):
        lw.fenced("x").set("x" * (2 << 20), 1)
    assert lw.fenced("x").get() is None


def test_stale_fence_can_be_pickled() -> None:
    again = pickle.loads(pickle.dumps(StaleFence("said", 1, 2)))
    assert (str(again), again.fence, again.seen) == ("said", 1, 2)


def test_value_is_deleted_after_its_ttl(lw: Lockwork, admin: redis.Redis) -> None:
    register = lw.fenced("x")
    register.set(1, 5, ttl="1h")
    key = "lw:{fenced:x}"
    assert 3_590_000 < admin.pttl(key) <= 3_600_000
    register.set(2, 6, ttl=0.02)
    until(lambda: register.get() is None, "the value is deleted")
    register.set(3, 1, ttl="1h")
    register.set(4, 1)
    assert admin.pttl(key) == -1, "a write without a ttl is kept for good"
    with pytest.raises(ConfigError, match="ttl"):
        register.set(5, 1, ttl=0)
