"""A primary is demoted while clients are connected, and its address moves: calls, locks and workers follow it."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import redis

from lockwork import Lockwork, ServerUnsuitable
from processes import until, worker
from proxy import Proxy, proxied
from replicated import Pair, replicated


@dataclass
class Failover:
    """An address that first leads to the primary."""

    proxy: Proxy
    pair: Pair

    @property
    def url(self) -> str:
        return self.proxy.url

    def demote(self) -> None:
        """Promote the replica; the old primary's clients stay connected."""
        self.pair.primary.incr("last")  # WAIT only covers writes of the same connection
        until(lambda: self.pair.primary.wait(1, 100) == 1, "it has everything")
        self.pair.replica.replicaof("NO", "ONE")
        self.pair.primary.replicaof("127.0.0.1", "1")

    def move(self) -> None:
        """Lead the address to the new primary."""
        self.proxy.lead_to(self.pair.replica_url)


@pytest.fixture
def failover(tmp_path: Path) -> Iterator[Failover]:
    with replicated(tmp_path / "servers") as pair, proxied(pair.url) as proxy:
        yield Failover(proxy, pair)


def at_once(call: Callable[[], object]) -> None:
    began = time.monotonic()
    call()
    assert time.monotonic() - began < 5


def stale(pair: Pair) -> None:
    """Let the demoted server reply MASTERDOWN instead of READONLY."""
    pair.primary.config_set("replica-serve-stale-data", "no")


def nothing_said(_: Pair) -> None: ...


@pytest.mark.parametrize("answers", [nothing_said, stale])
def test_call_follows_a_failover(failover: Failover, answers: Callable[[Pair], None]) -> None:
    answers(failover.pair)
    with Lockwork(failover.url) as app:
        app.lock("x").acquire()
        failover.demote()
        failover.move()
        at_once(app.lock("y").acquire)
        at_once(app.lock("x").release)
    assert failover.pair.replica.hget("lw:{lock:y}", "o")


@pytest.mark.parametrize("answers", [nothing_said, stale])
async def test_async_call_follows_a_failover(failover: Failover, answers: Callable[[Pair], None]) -> None:
    answers(failover.pair)
    async with Lockwork(failover.url) as app:
        await app.lock("x").aacquire()
        failover.demote()
        failover.move()
        async with asyncio.timeout(5):
            await asyncio.gather(*(app.lock(f"y{number}").aacquire() for number in range(10)))
            await app.lock("x").arelease()
    assert failover.pair.replica.hget("lw:{lock:y0}", "o")


async def test_calls_that_come_before_the_address_has_moved(failover: Failover) -> None:
    async with Lockwork(failover.url) as app:
        await app.lock("x").aacquire()
        await asyncio.to_thread(app.lock("z").acquire)
        failover.demote()
        calls = [
            asyncio.create_task(app.lock("y").aacquire()),
            asyncio.create_task(asyncio.to_thread(app.lock("w").acquire)),
        ]
        done, _ = await asyncio.wait(calls, timeout=1)
        assert not done
        failover.move()
        async with asyncio.timeout(5):
            await asyncio.gather(*calls)


async def test_address_that_never_moves_is_one_clear_error(failover: Failover) -> None:
    async with Lockwork(failover.url, patience=1) as app:
        await app.lock("x").aacquire()
        await asyncio.to_thread(app.lock("z").acquire)
        failover.demote()
        attempts: list[Callable[[], Awaitable[object]]] = [
            lambda: app.lock("y").aacquire(),
            lambda: asyncio.to_thread(app.lock("y").acquire),
        ]
        for attempt in attempts:
            began = time.monotonic()
            with pytest.raises(ServerUnsuitable, match="is a read-only replica: connect to its primary"):
                await attempt()
            assert time.monotonic() - began < 3


def test_threads_move_when_one_has_noticed(failover: Failover) -> None:
    """The demoted server would answer a thread's reads forever."""
    with Lockwork(failover.url) as app:
        both = threading.Barrier(2)

        def connect() -> None:
            both.wait(10)
            for _ in range(100):
                app.lock("x").inspect()

        threads = [threading.Thread(target=connect) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        failover.demote()
        failover.move()
        app.lock("y").acquire()
        for _ in range(5):
            assert app.lock("y").inspect().owner is not None


def test_held_locks_are_renewed_where_the_address_leads(failover: Failover) -> None:
    with Lockwork(failover.url, lock_lease=3) as app:
        grant = app.lock("x").acquire()
        until(lambda: _deadline(failover.pair.replica) is not None, "it has the lock")
        failover.demote()
        failover.move()
        moved = _deadline(failover.pair.replica)
        until(lambda: _deadline(failover.pair.replica) != moved, "it is renewed there", 20)
        time.sleep(4)
        assert not grant.lost


def test_wake_ups_come_from_where_the_address_leads(failover: Failover) -> None:
    with Lockwork(failover.url) as app, Lockwork(failover.pair.replica_url) as elsewhere:
        app.lock("x").acquire()
        app.runtime.engine.listen()
        channel = app.runtime.channel
        until(lambda: _hear(failover.pair.primary, channel) == 1, "it hears the old server")
        failover.demote()
        failover.move()
        elsewhere.lock("y").acquire()
        waiting = threading.Thread(target=app.lock("y").acquire)
        waiting.start()
        until(lambda: _hear(failover.pair.replica, channel) == 1, "it hears the new server", 20)
        elsewhere.lock("y").release()
        waiting.join(20)
        assert not waiting.is_alive()


async def test_subscription_of_a_loop_moves(failover: Failover) -> None:
    async with Lockwork(failover.url) as app:
        await app.lock("x").aacquire()
        hearing = asyncio.create_task(app.runtime.engine.hearing("lw:wake:loop", {}).run())
        try:
            await _until(lambda: _hear(failover.pair.primary, "lw:wake:loop") == 1)
            failover.demote()
            failover.move()
            await app.lock("y").aacquire()
            await _until(lambda: _hear(failover.pair.replica, "lw:wake:loop") == 1)
        finally:
            hearing.cancel()
            await asyncio.gather(hearing, return_exceptions=True)


def test_worker_follows_a_failover(failover: Failover, apps: Path, tmp_path: Path) -> None:
    started, gate = tmp_path / "started", tmp_path / "gate"
    with (
        Lockwork(failover.url) as app,
        worker("good:lw", "--lease", "5s", url=failover.url, folder=apps) as process,
    ):

        @app.task(retries=0)
        async def gated(started: str, gate: str) -> str: ...  # type: ignore[empty-body]

        job = gated.enqueue(str(started), str(gate))
        until(started.exists, "it runs")
        failover.demote()
        failover.move()
        gate.touch()
        assert job.result(30) == "done"
        assert gated.enqueue(str(started), str(gate)).result(30) == "done"
        status = app.queue().status()
        assert (status.succeeded, status.recovered, status.dead) == (2, 0, 0)
        assert process.process.poll() is None


def _deadline(client: redis.Redis) -> object:
    return client.hget("lw:{lock:x}", "d")


def _hear(client: redis.Redis, channel: str) -> int:
    return int(dict(client.pubsub_numsub(channel))[channel.encode()])


async def _until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not holds():
            await asyncio.sleep(0.05)
