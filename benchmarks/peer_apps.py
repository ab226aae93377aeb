"""The same no-op job in Lockwork and in other Python queues; an app is made when its worker asks this module for it.

Where a queue has settings for it, a job is acknowledged after it has run, so that a killed worker loses none.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from itertools import count
from time import perf_counter

import redis

URL = os.environ.get("LOCKWORK_URL", "redis://localhost:6379")
RATE = "jobs-per-second"
"""The key that the last job of a run writes."""

_jobs = int(os.environ.get("PEER_JOBS", "0"))
_done = count(1)
_began = 0.0


def tick(_number: int) -> None:
    """Run one job: the first starts the clock, and the last stops it."""
    global _began
    done = next(_done)
    if done == 1:
        _began = perf_counter()
    if done == _jobs:
        with redis.Redis.from_url(URL) as client:
            client.set(RATE, (done - 1) / (perf_counter() - _began))


async def atick(number: int) -> None:
    """Async version of `tick`."""
    tick(number)


Enqueue = Callable[[int], object]
"""Enqueues so many jobs."""


def _lockwork() -> tuple[object, Enqueue]:
    from lockwork import Lockwork

    app = Lockwork(URL)
    task = app.task(name="tick", keep_result=False)(atick)
    return app, lambda jobs: task.enqueue_many([(number,) for number in range(jobs)])


def _celery() -> tuple[object, Enqueue]:
    from celery import Celery

    app = Celery("peers", broker=URL)
    app.conf.update(task_acks_late=True, task_ignore_result=True, worker_prefetch_multiplier=100)
    task = app.task(name="tick")(tick)
    return app, lambda jobs: [task.delay(number) for number in range(jobs)]


def _dramatiq() -> tuple[object, Enqueue]:
    import dramatiq
    from dramatiq.brokers.redis import RedisBroker

    broker = RedisBroker(url=URL)
    dramatiq.set_broker(broker)
    actor = dramatiq.actor(tick, actor_name="tick", broker=broker)
    return broker, lambda jobs: [actor.send(number) for number in range(jobs)]


def _huey() -> tuple[object, Enqueue]:
    from huey import RedisHuey

    app = RedisHuey("peers", url=URL, results=False)
    task = app.task(name="tick")(tick)
    return app, lambda jobs: [task(number) for number in range(jobs)]


def _rq() -> tuple[object, Enqueue]:
    from rq import Queue

    queue = Queue(connection=redis.Redis.from_url(URL))
    call = Queue.prepare_data
    return queue, lambda jobs: queue.enqueue_many([call(tick, (number,), result_ttl=0) for number in range(jobs)])


def _taskiq() -> tuple[object, Enqueue]:
    from taskiq_redis import RedisStreamBroker

    broker = RedisStreamBroker(URL, consumer_id="0")
    task = broker.task(task_name="tick")(atick)

    async def enqueue(jobs: int) -> None:
        await broker.startup()
        for number in range(jobs):
            await task.kiq(number)
        await broker.shutdown()

    return broker, lambda jobs: asyncio.run(enqueue(jobs))


MAKERS = {
    "lockwork": _lockwork, "celery": _celery, "dramatiq": _dramatiq, "huey": _huey, "rq": _rq, "taskiq": _taskiq
}  # fmt: skip


def __getattr__(name: str) -> object:
    if name not in MAKERS:
        raise AttributeError(name)
    globals()[name], _ = made = MAKERS[name]()
    return made[0]
