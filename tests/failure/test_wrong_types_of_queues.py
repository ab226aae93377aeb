"""Foreign data in each key of a queue:

a clear error, no partial change, no lost job. Other queues continue, and so does this queue once the key is repaired.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest
import redis

from indexed import keys_but_indexes
from lockwork import Lockwork, ServerRefused
from lockwork.protocol.dead import dead
from lockwork.protocol.dead.dead import Filter
from lockwork.protocol.effects import Protocol
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queue import browse, enqueue, leases, record_header, sessions
from lockwork.protocol.queue import job_control as control
from lockwork.protocol.queue import status as queue_status
from lockwork.protocol.queue.enqueue import NewJob
from lockwork.protocol.queue.leases import Leased, Outcome
from lockwork.protocol.queue.record_header import JobLimits
from lockwork.protocol.schedules import schedules
from lockwork.runtime.embedded import Embedded
from lockwork.worker.ipc.messages import HardTimeout
from lockwork.worker.supervisor.heartbeat import DeadSetTrimmer, Heartbeat
from processes import until, worker

KEYS = QueueKeys("lw", "default")
SESSION = "host/1/a"
WINDOW = 600_000
NAMES = [
    "jobs", "due", "tries", "errors", "watch", "idle_workers", "workers", "stats", "dead", "job_notes", "expiry",
    "void", "long_results", "group_queue", "groups", "throttled", "rounds:0", "rounds:1", "rounds:2",
    "history", "history:order", "attempts",
    "ready:0", "ready:1", "ready:2", "results:0", "results:1", "schedules", "schedules:seen", f"run:{SESSION}",
]  # fmt: skip
Ask = Callable[[Protocol[Any]], Any]


class Populated:
    """Fill a queue with a job in every place."""

    def __init__(self, ask: Ask) -> None:
        plain, keyed = record_header.head(1, 4), record_header.head(1, 4, "k", "g", JobLimits(at_once=5))
        body = b'["work",[]]'
        ask(leases.beat(KEYS, {SESSION: True}, 600_000, 5))
        names = ["running", "keyed", "dies", "gone", "done"]
        ask(enqueue.push(KEYS, [NewJob(id, (keyed if id == "keyed" else plain) + body) for id in names]))
        held = {job.id: job for job in ask(leases.reserve(KEYS, SESSION, 10, "r1", "")).jobs}
        assert sorted(held) == sorted(names)
        ended = [
            Outcome("dies", held["dies"].token, "d", b"{}"),
            Outcome("done", held["done"].token, "s", b"1", 60_000),
        ]
        ask(leases.settle(KEYS, SESSION, ended, WINDOW))
        ask(leases.settle(KEYS, SESSION, [Outcome("gone", held["gone"].token, "c")], WINDOW))
        self.running: Leased = held["running"]
        ask(control.note(KEYS, SESSION, self.running, "step", b"1", 10_000))
        ask(enqueue.push(KEYS, [NewJob("ready", plain + body), NewJob("withdrawn", plain + body)]))
        ask(enqueue.push(KEYS, [NewJob("later", plain + body, 500_000), NewJob("waits", keyed + body)]))
        ask(enqueue.push(KEYS, [NewJob("expires", plain + body, 400_000)], expires_ms=500_000))
        ask(control.cancel(KEYS, "withdrawn", "lw"))
        ask(leases.job_state(KEYS, "later", "channel"))

    def operations(self, numbers: Iterator[int]) -> dict[str, Callable[[], Protocol[Any]]]:
        """Return every operation on the queue."""
        number = next(numbers)
        plain, keyed = (
            record_header.head(0, 4) + b"[]",
            record_header.head(2, 4, "k", "g", JobLimits(at_once=5)) + b"[]",
        )
        job = self.running
        return {
            "push": lambda: enqueue.push(KEYS, [NewJob(f"a{number}", plain)]),
            "push many": lambda: enqueue.push(KEYS, [NewJob(f"b{number}", plain), NewJob(f"c{number}", keyed)]),
            "push later": lambda: enqueue.push(KEYS, [NewJob(f"d{number}", plain, 1000)]),
            "push until": lambda: enqueue.push(KEYS, [NewJob(f"e{number}", plain)], expires_ms=90_000),
            "note": lambda: control.note(KEYS, SESSION, job, "step", b"2", 10_000),
            "asked": lambda: control.asked(KEYS, SESSION, [job]),
            "cancel running": lambda: control.cancel(KEYS, "running", "lw"),
            "settle": lambda: leases.settle(KEYS, SESSION, [Outcome("running", job.token, "r", b"{}", 1000)], WINDOW),
            "reserve": lambda: leases.reserve(KEYS, SESSION, 2, f"q{number}", "channel"),
            "reserve nothing": lambda: leases.reserve(KEYS, SESSION, 0, f"p{number}", "channel"),
            "pass on": lambda: sessions.forward_wakeup(KEYS, SESSION, "channel", 0, WINDOW),
            "give back": lambda: leases.recover(KEYS, SESSION, WINDOW, gone=True, counted=False),
            "cancel": lambda: control.cancel(KEYS, "later", "lw"),
            "cancel in line": lambda: control.cancel(KEYS, "waits", "lw"),
            "move": lambda: control.reschedule(KEYS, "expires", 1000),
            "revive": lambda: control.revive(KEYS, "gone"),
            "inspect": lambda: control.inspect(KEYS, "later", "channel"),
            "outcome": lambda: leases.job_state(KEYS, "done", "channel"),
            "expire": lambda: leases.expire(KEYS, WINDOW),
            "status": lambda: queue_status.status(KEYS),
            "peek": lambda: browse.peek(KEYS, "ready", 0, 10),
            "heads": lambda: sessions.queue_head(KEYS),
            "dead": lambda: dead.count(KEYS, Filter()),
            "retry dead": lambda: dead.retry(KEYS, Filter(), f"t{number}", None, anew=True),
            "delete dead": lambda: dead.delete_one(KEYS, "dies", f"u{number}"),
            "trim": lambda: dead.trim(KEYS, dead.Bounds(1, 1)),
            "schedules": lambda: schedules.listed(KEYS),
            "recover": lambda: leases.recover(KEYS, SESSION, WINDOW, gone=True),
            "clear": lambda: browse.clear(KEYS, f"v{number}", WINDOW),
            "beat": lambda: leases.beat(KEYS, {SESSION: False}, 1000, 5),
        }


def snapshot(client: redis.Redis) -> dict[bytes, bytes | None]:
    return {key: client.dump(key) for key in keys_but_indexes(client)}


@pytest.mark.parametrize("name", NAMES)
def test_operation_is_refused_whole_or_done(lw: Lockwork, admin: redis.Redis, name: str) -> None:
    ask: Ask = lw.runtime.run
    populated, numbers, refused, problems = Populated(ask), itertools.count(), 0, []
    key = f"{KEYS.base}:{name}"
    for what in populated.operations(itertools.count()):
        admin.flushall()
        populated = Populated(ask)
        admin.set(key, "text")
        before = snapshot(admin)
        try:
            ask(populated.operations(numbers)[what]())
        except ServerRefused as error:
            refused += 1
            if "contains data of another program" not in str(error):
                problems.append(f"{what} says {error}")
            if snapshot(admin) != before:
                problems.append(f"{what} was refused, and half done all the same")
    admin.flushall()
    assert refused
    assert not problems


def test_session_begins_on_the_usable_queues(lw: Lockwork, admin: redis.Redis) -> None:
    """A refusing queue later reports that a session could begin there; the session's end skips this queue."""
    queues = {name: QueueKeys("lw", name) for name in "ab"}
    nobody: list[Any] = []
    possible: list[str] = []
    trimmer = DeadSetTrimmer(lw.runtime, dead.Bounds(1000, 10))
    beats = Heartbeat(lw.runtime, queues, 600, WINDOW, nobody.append, nobody.append, trimmer, possible.append)
    admin.set(queues["a"].workers, "text")
    with pytest.raises(ServerRefused):
        beats.join(SESSION, 5, whole=True)
    assert list(beats.join(SESSION, 5, whole=False)) == ["a"]
    with pytest.raises(ServerRefused):
        beats._beat("a", queues["a"])
    beats._beat("b", queues["b"])
    assert possible == []
    admin.delete(queues["a"].workers)
    beats._beat("a", queues["a"])
    assert (nobody, possible) == ([], [SESSION])
    assert not admin.exists(queues["a"].workers), "a process that asks for no jobs there is no worker"
    admin.set(queues["a"].workers, "text")
    beats.leave(SESSION, 5, counted=True, without=["a"])
    assert not admin.exists(queues["b"].workers)
    admin.set(queues["b"].workers, "text")
    with pytest.raises(ServerRefused):
        beats.join(SESSION, 5, whole=False)
    admin.flushall()


