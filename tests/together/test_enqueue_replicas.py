"""Enqueue waits for a number of replicas; with fewer replicas, the job is enqueued and JobNotReplicated is raised."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Iterator

import pytest

from lockwork import ConfigError, Lockwork
from lockwork.errors import JobNotReplicated, NotReplicated
from lockwork.protocol.effects import Call
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queue.enqueue import NewJob, push
from lockwork.tasks.task import Task
from proxy import proxied
from replicated import Pair, replicated

Ship = Task[[int], None, None]
JOBS = QueueKeys("lw", "default").jobs


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """A primary and its replica."""
    with replicated(tmp_path_factory.mktemp("servers")) as made:
        yield made


@pytest.fixture
def pair(servers: Pair) -> Pair:
    """The two servers, emptied."""
    servers.primary.flushall()
    servers.primary.wait(1, 5000)
    return servers


def ship_of(lw: Lockwork, replicas: int = 1) -> Ship:
    @lw.task(replicas=replicas)
    def ship(order: int) -> None: ...

    return ship


def test_replica_has_the_enqueued_jobs(pair: Pair) -> None:
    with Lockwork(pair.url) as lw:
        ship = ship_of(lw)
        for job in (ship.enqueue(1), *ship.enqueue_many([(2,), (3,)]), ship.options(expires="1h").enqueue(4)):
            assert pair.replica.hexists(JOBS, job.id)


async def test_async_enqueue_waits_for_replicas(pair: Pair) -> None:
    async with Lockwork(pair.url) as lw:
        ship = ship_of(lw)
        jobs = await asyncio.gather(*(ship.aenqueue(number) for number in range(50)))
        jobs += await ship.aenqueue_many([(100,), (101,)])
        jobs.append(await ship.options(expires="1h").aenqueue(102))
        assert all(pair.replica.hexists(JOBS, job.id) for job in jobs)


def test_too_few_replicas_do_not_prevent_the_enqueue(pair: Pair) -> None:
    with Lockwork(pair.url) as lw:
        ship = ship_of(lw).options(replicas=2)
        with pytest.raises(JobNotReplicated, match="enqueued, but only 1 of 2 replicas") as caught:
            ship.enqueue(1)
        (id,) = caught.value.ids
        assert lw.job(id).state() == "ready"
        with pytest.raises(NotReplicated, match="2500 jobs are enqueued") as caught_many:
            ship.enqueue_many([(number,) for number in range(2500)])
        assert len(caught_many.value.ids) == 2500  # type: ignore[attr-defined]
        assert lw.queue().status().ready == 2501


async def test_concurrent_enqueues_report_their_own_job(pair: Pair) -> None:
    async with Lockwork(pair.url) as lw:
        ship = ship_of(lw, 2)
        ended = await asyncio.gather(*(ship.aenqueue(number) for number in range(20)), return_exceptions=True)
        ids = [id for error in ended if isinstance(error, JobNotReplicated) for id in error.ids]
        assert len(ids) == len(set(ids)) == (await lw.queue().astatus()).ready == 20


def test_frozen_replica_raises_job_not_replicated(pair: Pair) -> None:
    with Lockwork(pair.url) as lw, pair.frozen():
        with pytest.raises(JobNotReplicated, match="only 0 of 1 replicas"):
            ship_of(lw).enqueue(1)


def test_resent_enqueue_is_not_mistaken_for_replicated(pair: Pair) -> None:
    """The second call finds the job; a connection without writes seems replicated."""
    with proxied(pair.url) as proxy, Lockwork(proxy.url) as lw:
        ship = ship_of(lw)
        ship.enqueue(1)
        with pair.frozen():
            proxy.lose('"ship"', "reply")
            with pytest.raises(JobNotReplicated):
                ship.enqueue(2)
            assert proxy.lost == 1
        assert lw.queue().status().ready == 2


def test_batches_after_missing_replicas_do_not_wait() -> None:
    jobs = [NewJob(f"j{number}", b"1,1,,;[]") for number in range(1750)]
    pushing = push(QueueKeys("lw", "q"), jobs, replicas=2)
    answers = iter([(500, 2), (500, 1), 500, 250])
    waits = []
    effect = next(pushing)
    with pytest.raises(JobNotReplicated) as caught:
        while True:
            assert isinstance(effect, Call)
            waits.append(effect.replicas)
            effect = pushing.send(next(answers))
    assert waits == [2, 2, 0, 0]
    assert caught.value.ids == tuple(job.id for job in jobs[500:])


def test_job_not_replicated_can_be_pickled() -> None:
    error = JobNotReplicated("too few", ("a", "b"))
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.ids) == ("too few", ("a", "b"))


@pytest.mark.parametrize("replicas", [-1, True, 1.5, "1", 101, None])
def test_wrong_number_of_replicas_is_refused(lw: Lockwork, replicas: int) -> None:
    with pytest.raises(ConfigError, match="replicas must be a whole number from 0 to 100"):
        lw.task(replicas=replicas)(print)
    with pytest.raises(ConfigError, match="replicas must be a whole number"):
        ship_of(lw).options(replicas=replicas)


def test_jobs_enqueued_by_a_reservation_do_not_wait(lw: Lockwork) -> None:
    ship = ship_of(lw)
    with pytest.raises(ConfigError, match="does not wait for replicas"):
        ship.call(1)
    assert lw.stock("phone", 1).reserve("bob", enqueue=ship.options(replicas=0).call(1)).created
