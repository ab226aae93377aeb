"""Users with the rights of one role, on a real server: all that the role is for, and nothing else."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from app_modules import Load
from lockwork import JobFailed, Lockwork, ServerRefused
from lockwork.doctor.findings import findings
from lockwork.types import QueueLimits
from processes import until, worker
from roles import as_role

ROLES = ["producer", "worker", "locks", "operator", "viewer"]


@pytest.fixture
def user(url: str, admin: redis.Redis) -> Iterator[Callable[[str], str]]:
    """The URL for a user with the rights of a role."""
    yield lambda role: as_role(url, role)
    admin.acl_deluser(*ROLES)


def test_user_of_locks_can_use_every_lock_and_synchronizer(user: Callable[[str], str]) -> None:
    with Lockwork(user("locks")) as app, Lockwork(user("locks")) as other:
        grant = app.lock("a").acquire()
        waiting = threading.Thread(target=lambda: other.lock("a").acquire(wait=30).release())
        waiting.start()
        until(lambda: app.lock("a").inspect().waiters, "somebody waits")
        grant.extend(30)
        grant.release()
        waiting.join()
        app.lock("a").acquire()
        assert app.lock("a").force_release()
        with app.rwlock("b").read(), app.semaphore("c", 2), app.multilock("d", "e"):
            assert app.semaphore("c", 2).inspect().used == 1
        quorum = app.quorum([app, *(f"{user('locks')}?db={number}" for number in (1, 2))])
        with app.rwlock("b").write(), quorum.lock("q"), app.lock("g", sticky=True) as fenced:
            app.fenced("v").set(1, fenced)
        quorum.close()
        with app.election("f") as election:
            assert election.wait(30)
        latch = app.latch("h", 1)
        latch.count_down()
        latch.wait(30)
        app.barrier("i", 1).wait(30)
        assert app.limiter("j", "100/s").try_acquire()
        once = app.once("k", every="1d")
        assert once.run(lambda: 7) == 7


def test_producer_and_worker_can_do_all_jobs(
    user: Callable[[str], str], apps: Path, load: Load, admin: redis.Redis
) -> None:
    shop: Any = load(user("producer"), "shop")
    with shop.lw as lw, worker("shop:lw", "--lease", "5", url=user("worker"), folder=apps):
        assert shop.add.enqueue(1, 2).result(30) == 3
        assert [job.result(30) for job in shop.add.enqueue_many([(1, 1), (2, 2)])] == [2, 4]
        assert shop.keyed.enqueue(5).result(30) == 5
        assert shop.alone.enqueue(6).result(30) == 6
        with pytest.raises(JobFailed, match="for good"):
            shop.fail.enqueue().result(30)
        later = shop.add.options(delay="1h", expires="2h").enqueue(1, 1)
        assert later.reschedule(delay="2h")
        assert later.cancel()
        assert later.retry()
        assert later.result(30) == 2
        assert lw.chain(shop.add.call(1, 2), lambda found: shop.add.call(found, 3)).enqueue().result(30) == 6
        flow = lw.flow()  # its messages are delivered by the producer and by the worker
        flow.add(shop.add.call(flow.add(shop.elsewhere.call(1)).value, 3))
        assert flow.enqueue().result(30) == 4
        cancelled = lw.chain(shop.elsewhere.options(delay="1h").call(1), shop.elsewhere, shop.add.call(1, 1)).enqueue()
        assert cancelled.cancel()
        phones = lw.stock("phone", 2)
        reservation = phones.reserve("ada", enqueue=shop.add.call(1, 1))
        phones.confirm(reservation)
        dates = lw.delay_queue("dates")
        dates.add("x")
        assert [entry.id for entry in dates.pop()] == ["x"]
        with lw.queue().lock("order:1") as grant:
            assert grant.fence
        until(lambda: lw.queue().status().succeeded > 12, "the schedule fires")


def test_operator_can_see_and_steer_everything(user: Callable[[str], str], load: Load, url: str) -> None:
    shop: Any = load(url, "shop")
    with shop.lw as lw, Lockwork(user("operator")) as app, lw.lock("a"):
        shop.add.enqueue(1, 2)
        assert [lock.name for lock in app.locks().locks] == ["a"]
        assert app.queues() == ["default"]
        queue = app.queue()
        queue.pause()
        queue.limit(rate="5/s", size=10)
        queue.resume()
        assert len(queue.peek()) == 1
        assert queue.clear() == 1
        queue.drain(30)
        assert queue.dead.count() == 0
        assert queue.dead.retry_all() == queue.dead.delete_all() == 0
        assert app.lock("a").force_release()
        lw.release_all()


def test_viewer_can_see_everything_and_change_nothing(user: Callable[[str], str], load: Load, url: str) -> None:
    shop: Any = load(url, "shop")
    with shop.lw as lw, Lockwork(user("viewer")) as app, lw.lock("a"), lw.rwlock("b").read(), lw.semaphore("c", 2):
        job = shop.add.enqueue(1, 2)
        lw.latch("d", 1).count_down()
        lw.limiter("e", "5/s").try_acquire()
        phones = lw.stock("phone", 2)
        phones.reserve("ada")
        lw.delay_queue("dates").add("x")
        flow = lw.chain(shop.add.call(1, 2), lambda found: shop.add.call(found, 3)).enqueue()
        assert {lock.name for lock in app.locks().locks} == {"a", "b", "c"}
        assert app.lock("a").inspect().owner
        assert app.limiter("e", "5/s").inspect()
        assert [limiter.name for limiter in app.limiters().limiters] == ["e"]
        assert len(app.stock("phone", 2).reservations()) == 1
        assert app.flow(id=flow.id).inspect()
        assert [found.id for found in app.flows().flows] == [flow.id]
        assert len(app.flow(id=flow.id).graph()) == 2
        assert app.queues() == ["default"]
        queue = app.queue()
        assert queue.status().ready >= 1
        assert queue.limits() == QueueLimits(None, None, None)
        assert queue.workers() == []
        assert queue.dead.count() == 0
        assert queue.peek()
        assert job.id in {row.id for row in app.jobs("default", state="ready").jobs}
        assert app.job(job.id).inspect() is not None
        assert app.schedules() is not None
        assert app.metrics().total.succeeded == 0
        assert app.queue_ages()
        assert app.workers() == []
        assert len(app.apps()) == 1
        assert "no worker" in findings(app)[0].text
        for change in (queue.pause, queue.clear, job_of(app, job.id).cancel, app.lock("z").acquire):
            with pytest.raises(ServerRefused):
                change()
        flow.cancel()
        lw.release_all()
        lw.queue().clear()


def job_of(app: Lockwork, id: str) -> Any:
    """The job, as another app finds it."""
    return app.job(id)


FOREIGN = {
    "producer": ["GET lw:{lock:a}", "HGETALL lw:{sem:a}", "GET other:{q:default}:jobs", "SCAN 0"],
    "worker": ["GET lw:{lock:a}", "HGETALL lw:{once:a}", "SCAN 0"],
    "locks": ["HGETALL lw:{q:default}:jobs", "HGETALL lw:{dq:a}", "LPUSH lw:{q:default}:ready:1 a", "SCAN 0"],
    "operator": ["GET other", "SUBSCRIBE other:wake:a"],
    "viewer": ["GET other", "HSET lw:{lock:a} a 1", "DEL lw:{lock:a}", "PUBLISH lw:wake:a a", "SLOWLOG GET"],
}
FORBIDDEN = ["FLUSHALL", "CONFIG GET *", "KEYS *", "ACL LIST", "SHUTDOWN", "CLIENT LIST", "MONITOR",
             "GET foreign", "PUBLISH foreign a", "PSUBSCRIBE *", "SUBSCRIBE foreign",
             "SCRIPT FLUSH", "PUBSUB CHANNELS"]  # fmt: skip


@pytest.mark.parametrize("role", ROLES)
def test_role_cannot_do_anything_else(user: Callable[[str], str], role: str) -> None:
    with redis.Redis.from_url(user(role)) as client:
        for command in FORBIDDEN + FOREIGN[role]:
            with pytest.raises(redis.exceptions.NoPermissionError):
                client.execute_command(*command.split())