@pytest.fixture
def busy(lw: Lockwork, admin: redis.Redis) -> Iterator[Callable[..., Heartbeat]]:
    """Return a heartbeat on the queues a, b and c, with one leased job per queue."""

    def make(on_timeout_settled: Callable[[HardTimeout], None] = lambda _: None) -> Heartbeat:
        queues = {name: QueueKeys("lw", name) for name in "abc"}
        nobody: list[Any] = []
        trimmer = DeadSetTrimmer(lw.runtime, dead.Bounds(1000, 10))
        beats = Heartbeat(lw.runtime, queues, 600, WINDOW, nobody.append, on_timeout_settled, trimmer)
        beats.join(SESSION, 5, whole=True)
        for name, keys in queues.items():
            lw.runtime.run(enqueue.push(keys, [NewJob(f"of {name}", record_header.head(1, 4) + b'["work",[]]')]))
            assert lw.runtime.run(leases.reserve(keys, SESSION, 1, "r1", "")).jobs
        return beats

    yield make
    admin.flushall()


@pytest.mark.parametrize("counted", [True, False])
def test_session_ends_on_the_usable_queues(
    lw: Lockwork, admin: redis.Redis, busy: Callable[..., Heartbeat], *, counted: bool
) -> None:
    """The bug: jobs of the queues after a refusing queue were returned only at the end of the lease."""
    beats = busy()
    refuses = QueueKeys("lw", "b").workers
    admin.rename(refuses, "aside")
    admin.set(refuses, "text")
    with pytest.raises(ServerRefused):
        beats.leave(SESSION, 5, counted=counted)
    assert [lw.queue(name).status().ready for name in "ac"] == [1, 1]
    admin.rename("aside", refuses)
    beats.leave(SESSION, 5, counted=counted)
    assert lw.queue("b").status().ready == 1


