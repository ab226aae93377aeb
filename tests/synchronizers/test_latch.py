"""A latch: opens at zero, wakes all who wait, stays open, and can be used again."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import redis

from cancelling import cancelled, turns
from commandstats import command_calls
from indexed import keys_but_indexes
from lockwork import Lockwork
from lockwork.errors import ConfigError, ServerRefused
from lockwork.protocol.retry import Rechecks
from lockwork.protocol.scripts import script
from lockwork.types import LatchStatus
from processes import script as process
from processes import until
from proxy import Phase, Proxy

phases = pytest.mark.parametrize("phase", ["request", "reply"])


def waiting(admin: redis.Redis, name: str = "boot") -> int:
    """Return the number of waiting processes."""
    return len(places(admin, name))


def places(admin: redis.Redis, name: str = "boot") -> list[bytes]:
    fields: list[Any] = admin.hkeys(f"lw:{{latch:{name}}}")
    return [field for field in fields if field.startswith(b"w")]


def test_count_down_and_wait(lw: Lockwork) -> None:
    boot = lw.latch("boot", 3)
    assert boot.inspect() == LatchStatus(left=3, count=3)
    assert not boot.inspect().open
    assert not boot.wait(0)
    assert [boot.count_down(), boot.count_down(), boot.count_down(), boot.count_down()] == [2, 1, 0, 0]
    assert boot.wait()
    assert boot.inspect() == LatchStatus(left=0, count=3)
    assert boot.inspect().open
    assert lw.latch("boot", 3).wait(0)


async def test_asyncio_latch_opens_after_its_count(alw: Lockwork) -> None:
    boot = alw.latch("boot", 3)
    waiters = [asyncio.create_task(boot.await_()) for _ in range(50)]
    assert not await boot.await_(timeout=0.01)
    assert await boot.acount_down(2) == 1
    assert (await boot.ainspect()).left == 1
    assert await boot.acount_down(2) == 0
    assert all(await asyncio.gather(*waiters))
    await boot.areset()
    assert (await boot.ainspect()).left == 3


def test_process_gets_one_message_for_its_latch_waiters(lw: Lockwork, other: Lockwork, admin: redis.Redis) -> None:
    with ThreadPoolExecutor(21) as pool:
        waits = [pool.submit(app.latch("boot", 1).wait, 30) for app in (lw, other) for _ in range(10)]
        until(lambda: waiting(admin) == 2, "both processes wait")
        before = command_calls(admin, "publish", "spublish")
        assert lw.latch("boot", 1).count_down() == 0
        assert all(wait.result(10) for wait in waits)
    assert command_calls(admin, "publish", "spublish") - before == 2
    assert waiting(admin) == 0


def test_timed_out_waiter_blocks_no_other(lw: Lockwork, other: Lockwork) -> None:
    assert not other.latch("boot", 1).wait(0.01)
    assert lw.latch("boot", 1).count_down() == 0
    assert other.latch("boot", 1).wait(0)
    other.latch("boot", 1).reset()
    assert not other.latch("boot", 1).wait(0.01), "the message of before opens nothing now"


def test_reset_begins_a_new_round(lw: Lockwork, other: Lockwork, admin: redis.Redis) -> None:
    boot = lw.latch("boot", 2)
    boot.count_down()
    boot.reset()
    assert boot.inspect().left == 2
    with ThreadPoolExecutor(1) as pool:
        wait = pool.submit(other.latch("boot", 2).wait, 30)
        until(lambda: waiting(admin), "it waits")
        boot.count_down()
        boot.reset()
        boot.count_down()
        assert not wait.done()
        boot.count_down()
        assert wait.result(10)
    lw.latch("boot", 5).reset()
    assert lw.latch("boot", 5).inspect().left == 5


def test_waiter_of_an_opened_round_passes_after_reset(lw: Lockwork, admin: redis.Redis) -> None:
    """The subscription loses its message, and at its next poll the latch is closed again."""
    boot = lw.latch("boot", 1)
    with ThreadPoolExecutor(1) as pool:
        wait = pool.submit(boot.wait, 30)
        until(lambda: waiting(admin), "it waits")
        admin.execute_command("HDEL", "lw:{latch:boot}", *places(admin))  # type: ignore[no-untyped-call]
        boot.count_down()
        boot.reset()
        assert wait.result(10)


def test_handle_with_another_count_is_refused(lw: Lockwork) -> None:
    lw.latch("boot", 3).count_down()
    other = lw.latch("boot", 4)
    for call in (other.count_down, other.wait, other.inspect):
        with pytest.raises(ConfigError, match="latch 'boot' is in use with a count of 3, and this handle says 4"):
            call()
    assert lw.latch("boot", 3).inspect().left == 2


@phases
def test_repeated_count_down_counts_once(lw: Lockwork, proxy: Proxy, phase: Phase) -> None:
    with Lockwork(proxy.url) as app:
        boot = app.latch("boot", 3)
        assert boot.inspect().left == 3
        proxy.lose(script("synchronizers/latch_count").sha, phase)
        assert boot.count_down() == 2
        proxy.lose(script("synchronizers/latch_reset").sha, phase)
        boot.reset()
        assert proxy.lost == 2
    assert lw.latch("boot", 3).inspect().left == 3


async def test_cancelled_waiters_leave_no_keys(alw: Lockwork, admin: redis.Redis) -> None:
    boot = alw.latch("boot", 1)
    for count in range(12):
        task = asyncio.create_task(boot.await_())
        await turns(count)
        assert await cancelled(task)
    assert await boot.acount_down() == 0
    assert await boot.await_(0)


def test_lost_wake_up_costs_a_moment(lw: Lockwork, other: Lockwork, admin: redis.Redis) -> None:
    """Redisson #1763 and #3891: a waiter whose message was lost slept on; here it polls."""
    with ThreadPoolExecutor(1) as pool:
        wait = pool.submit(other.latch("boot", 1).wait, 30)
        until(lambda: waiting(admin), "it waits")
        admin.execute_command("HDEL", "lw:{latch:boot}", *places(admin))  # type: ignore[no-untyped-call]
        lw.latch("boot", 1).count_down()
        assert wait.result(6)


