"""Calls that are lost, or whose replies are lost: the client repeats them, and they take effect once (L6, Q1)."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import redis

from lockwork import Lockwork
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queue import leases
from lockwork.protocol.scripts import script
from processes import until, worker
from proxy import Phase, Proxy

PHASES: list[Phase] = ["request", "reply"]


def sha(name: str) -> str:
    return script(name).sha


@pytest.mark.parametrize("phase", PHASES)
def test_lock(lw: Lockwork, proxy: Proxy, phase: Phase) -> None:
    """`lw` is connected to the server directly, `app` through the proxy."""
    with Lockwork(proxy.url) as app:
        with app.lock("warm"):
            pass
        proxy.lose(sha("locks/acquire"), phase)
        with app.lock("x") as grant:
            assert lw.lock("x").inspect().fence == grant.fence
            assert lw.lock("x").inspect().waiters == 0
            with pytest.raises(TimeoutError):
                lw.lock("x").acquire(wait=0)
            proxy.lose(sha("locks/release"), phase)
        assert lw.lock("x").inspect().owner is None
        assert proxy.lost == 2


def test_release_with_a_lost_reply_is_no_loss_after_later_grants(lw: Lockwork, proxy: Proxy) -> None:
    with Lockwork(proxy.url) as app, ThreadPoolExecutor(1) as pool:

        def turn() -> int:
            with app.lock("x") as grant:
                proxy.lose(sha("locks/release"), "reply")
                proxy.refuse(True)
            return grant.fence

        with app.lock("warm"):
            pass
        mine = pool.submit(turn)
        until(lambda: proxy.lost, "the reply was lost")
        for _ in range(2):
            with lw.lock("x", wait=30):
                pass
        proxy.refuse(False)
        assert mine.result(30)


@pytest.mark.parametrize("phase", PHASES)
def test_waiting_call_with_a_lost_reply_waits_once(lw: Lockwork, proxy: Proxy, phase: Phase) -> None:
    with Lockwork(proxy.url) as app:
        with app.lock("warm"):
            pass
        lw.lock("x").acquire()
        proxy.lose(sha("locks/acquire"), phase)
        done = threading.Event()

        def turn() -> None:
            with app.lock("x"):
                done.set()

        thread = threading.Thread(target=turn)
        thread.start()
        until(lambda: proxy.lost == 1 and lw.lock("x").inspect().waiters == 1, "it waits, once")
        lw.lock("x").release()
        assert done.wait(30)
        thread.join()
        assert lw.lock("x").inspect().owner is None


@pytest.mark.parametrize("phase", PHASES)
async def test_lock_of_a_task(alw: Lockwork, proxy: Proxy, phase: Phase) -> None:
    async with Lockwork(proxy.url) as app:
        async with app.lock("warm"):
            pass
        proxy.lose(sha("locks/acquire"), phase)
        async with app.lock("x") as grant:
            assert (await alw.lock("x").ainspect()).fence == grant.fence
            proxy.lose(sha("locks/release"), phase)
        assert (await alw.lock("x").ainspect()).owner is None
        assert proxy.lost == 2


@pytest.mark.parametrize("phase", PHASES)
async def test_cancelled_call_with_a_lost_reply_leaves_no_waiter(alw: Lockwork, proxy: Proxy, phase: Phase) -> None:
    async with Lockwork(proxy.url) as app:
        for turns in range(8):
            async with app.lock("warm"):  # a connection's first call loads the script, and would not match
                pass
            proxy.lose(sha("locks/acquire"), phase)
            task = asyncio.create_task(app.lock("x").aacquire())
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            async with alw.lock("x", wait=10):
                assert (await alw.lock("x").ainspect()).waiters == 0


@pytest.mark.parametrize("phase", PHASES)
def test_enqueue(lw: Lockwork, proxy: Proxy, phase: Phase) -> None:
    with Lockwork(proxy.url) as app:

        @app.task
        def work(n: int) -> None: ...

        work.enqueue(0)
        proxy.lose(sha("queue/push_one"), phase)
        job = work.enqueue(1)
        proxy.lose(sha("queue/push"), phase)
        jobs = work.enqueue_many([(n,) for n in range(2, 1502)])
        proxy.lose(sha("queue/push"), phase)
        later = work.options(delay="1h").enqueue(1502)
        status = lw.queue().status()
        assert (status.enqueued, status.ready, status.scheduled) == (1503, 1502, 1)
        assert proxy.lost == 3
        assert {job.state(), jobs[-1].state(), later.state()} == {"ready", "scheduled"}


@pytest.mark.parametrize("phase", PHASES)
def test_stock(lw: Lockwork, proxy: Proxy, phase: Phase) -> None:
    with Lockwork(proxy.url) as app:

        @app.task
        def work() -> None: ...

        phones = app.stock("phone", 10)
        for call in (phones.reserve("a"), phones.reserve("b")):
            phones.confirm(call) if call.buyer == "a" else phones.release(call)
        proxy.lose(sha("stock/reserve"), phase)
        one = phones.reserve("bob", 2, enqueue=work.call())
        assert one.created
        proxy.lose(sha("stock/end"), phase)
        phones.confirm(one, enqueue=work.call())
        two = phones.reserve("eve", 3)
        proxy.lose(sha("stock/end"), phase)
        phones.release(two, enqueue=work.call())
        proxy.lose(sha("stock/state"), phase)
        assert phones.restock(5).total == 15
        status = lw.stock("phone", 10).inspect()
        assert (status.total, status.available, status.reserved, status.sold) == (15, 12, 0, 3)
        assert lw.queue().status().enqueued == 3
        assert proxy.lost == 4


@pytest.mark.parametrize("phase", PHASES)
def test_worker_that_gives_up_a_call_loses_no_job(
    lw: Lockwork, admin: redis.Redis, proxy: Proxy, apps: Path, phase: Phase
) -> None:
    """The reply of a reserve call is lost, and the server is away for longer than the app's patience."""

    @lw.task
    def add(a: int, b: int = 1) -> int:
        return a + b

    with worker("good:lw", "--lease", "10s", url=proxy.url, folder=apps) as process:
        assert add.enqueue(1).result(30) == 2
        own = {lw.runtime.channel.encode()}  # only a process that had to wait for the result is subscribed
        heard = "it hears its process's channel and its session's"
        until(lambda: len(set(admin.pubsub_channels("lw:wake:*")) - own) == 2, heard)
        proxy.lose(sha("queue/reserve"), phase)
        proxy.refuse(True)
        jobs = add.enqueue_many([(number,) for number in range(20)])
        until(lambda: "jobs of queue default cannot be fetched" in process.errors, "it gave up for now")
        proxy.refuse(False)
        assert [job.result(30) for job in jobs] == list(range(1, 21))
        status = lw.queue().status()
        assert (status.running, status.recovered, status.succeeded) == (0, 0, 21)