def test_job_of_a_killed_process_waits_for_its_outcome(
    lw: Lockwork, admin: redis.Redis, busy: Callable[..., Heartbeat]
) -> None:
    """A job returned without its outcome would run again, as after a crash."""
    judged: list[HardTimeout] = []
    beats = busy(judged.append)
    hard_timeouts = []
    for name in "ab":
        ((id, token),) = cast("dict[bytes, bytes]", admin.hgetall(QueueKeys("lw", name).run(SESSION))).items()
        hard_timeouts.append(HardTimeout(name, Outcome(id.decode(), token, "d", b"{}"), 1.0, "work"))
    refuses = f"{QueueKeys('lw', 'a').base}:results:0"
    admin.set(refuses, "text")
    with pytest.raises(ServerRefused):
        beats.leave(SESSION, 5, counted=True, hard_timeouts=hard_timeouts)
    assert [hard_timeout.queue for hard_timeout in judged] == ["b"]
    assert lw.queue("a").status().running == 1
    assert [lw.queue(name).status().ready for name in "bc"] == [0, 1]
    admin.delete(refuses)
    assert beats.leave(SESSION, 5, counted=True, hard_timeouts=hard_timeouts) == 0
    assert [hard_timeout.queue for hard_timeout in judged] == ["b", "a"]
    assert [lw.queue(name).status().dead for name in "ab"] == [1, 1]


def _add(a: int, b: int = 1) -> int:
    return a + b


def test_worker_continues_with_a_foreign_key(spoiled: Embedded, spoil: redis.Redis, apps: Path) -> None:
    """Meanwhile the worker runs jobs of another queue, and jobs of this queue after its key is restored."""
    url = spoiled.url
    options = ("--queues", "default,other", "--lease", "5s")
    with Lockwork(url) as lw, Lockwork(url) as app, worker("good:lw", *options, url=url, folder=apps) as process:
        add, other = lw.task(name="add")(_add), app.task(name="add", queue="other")(_add)
        assert other.enqueue(1).result(30) == 2
        assert add.enqueue(1).result(30) == 2
        for name in [name for name in NAMES if not name.startswith("run:")]:
            key = f"{KEYS.base}:{name}"
            before = add.options(delay="50ms").enqueue(10)
            kept = spoil.renamenx(key, "aside") if spoil.exists(key) else False
            spoil.set(key, "text")
            assert other.enqueue(5).result(30) == 6, f"{name}: the other queue stands still"
            spoil.delete(key)
            if kept:
                spoil.rename("aside", key)
            assert before.result(30) == 11, f"{name}: a job was lost"
        until(lambda: lw.queue().status().running == 0, "nothing is in hand")
        assert process.process.poll() is None
        status = lw.queue().status()
        assert (status.ready, status.scheduled, status.dead) == (0, 0, 0)