def test_waiting_costs_little() -> None:
    """A waiter polls six times within the first ten seconds, and every five seconds afterwards."""
    rechecks, now, times = Rechecks(0.1), 0.0, []
    while now < 60:
        now = rechecks.next(now, None)
        times.append(now)
    assert len([at for at in times if at < 10]) == 6
    assert len(times) < 18
    assert Rechecks(1.0).next(5.0, 5.5) == 5.5


def test_latch_keys_expire(lw: Lockwork, admin: redis.Redis) -> None:
    boot = lw.latch("boot", 3, ttl="10m")
    assert not boot.wait(0.01)
    boot.count_down()
    boot.reset()
    boot.count_down()
    assert {key.decode() for key in keys_but_indexes(admin)} == {"lw:{latch:boot}", "lw:{latch:boot}:done:0"}
    assert all(600 < admin.ttl(key) <= 660 for key in keys_but_indexes(admin))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda lw: lw.latch(5, 1), "a latch's name must be text, not 5"),
        (lambda lw: lw.latch("boot", 0), "count must be a whole number from 1 to 1,000,000, not 0"),
        (lambda lw: lw.latch("boot", True), "count must be"),
        (lambda lw: lw.latch("boot", 1, ttl="5s"), "ttl must be at least 10 s, for which a call may be sent again"),
        (lambda lw: lw.latch("boot", 1, ttl=-1), "ttl must be between"),
        (lambda lw: lw.latch("boot", 1).count_down(0), "n must be a whole number"),
        (lambda lw: lw.latch("boot", 1).wait(-1), "timeout must be between"),
    ],
)
def test_bad_input_sends_no_command(lw: Lockwork, admin: redis.Redis, call: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        call(lw)
    assert not keys_but_indexes(admin)


def test_as_long_as_patience_is_long_enough(url: str) -> None:
    with Lockwork(url, patience=16.1) as app:
        assert app.latch("boot", 1, ttl="16.1s").name == "boot"


@pytest.mark.parametrize("key", ["lw:{latch:boot}", "lw:{latch:boot}:done:0", "lw:{latch:boot}:done:1"])
def test_foreign_key_is_refused_without_partial_effects(lw: Lockwork, admin: redis.Redis, key: str) -> None:
    admin.set(key, "text", ex=100)
    boot = lw.latch("boot", 1)
    for call in (boot.count_down, boot.wait, boot.inspect, boot.reset):
        with pytest.raises(ServerRefused, match="data of another program"):
            call()
    assert keys_but_indexes(admin) == [key.encode()]


WAIT = """
from lockwork import Lockwork
with Lockwork() as lw:
    print("ready", flush=True)
    print(lw.latch("boot", 3).wait(30), flush=True)
"""


def test_processes(lw: Lockwork, url: str) -> None:
    boot = lw.latch("boot", 3)
    with contextlib.ExitStack() as stack:
        waiters = [stack.enter_context(process(WAIT, url=url)) for _ in range(3)]
        for waiter in waiters:
            assert waiter.line() == "ready"
            boot.count_down()
        assert [waiter.line() for waiter in waiters] == ["True"] * 3
        assert [waiter.wait() for waiter in waiters] == [0] * 3


def test_threads_count_down_exactly(lw: Lockwork) -> None:
    boot = lw.latch("boot", 200)
    opened = threading.Event()

    def wait() -> None:
        assert boot.wait(30)
        opened.set()

    thread = threading.Thread(target=wait)
    thread.start()
    with ThreadPoolExecutor(8) as pool:
        left = sorted(pool.map(lambda _: boot.count_down(), range(200)))
    assert left == list(range(200))
    assert opened.wait(10)
    thread.join()
