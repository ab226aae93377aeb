"""A queue with more worker processes than one call counts, and more running jobs than one call reads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import redis

from lockwork import Lockwork
from lockwork.protocol.effects import Calls, Protocol
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queue import enqueue, leases, record_header
from lockwork.protocol.queue import status as queue_status
from lockwork.protocol.queue.enqueue import NewJob
from lockwork.protocol.search import search
from lockwork.protocol.search.search_sources import Wanted
from lockwork.telemetry.families import QueueFamilies

SESSIONS = [f"host/{number}/s" for number in range(1, 1101)]
KEYS = QueueKeys("lw", "mail")


@pytest.fixture
def crowd(lw: Lockwork, admin: redis.Redis) -> Iterator[Lockwork]:
    """An app whose queue has 1,100 worker processes with a job each."""
    for at in range(0, len(SESSIONS), 100):
        lw.runtime.run(leases.beat(KEYS, dict.fromkeys(SESSIONS[at : at + 100], True), 600_000, 1.0))
    _push(lw, [f"j{number}" for number in range(len(SESSIONS))])
    for session in SESSIONS:
        assert len(lw.runtime.run(leases.reserve(KEYS, session, 1, session, "")).jobs) == 1
    yield lw
    admin.delete(*map(KEYS.run, SESSIONS))


def _push(lw: Lockwork, ids: list[str]) -> None:
    record = record_header.head(1, 1) + b'["t",[]]'
    lw.runtime.run(enqueue.push(KEYS, [NewJob(id, record) for id in ids]))


def test_worker_processes_and_running_jobs_are_counted_completely(crowd: Lockwork) -> None:
    queue = crowd.queue("mail")
    assert {worker.session for worker in queue.workers()} == set(SESSIONS)
    assert {worker.running for worker in queue.workers()} == {1}
    assert queue.status().running == len(SESSIONS)
    (many,) = crowd.runtime.run(queue_status.statuses([KEYS]))
    assert (many[0].running, len(many[1])) == (len(SESSIONS), len(SESSIONS))
    families = {family.name: family for family in QueueFamilies(crowd.runtime, "lw").read(["mail"])}
    assert [sample.value for sample in families["queue_workers"].samples] == [len(SESSIONS)]
    running = [sample.value for sample in families["jobs"].samples if sample.labels["state"] == "running"]
    assert running == [len(SESSIONS)]


def test_search_finds_jobs_of_every_worker_process(crowd: Lockwork) -> None:
    found, after = set[str](), None
    while True:
        page = crowd.jobs("mail", state="running", limit=500, after=after)
        assert page.total == len(SESSIONS)
        found |= {row.id for row in page.jobs}
        if (after := page.next) is None:
            break
    assert found == {f"j{number}" for number in range(len(SESSIONS))}


def test_call_reads_part_of_many_running_jobs(lw: Lockwork, admin: redis.Redis) -> None:
    count = 12_000
    lw.runtime.run(leases.beat(KEYS, dict.fromkeys(SESSIONS[:2], True), 600_000, 1.0))
    _push(lw, [f"j{number}" for number in range(count)])
    for session, most in ((SESSIONS[0], count - 100), (SESSIONS[1], 100)):
        leased = 0
        while leased < most:
            want = min(1000, most - leased)
            leased += len(lw.runtime.run(leases.reserve(KEYS, session, want, f"r{leased}", "")).jobs)
    sizes: list[int] = []
    assert lw.runtime.run(_measured(sizes)) == count
    assert max(sizes) < 6_000
    assert lw.queue("mail").status().running == count
    admin.delete(*map(KEYS.run, SESSIONS[:2]))


def _measured(sizes: list[int]) -> Protocol[int]:
    """Search the running jobs; record the number that each call returns."""
    protocol: Any = search.search([KEYS], Wanted(frozenset({"running"})), None, 10, 100)
    value: Any = None
    while True:
        try:
            effect = protocol.send(value)
        except StopIteration as done:
            return int(done.value.total)
        value = yield effect
        replies = value if type(effect) is Calls else [value]
        sizes += [sum(len(part) // 2 for part in reply if isinstance(part, list)) for reply in replies]