@pytest.mark.parametrize("phase", PHASES)
def test_lost_settle_call_settles_the_job_once(lw: Lockwork, proxy: Proxy, apps: Path, phase: Phase) -> None:
    @lw.task
    def add(a: int, b: int = 1) -> int:
        return a + b

    with worker("good:lw", url=proxy.url, folder=apps):
        assert add.enqueue(1).result(30) == 2
        proxy.lose(sha("queue/settle"), phase)
        assert add.enqueue(2).result(30) == 3
        until(lambda: lw.queue().status().running == 0, "it was settled")
        status = lw.queue().status()
        assert (status.succeeded, status.recovered) == (2, 0)
        until(lambda: proxy.lost == 1, "the proxy has seen it")


@pytest.mark.parametrize("sync", [True, False], ids=["sync", "asyncio"])
async def test_request_that_arrives_after_its_retry_adds_no_job(lw: Lockwork, proxy: Proxy, *, sync: bool) -> None:
    """A repeated enqueue arrives after its sender gave up and the job has ended."""

    def work() -> None:
        """Do nothing; the test itself is the worker."""

    async with Lockwork(proxy.url) as app:
        task = app.task(work)
        if sync:
            await asyncio.to_thread(app.lock("warm").inspect)
            proxy.lose(sha("queue/push_one"), "late")
            job = await asyncio.to_thread(task.enqueue)
        else:
            await app.task(name="warm", queue="other")(work).aenqueue()  # the first call sends the script's source
            proxy.lose(sha("queue/push_one"), "late")
            job = await task.aenqueue()
        keys = QueueKeys("lw", "default")
        await lw.runtime.arun(leases.beat(keys, {"h/1/x": True}, 60_000, 5))
        leased = (await lw.runtime.arun(leases.reserve(keys, "h/1/x", 10, "1", ""))).jobs
        assert [lease.id for lease in leased] == [job.id]
        outcome = leases.Outcome(job.id, leased[0].token, "s", b"null")
        assert await lw.runtime.arun(leases.settle(keys, "h/1/x", [outcome], 600_000)) == [True]
        proxy.deliver_late()
        status = await lw.queue().astatus()
        assert (status.enqueued, status.ready, status.succeeded) == (1, 0, 1)
        await lw.runtime.aclose()
