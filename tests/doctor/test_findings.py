"""What the doctor finds, and what it says to do."""

from __future__ import annotations

import contextlib
import re
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime

import msgspec
import pytest
import redis

from lockwork import Lockwork
from lockwork.doctor import Finding, adeadlocks, afindings, examine, findings
from lockwork.doctor.rules import check_locks
from lockwork.errors import LockLost
from lockwork.protocol import announcements as protocol
from lockwork.protocol.announcements import APPS, WORKERS
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queues import leases
from lockwork.workers import SILENT, AnnouncedTask, App, Worker
from processes import until
from roles import as_role
from server_steps import Stepping, stepping

WORKER = Worker(
    "host/1/abc", "host", 1, "1", "shop:lw", ["mail"], 1, 10, datetime.now(UTC), 15.0, busy=2, slots=10, lag=0.001
)


@pytest.fixture
def mail(own_url: str) -> Iterator[Lockwork]:
    """An app on a server of its own."""
    with Lockwork(own_url) as lw:
        yield lw


def announce(lw: Lockwork, kind: protocol.Kind, record: Worker | App) -> None:
    lw.runtime.run(protocol.put("lw", kind, record.name, msgspec.msgpack.encode(record)))


def enqueue(lw: Lockwork, count: int = 1) -> None:
    @lw.task(queue="mail")
    def send(number: int) -> None: ...

    send.enqueue_many([(number,) for number in range(count)])


def begin_session(lw: Lockwork) -> None:
    lw.runtime.run(leases.beat(QueueKeys("lw", "mail"), {"host/1/abc": True}, 600_000, 1.0))


def test_nothing_is_wrong_on_an_empty_server(mail: Lockwork) -> None:
    assert findings(mail) == []


def test_queue_with_jobs_and_no_worker_is_serious_at_once(mail: Lockwork) -> None:
    enqueue(mail, 3)
    announce(mail, APPS, App("shop:lw", [AnnouncedTask("send", "mail", "thread", None, 3)], {}, [], "1"))
    assert findings(mail) == [
        Finding("serious", "Queue mail", "3 ready, and no worker.",
                "Start one: `lockwork worker shop:lw --queues mail`.", "queues/mail")
    ]  # fmt: skip
    begin_session(mail)
    assert findings(mail) == []


def test_partitions_of_a_queue_are_one_sentence(own_url: str) -> None:
    with Lockwork(own_url, partitions={"mail": 3}) as lw:

        @lw.task(queue="mail")
        def send(number: int) -> None: ...

        for number in range(30):
            send.enqueue(number)
        (found,) = findings(lw)
        assert (found.subject, found.text, found.link) == ("Queue mail", "30 ready, and no worker.", "queues/mail")
        assert found.fix.endswith("--queues mail`.")
        lw.runtime.run(leases.beat(QueueKeys("lw", "mail/1"), {"host/1/abc": True}, 600_000, 1.0))
        (found,) = findings(lw)
        assert found.subject == "Queue mail, 2 of its partitions"
        lw.runtime.run(leases.beat(QueueKeys("lw", "mail/0"), {"host/1/abc": True}, 600_000, 1.0))
        (found,) = findings(lw)
        assert (found.subject, found.link) == ("Queue mail/2", "queues/mail/2")


def test_quiet_workers_and_a_paused_queue_are_named(mail: Lockwork) -> None:
    enqueue(mail)
    begin_session(mail)
    announce(mail, WORKERS, replace(WORKER, state="quiet"))
    (found,) = findings(mail)
    assert (found.level, found.text) == ("serious", "1 ready, and all of its workers are quiet.")
    mail.queue("mail").pause()
    (found,) = findings(mail)
    assert (found.level, found.fix) == ("warning", "Resume it: `lockwork queue resume mail`.")


