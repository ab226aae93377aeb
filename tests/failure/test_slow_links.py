"""Slow links: no call fails while bytes move, and batches are small enough to arrive in time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lockwork import Lockwork
from lockwork.protocol.effects import Protocol
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queue import enqueue, leases, record_header
from lockwork.protocol.queue.enqueue import NewJob
from lockwork.protocol.queue.leases import Outcome
from proxy import Proxy

SESSION = "host/1/slow"
HEAD = record_header.head(1, 5)
QUEUE = QueueKeys("lw", "slow")
MB = 1_000_000
LIMIT = 2.0
"""Seconds without progress before these tests drop a connection."""


@pytest.fixture
def link(proxy: Proxy, monkeypatch: pytest.MonkeyPatch, admin: object) -> Iterator[Proxy]:
    monkeypatch.setattr("lockwork.runtime.sync_driver.TIMEOUT", LIMIT)
    monkeypatch.setattr("lockwork.runtime.async_driver.TIMEOUT", LIMIT)
    yield proxy
    proxy.slow_down(None)


def large_batch() -> Protocol[int]:
    """15 MB of records."""
    return enqueue.push(QUEUE, [NewJob(f"j{number}", HEAD + b"x" * 300_000) for number in range(50)])


def test_large_batch_is_enqueued_over_a_slow_link(link: Proxy) -> None:
    with Lockwork(link.url) as lw:
        lw.queue("slow").status()
        link.slow_down(4 * MB)
        assert lw.runtime.run(large_batch()) == 50


async def test_large_batch_is_enqueued_over_a_slow_link_by_asyncio(link: Proxy) -> None:
    async with Lockwork(link.url) as lw:
        await lw.queue("slow").astatus()
        link.slow_down(4 * MB)
        assert await lw.runtime.arun(large_batch()) == 50


def test_large_record_may_travel_longer_than_the_limit(link: Proxy) -> None:
    with Lockwork(link.url) as lw:
        lw.queue("slow").status()
        link.slow_down(MB)
        assert lw.runtime.run(enqueue.push(QUEUE, [NewJob("j", HEAD + b"x" * 5 * MB)])) == 1
        lw.runtime.run(leases.beat(QUEUE, {SESSION: True}, 60_000, 1.0))
        (job,) = lw.runtime.run(leases.reserve(QUEUE, SESSION, 1, "r", "")).jobs
        assert len(job.record) > 5 * MB
        lw.runtime.run(leases.settle(QUEUE, SESSION, [Outcome(job.id, job.token, "s")], 60_000))


async def test_large_record_may_travel_longer_than_the_limit_by_asyncio(link: Proxy) -> None:
    async with Lockwork(link.url) as lw:
        await lw.queue("slow").astatus()
        link.slow_down(MB)
        assert await lw.runtime.arun(enqueue.push(QUEUE, [NewJob("j", HEAD + b"x" * 5 * MB)])) == 1


async def test_large_results_are_settled_over_a_slow_link(link: Proxy) -> None:
    async with Lockwork(link.url) as lw:
        await lw.runtime.arun(leases.beat(QUEUE, {SESSION: True}, 60_000, 1.0))
        await lw.runtime.arun(enqueue.push(QUEUE, [NewJob(f"j{number}", HEAD + b"x") for number in range(15)]))
        held = (await lw.runtime.arun(leases.reserve(QUEUE, SESSION, 15, "r", ""))).jobs
        link.slow_down(4 * MB)
        done = [Outcome(job.id, job.token, "s", b"x" * MB) for job in held]
        assert await lw.runtime.arun(leases.settle(QUEUE, SESSION, done, 60_000)) == [True] * 15
