"""The handle of a partitioned queue: all its partitions as one queue."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import redis

from lockwork import ConfigError, Lockwork, WaitTimeout
from lockwork.errors import QueueFull
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queue import leases
from lockwork.protocol.queue.leases import Outcome
from lockwork.queues.limits import QueueLimits
from processes import until

SESSION = "host/1/a"


def plain(app: Lockwork, **options: Any) -> Any:
    def send(number: int) -> None: ...

    made: Any = app.task(queue="mail", **options)
    return made(send)


def lease(app: Lockwork, partition: str, count: int = 1) -> list[Any]:
    """Lease jobs of a partition, like a worker."""
    keys = QueueKeys("lw", partition)
    app.runtime.run(leases.beat(keys, {SESSION: True}, 60_000, 1))
    return app.runtime.run(leases.reserve(keys, SESSION, count, "1", "")).jobs


def settle(app: Lockwork, partition: str, leased: list[Any]) -> None:
    outcomes = [Outcome(job.id, job.token, "s", b"s1") for job in leased]
    assert all(app.runtime.run(leases.settle(QueueKeys("lw", partition), SESSION, outcomes, 600_000)))


def test_queue_handle_lists_its_partitions(four: Lockwork) -> None:
    assert [part.name for part in four.queue("mail").partitions] == ["mail/0", "mail/1", "mail/2", "mail/3"]
    assert [part.name for part in four.queue("other").partitions] == ["other"]
    assert [part.name for part in four.queue("mail/2").partitions] == ["mail/2"]
    assert repr(four.queue("mail")) == "<Queue 'mail' of 4 partitions>"


def test_status_and_workers_are_sums(four: Lockwork) -> None:
    send, queue = plain(four), four.queue("mail")
    for number in range(8):
        send.enqueue(number)
    send.options(delay="1h").enqueue(9)
    leased = {part.name: lease(four, part.name) for part in queue.partitions}
    status = queue.status()
    assert (status.ready, status.scheduled, status.running, status.enqueued) == (4, 1, 4, 9)
    (worker,) = queue.workers()
    assert (worker.session, worker.running) == (SESSION, 4)
    for name, found in leased.items():
        settle(four, name, found)
    assert queue.status().succeeded == 4
    assert four.queues() == [part.name for part in queue.partitions]


def test_pause_and_resume_apply_to_all_partitions(four: Lockwork) -> None:
    plain(four).enqueue_many([(1,)])
    queue = four.queue("mail")
    queue.pause()
    assert queue.status().paused
    assert all(part.status().paused for part in queue.partitions)
    assert not any(lease(four, part.name) for part in queue.partitions)
    four.queue("mail/1").resume()
    assert not queue.status().paused, "paused is what is paused as a whole"
    queue.resume()
    assert not any(part.status().paused for part in queue.partitions)


def test_clear_deletes_jobs_of_all_partitions(four: Lockwork) -> None:
    plain(four).enqueue_many((number,) for number in range(4000))
    assert four.queue("mail").clear() == 4000
    assert [part.status().cleared for part in four.queue("mail").partitions] == [1000] * 4


def test_peek_shows_jobs_of_all_partitions(four: Lockwork) -> None:
    send, queue = plain(four), four.queue("mail")
    for number in range(12):
        send.enqueue(number)
    send.options(priority="high").enqueue(100)
    for number in range(6):
        send.options(delay=3600 + number).enqueue(200 + number)

    def shown(limit: int, **more: Any) -> list[Any]:
        return [job.call.args[0] for job in queue.peek(limit, **more) if job.call.args]

    assert shown(1) == [100], "priorities hold"
    assert sorted(shown(100)) == [*range(12), 100]
    assert shown(5) + shown(5, skip=5) + shown(5, skip=10) == shown(100)
    assert shown(4, place="scheduled") == [200, 201, 202, 203]
    assert shown(4, place="scheduled", skip=4) == [204, 205]
    with pytest.raises(ConfigError, match="skip must be"):
        queue.peek(skip=-1)
    with pytest.raises(ConfigError, match="limit must be"):
        queue.peek(0)


@pytest.mark.parametrize("limits", [{"rate": "5/s"}, {"concurrency": 5}, {"size": 5}, {"size": None, "rate": "1/s"}])
def test_limits_across_partitions_are_refused(four: Lockwork, limits: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"has 4 partitions, and no server counts.*lw.queue\('mail/0'\).limit\("):
        four.queue("mail").limit(**limits)
    assert four.queue("mail").limits() == QueueLimits(None, None, None), "nothing was set anywhere"


def test_limits_of_partitions_add_up(four: Lockwork) -> None:
    queue = four.queue("mail")
    for number, part in enumerate(queue.partitions):
        part.limit(concurrency=number + 1, size=100, rate="10/s" if number else "60/m")
    assert queue.limits() == QueueLimits("1860/m", 10, 400)
    four.queue("mail/3").limit(concurrency=None)
    assert queue.limits().concurrency is None, "one without a limit, and there is none"
    assert queue.limit(rate=None, size=None, concurrency=None) == QueueLimits(None, None, None)
    assert queue.limit(size=0).size == 0, "to close the queue holds for each by itself"
    with pytest.raises(QueueFull):
        plain(four).enqueue(1)


def test_drain_waits_for_all_partitions(four: Lockwork) -> None:
    send, queue = plain(four), four.queue("mail")
    queue.drain(0)
    for number in range(4):
        send.enqueue(number)
    held = {part.name: lease(four, part.name) for part in queue.partitions}
    with pytest.raises(WaitTimeout, match=r"queue 'mail' was not drained within 0.05 s; .* 'mail/0'.*1 run"):
        queue.drain("50ms")
    for name in ("mail/0", "mail/1", "mail/2"):
        settle(four, name, held[name])
    with pytest.raises(WaitTimeout, match="'mail/3'"):
        queue.drain(0)
    drained = threading.Thread(target=queue.drain, args=(30,))
    drained.start()
    settle(four, "mail/3", held["mail/3"])
    drained.join()
    queue.drain(0)


def test_drain_rechecks_earlier_partitions(four: Lockwork, admin: redis.Redis) -> None:
    """A job of the last partition enqueues a job on the first one before it ends."""
    by_key = plain(four, key="{number}")
    queue = four.queue("mail")
    keys = {name: next(n for n in range(99) if home_of(four, n) == name) for name in ("mail/0", "mail/3")}
    by_key.enqueue(keys["mail/3"])
    last = until(lambda: lease(four, "mail/3"), "it is leased")
    told: list[bool] = []

    def drain() -> None:
        queue.drain(30)
        told.append(True)

    drained = threading.Thread(target=drain)
    drained.start()
    until(lambda: admin.hexists(QueueKeys("lw", "mail/3").stats, "drain"), "it waits for the last one")
    by_key.enqueue(keys["mail/0"])
    settle(four, "mail/3", last)
    until(lambda: admin.hexists(QueueKeys("lw", "mail/0").stats, "drain"), "it has come back to the first")
    assert not told
    settle(four, "mail/0", until(lambda: lease(four, "mail/0"), "it is leased"))
    drained.join()
    assert told


def home_of(app: Lockwork, number: int) -> str:
    return app.config.partitions.place("mail", str(number))


async def test_async_methods_of_partitioned_queue(url: str, admin: object) -> None:
    async with Lockwork(url, partitions={"mail": 4}) as app:
        queue = app.queue("mail")
        assert (await queue.astatus()).enqueued == 0
        assert (await queue.aworkers(), await queue.apeek(), await queue.aclear()) == ([], [], 0)
        await queue.apause()
        assert (await queue.astatus()).paused
        await queue.aresume()
        assert await queue.alimit(size=0) == await queue.alimits() == QueueLimits(None, None, 0)
        await queue.adrain(0)
        with pytest.raises(ConfigError, match="no server counts"):
            await queue.alimit(rate="1/s")


def test_wrong_queue_names_are_refused(four: Lockwork) -> None:
    names: list[Any] = [["mail"], None, "a/b"]
    for name in names:
        with pytest.raises(ConfigError, match="a queue's name"):
            four.queue(name)