def test_jobs_that_wait_for_long_and_a_full_queue_are_warnings(mail: Lockwork, clock: Stepping) -> None:
    enqueue(mail, 2)
    begin_session(mail)
    mail.queue("mail").limit(size=2)
    clock.step(120)
    texts = [found.text for found in findings(mail)]
    assert texts == [
        "The oldest of 2 ready jobs has waited for 2 min.",
        "It is full: 2 jobs wait, and its size limit is 2.",
    ]


@pytest.fixture
def clock(own_url: str) -> Iterator[Stepping]:
    with redis.Redis.from_url(own_url) as admin, stepping(admin) as made:
        yield made


def test_recent_dead_jobs_are_counted(mail: Lockwork, own_url: str) -> None:
    enqueue(mail)
    mail.queue("mail").clear()
    with redis.Redis.from_url(own_url) as admin:
        now = int(time.time() * 1000)
        admin.zadd(QueueKeys("lw", "mail").dead, {f"a{number}": now - number * 60_000 for number in range(15)})
    (found,) = findings(mail)
    assert found == Finding(
        "info", "Queue mail", "9 jobs died in the last 10 minutes.", "See the errors: `lockwork dead --queue mail`.",
        "dead?queue=mail",
    ) or found.text.startswith("10 jobs")  # fmt: skip


def test_lost_and_late_workers_are_named(mail: Lockwork, clock: Stepping) -> None:
    enqueue(mail)
    mail.queue("mail").clear()
    announce(mail, WORKERS, replace(WORKER, lag=2.5))
    (found,) = findings(mail)
    assert (found.level, found.text) == ("warning", "Its event loop was late by 2.5 s.")
    clock.step(SILENT + 1)
    (found,) = findings(mail)
    assert "with 2 jobs running" in found.text


def test_apps_that_differ_in_partitions_are_serious(mail: Lockwork) -> None:
    task = AnnouncedTask("send", "mail", "thread", None, 3)
    for name, partitions in [("a:lw", {"mail": 4}), ("b:lw", {})]:
        announce(mail, APPS, App(name, [task], partitions, [], "1"))
        announce(mail, WORKERS, replace(WORKER, name=f"host/{name}", app=name))
    assert [found.level for found in findings(mail)] == ["serious", "info", "info"]


async def test_async_version_finds_the_same(own_url: str) -> None:
    async with Lockwork(own_url) as lw:
        assert [found for found in await afindings(lw) if found.level == "serious"] == []


async def test_user_who_may_not_read_locks_sees_no_deadlocks(own_url: str) -> None:
    async with Lockwork(as_role(own_url, "producer")) as lw:
        assert await adeadlocks(lw) == []


def test_findings_of_many_queues_are_quick(mail: Lockwork) -> None:
    for number in range(20):
        mail.task(queue=f"q{number}", name=f"t{number}")(lambda: None).enqueue()
    for number in range(200):
        announce(mail, WORKERS, replace(WORKER, name=f"host/{number}/abc", queues=[f"q{number % 20}"]))
    findings(mail)
    took = []
    for _ in range(5):
        began = time.process_time()
        findings(mail)
        took.append(time.process_time() - began)
    assert min(took) < 0.05


def test_deadlock_is_serious_and_names_holders_and_locks(own_url: str) -> None:
    with Lockwork(own_url) as lw, ThreadPoolExecutor(2, "buyer") as pool:
        both = threading.Barrier(2)

        def take(first: str, second: str) -> None:
            with lw.lock(first):
                both.wait(10)
                with lw.lock(second, wait=30):
                    pass

        waits = [pool.submit(take, "a", "b"), pool.submit(take, "b", "a")]
        (found,) = until(lambda: check_locks(lw.locks()), "it is found") or []
        assert found in examine(lw).findings
        assert (found.level, found.link) == ("serious", "locks")
        assert re.search(r"buyer_\d holds lock a and waits for lock b", found.text)
        assert found.fix == "Release one of the locks: `lockwork locks release a`."
        lw.lock("a").force_release()
        lw.lock("b").force_release()
        for each in waits:
            with contextlib.suppress(LockLost):
                each.result(30)
