"""Findings of the doctor and their fixes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime

import msgspec
import pytest
import redis

from lockwork import Lockwork
from lockwork.doctor.finding import Finding
from lockwork.doctor.findings import findings
from lockwork.protocol.announcements import announcements
from lockwork.protocol.announcements.announcements import APPS, WORKERS
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queue import leases
from lockwork.workers import SILENT, AnnouncedTask, App, Worker
from server_steps import Stepping, stepping

WORKER = Worker(
    "host/1/abc", "host", 1, "1", "shop:lw", ["mail"], 1, 10, datetime.now(UTC), 15.0, busy=2, slots=10, lag=0.001
)


@pytest.fixture
def mail(own_url: str) -> Iterator[Lockwork]:
    """An app on a private server."""
    with Lockwork(own_url) as lw:
        yield lw


def announce(lw: Lockwork, kind: announcements.Kind, record: Worker | App) -> None:
    lw.runtime.run(announcements.put("lw", kind, record.name, msgspec.msgpack.encode(record)))


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


def park(lw: Lockwork, version: str) -> None:
    """Let a worker give back a job of a task `send`, once."""
    keys = QueueKeys("lw", "mail")
    (job,) = lw.runtime.run(leases.reserve(keys, "host/1/abc", 1, "a", "")).jobs
    lw.runtime.run(leases.settle(keys, "host/1/abc", [leases.parked(job, "send", version)], 600_000))


@pytest.mark.parametrize("version", ["", "v1"])
def test_jobs_that_no_worker_can_run_are_named(mail: Lockwork, clock: Stepping, version: str) -> None:
    begin_session(mail)
    enqueue(mail)
    park(mail, version)
    announce(mail, WORKERS, WORKER)
    announce(mail, APPS, App("shop:lw", [AnnouncedTask("send", "mail", "thread", None, 3, version="v1")], {}, [], "1"))
    if not version:
        announce(mail, APPS, App("shop:lw", [AnnouncedTask("other", "mail", "thread", None, 3)], {}, [], "1"))
    (found,) = findings(mail)
    said = "does not fit the task in any worker" if version else "waits for a worker that knows it"
    assert (found.level, found.subject) == ("warning", "Queue mail")
    assert found.text.startswith(f"1 job of task 'send' {said}, for ")


def test_parked_jobs_of_known_task_are_information_when_they_wait_long(mail: Lockwork) -> None:
    begin_session(mail)
    enqueue(mail)
    park(mail, "")
    announce(mail, WORKERS, WORKER)
    task = AnnouncedTask("send", "mail", "thread", None, 3)
    announce(mail, APPS, App("shop:lw", [replace(task, name="new", aliases=["send"])], {}, [], "1"))
    assert findings(mail) == []


def test_queue_that_apps_share_without_sharing_tasks_is_named(mail: Lockwork) -> None:
    begin_session(mail)
    enqueue(mail)
    for name, task in [("a:lw", "send"), ("b:lw", "receive")]:
        announce(mail, APPS, App(name, [AnnouncedTask(task, "mail", "thread", None, 3)], {}, [], "1"))
        announce(mail, WORKERS, replace(WORKER, name=f"host/{name}", app=name))
    (found,) = findings(mail)
    assert (found.level, found.subject) == ("warning", "Queue mail")
    assert found.text == "Workers of different apps serve it, and share no task: a:lw and b:lw."
    announce(mail, APPS, App("b:lw", [AnnouncedTask("send", "mail", "thread", None, 3)], {}, [], "1"))
    assert findings(mail) == []


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
