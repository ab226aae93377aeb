"""One job in Lockwork and in other Python queues, which says when it began; see starting.py.

Each app is made when its worker asks this module for it, and imports only what its queue needs.
"""

# ruff: noqa: PLC0415 - each worker imports its own queue

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from time import monotonic

URL = os.environ.get("LOCKWORK_URL", "redis://localhost:6379")


def began() -> None:
    """Write when this job began, on the clock that all processes of a machine share."""
    Path(os.environ["BENCH_BEGAN"]).write_text(repr(monotonic()))


async def abegan() -> None:
    """Async version of `began`."""
    began()


Made = tuple[object, Callable[[], object]]
"""An app, and a function that enqueues the job."""


def _lockwork() -> Made:
    from lockwork import Lockwork

    app = Lockwork(URL)
    return app, app.task(name="began", keep_result=False)(began).enqueue


def _celery() -> Made:
    from celery import Celery

    app = Celery("starting", broker=URL)
    app.conf.update(task_acks_late=True, task_ignore_result=True)
    return app, app.task(name="began")(began).delay


def _dramatiq() -> Made:
    import dramatiq
    from dramatiq.brokers.redis import RedisBroker

    broker = RedisBroker(url=URL)
    dramatiq.set_broker(broker)
    return broker, dramatiq.actor(began, actor_name="began", broker=broker).send


def _huey() -> Made:
    from huey import RedisHuey

    app = RedisHuey("starting", url=URL, results=False)
    return app, app.task(name="began")(began)


def _rq() -> Made:
    import redis
    from rq import Queue

    queue = Queue(connection=redis.Redis.from_url(URL))
    return queue, lambda: queue.enqueue(began)


def _taskiq() -> Made:
    import asyncio

    from taskiq_redis import RedisStreamBroker

    broker = RedisStreamBroker(URL, consumer_id="0")
    task = broker.task(task_name="began")(abegan)

    async def enqueue() -> None:
        await broker.startup()
        await task.kiq()
        await broker.shutdown()

    return broker, lambda: asyncio.run(enqueue())


MAKERS: dict[str, Callable[[], Made]] = {
    "lockwork": _lockwork, "celery": _celery, "dramatiq": _dramatiq, "huey": _huey, "rq": _rq, "taskiq": _taskiq
}  # fmt: skip


def __getattr__(name: str) -> object:
    if name not in MAKERS:
        raise AttributeError(name)
    globals()[name], _ = made = MAKERS[name]()
    return made[0]
