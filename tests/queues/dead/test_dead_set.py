"""Dead jobs on a real server: searched, grouped, retried, deleted and kept within bounds, even with corrupt keys."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import pytest
import redis
from rich.console import Console

from indexed import listed
from lockwork import ConfigError, JobFailed, Lockwork, ServerRefused
from lockwork.cli.dead_reports import jobs_report
from lockwork.ids import new_ids
from lockwork.protocol.dead import dead
from lockwork.protocol.dead.dead import Bounds, Filter
from lockwork.protocol.effects import Protocol
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queue import enqueue, leases
from lockwork.protocol.queue.enqueue import NewJob
from lockwork.protocol.queue.leases import Outcome
from processes import started

KEYS = QueueKeys("lw", "default")
SESSION = "host/1/a"
WINDOW_MS = 600_000
T = TypeVar("T")


def bury(lw: Lockwork, records: list[bytes], error: bytes = b'{"type":"ValueError","message":"no"}') -> list[str]:
    """Let jobs with these records die; return their IDs."""
    if len(records) > 500:
        return bury(lw, records[:500], error) + bury(lw, records[500:], error)
    new = [NewJob(id, record) for id, record in zip(new_ids(len(records)), records, strict=True)]
    lw.runtime.run(enqueue.push(KEYS, new))
    lw.runtime.run(leases.beat(KEYS, {SESSION: True}, 60_000, 1))
    remaining = len(new)
    while remaining:
        # a call leases at most a megabyte of records, but at least one
        batch = lw.runtime.run(leases.reserve(KEYS, SESSION, remaining, new_ids(1)[0], ""))
        assert batch.jobs
        remaining -= len(batch.jobs)
        outcomes = [Outcome(job.id, job.token, "d", error) for job in batch.jobs]
        assert all(lw.runtime.run(leases.settle(KEYS, SESSION, outcomes, WINDOW_MS)))
    return [job.id for job in new]


def calls(task: str, count: int) -> list[bytes]:
    return [b'1,1,,;["%s",[%d]]' % (task.encode(), at) for at in range(count)]


def test_search_group_retry_delete(lw: Lockwork) -> None:
    found = lw.queue().dead
    bury(lw, calls("send", 3))
    bury(lw, calls("save", 2), b'{"type":"OSError","message":"disk full","traceback":"line 1"}')
    assert found.count() == 5
    assert [job.call.args for job in found.search(task="send", limit=2).jobs] == [[2], [1]]
    assert found.count(text="disk") == found.count(error="OSError") == found.count(task="save") == 2
    assert found.count(older_than="1h") == 0
    assert found.count(newer_than="1h", error="OSError") == 2
    assert [(group.count, group.task, group.error) for group in found.groups()] == [
        (3, "send", "ValueError"),
        (2, "save", "OSError"),
    ]
    one = found.search(error="OSError", limit=1).jobs[0]
    assert one.error.traceback is None
    whole = found.get(one.id)
    assert whole is not None
    assert whole.error.traceback == "line 1"
    assert found.retry_all(task="send", limit=1) == 1
    assert found.delete_all(error="OSError") == 2
    assert found.retry_all() == 2
    assert (found.count(), lw.queue().status().ready) == (0, 3)
    assert [job.attempts for job in lw.queue().peek()] == [0, 0, 0]


def between(steps: Protocol[T], act: Callable[[], object]) -> Protocol[T]:
    """Run the protocol, and call `act` after each of its calls."""
    reply = None
    while True:
        try:
            effect = steps.send(reply)
        except StopIteration as end:
            return cast("T", end.value)
        reply = yield effect
        act()


def test_later_deaths_are_neither_grouped_nor_counted(lw: Lockwork) -> None:
    """Otherwise, an endless stream of dead jobs would keep the search running."""
    died = bury(lw, calls("send", 450))

    def die() -> None:
        if len(died) < 2000:
            died.extend(bury(lw, calls("send", 250)))

    (group,) = lw.runtime.run(between(dead.groups(KEYS, Filter()), die))
    assert group.count == 450
    assert group.oldest >= group.newest >= 0
    before = len(died)
    assert lw.runtime.run(between(dead.count(KEYS, Filter(task="send")), die)) == before < len(died)


async def test_async_methods_of_dead_set(alw: Lockwork) -> None:
    found = alw.queue().dead
    assert (await found.acount(), await found.agroups(), (await found.asearch()).jobs) == (0, [], [])
    assert await found.aget("nobody") is None
    assert not await found.aretry("nobody")
    assert not await found.adelete("nobody")
    assert (await found.aretry_all(), await found.adelete_all()) == (0, 0)
    assert (await alw.queue().apeek(), await alw.queue().aclear(), await alw.aqueues()) == ([], 0, [])


def test_jobs_with_their_own_options_are_found(lw: Lockwork) -> None:
    bury(lw, [b'1,1,,;["send",[1],{"b":2},{"tags":["news"],"timeout":3}]'])
    (job,) = lw.queue().dead.search(task="send").jobs
    assert (job.call.task, job.call.args, job.call.kwargs, job.call.problem) == ("send", [1], {"b": 2}, None)


def test_pages_meet_each_job_once_while_others_leave(lw: Lockwork) -> None:
    found = lw.queue().dead
    ids = bury(lw, calls("send", 450))
    page = found.search(limit=7)
    seen = [job.id for job in page.jobs]
    while page.next:
        assert found.delete(seen[-1])
        page = found.search(limit=70, after=page.next)
        seen += [job.id for job in page.jobs]
    assert seen == sorted(ids, reverse=True)


def test_retried_dead_job_has_no_old_outcome(lw: Lockwork) -> None:
    (id,) = bury(lw, calls("send", 1))
    assert lw.job(id).state() == "dead"
    assert lw.queue().dead.retry(id)
    assert lw.job(id).state() == "ready"


def test_deleted_dead_job_keeps_its_outcome_as_long_as_results(lw: Lockwork) -> None:
    (id,) = bury(lw, calls("send", 1))
    assert lw.queue().dead.delete(id)
    with pytest.raises(JobFailed, match="ValueError: no"):
        lw.job(id).result(0)


def test_dead_set_is_trimmed_by_age_and_size(lw: Lockwork, admin: redis.Redis) -> None:
    ids = bury(lw, calls("send", 1200))
    trims = [lw.runtime.run(dead.trim(KEYS, Bounds(60_000, 100))) for _ in range(3)]
    assert trims == [(500, True), (500, True), (100, False)]
    assert {job.id for job in lw.queue().dead.search(limit=200).jobs} == set(ids[-100:])
    admin.zadd(KEYS.dead, {ids[-1]: 1})
    assert lw.runtime.run(dead.trim(KEYS, Bounds(60_000, 100))) == (1, False)
    assert [admin.hlen(key) for key in (KEYS.jobs, KEYS.errors, KEYS.tries)] == [99, 99, 99]


def test_large_dead_jobs_are_deleted_in_small_steps(lw: Lockwork) -> None:
    """twenty#26219: a bound by count alone fills the server, and deleting everything at once blocks it."""
    bury(lw, [b'1,1,,;["send",["' + b"x" * 900_000 + b'"]]'] * 12)
    found = lw.queue().dead
    assert found.count(task="send") == 12
    assert all(job.call.cut and job.call.task == "send" for job in found.search().jobs)
    assert found.retry_all(task="send", limit=2) == 2
    gone, more = lw.runtime.run(dead.trim(KEYS, Bounds(60_000, 0)))
    assert (gone < 10, more) == (True, True)
    assert found.delete_all() == 10 - gone
    assert lw.queue().clear() == 2


CORRUPT = [
    b"", b"x", b"9,1,,;{", b"1,1,,;[]", b'1,1,,;["send",5]', b"1,1,,;" + b"[" * 100_000, b"\xff\xfe;\xff",
    b"1,1,,;[5,[]]", b'1,1,,;["send",[],[]]',
]  # fmt: skip


def test_corrupt_records_and_errors_are_shown(lw: Lockwork, admin: redis.Redis) -> None:
    good = bury(lw, calls("send", 1))
    odd = bury(lw, CORRUPT, b"\xff no JSON")
    odder: Any = {b"\xfe\x1b[2J": 5, "lost": 6}
    admin.zadd(KEYS.dead, odder)
    found = lw.queue().dead
    page = found.search()
    assert {job.id for job in page.jobs} == {*good, *odd, "lost", "\udcfe\x1b[2J"}
    assert all(job.call.problem or job.call.cut for job in page.jobs if job.id not in good)
    assert sum(group.count for group in found.groups()) == len(page.jobs)
    out = io.StringIO()
    Console(file=out, width=80).print(*jobs_report({"default": page}).body)
    assert "\x1b" not in out.getvalue()
    assert not found.retry("lost")
    assert found.delete("lost")
    assert found.delete("\udcfe\x1b[2J")
    assert found.retry_all() == len(CORRUPT) + 1


@pytest.mark.parametrize("key", [KEYS.jobs, KEYS.errors, KEYS.tries])
def test_key_of_another_type_is_reported_and_unchanged(lw: Lockwork, admin: redis.Redis, key: str) -> None:
    (id,) = bury(lw, calls("send", 1))
    admin.set(key, "text")
    found = lw.queue().dead
    page = found.search()
    assert [job.id for job in page.jobs] == [id]
    assert page.problem is not None
    assert "WRONGTYPE" in page.problem
    assert found.get(id) is not None
    for call in (lambda: found.retry(id), lambda: found.delete(id), found.retry_all, found.delete_all):
        with pytest.raises(ServerRefused, match="data of another program"):
            call()
    assert admin.zcard(KEYS.dead) == 1


def test_dead_set_of_another_type_raises_server_refused(lw: Lockwork, admin: redis.Redis) -> None:
    admin.set(KEYS.dead, "text")
    for call in (lw.queue().dead.search, lw.queue().dead.groups, lw.queue().dead.count, lw.queue().dead.retry_all):
        with pytest.raises(ServerRefused, match="data of another program"):
            call()


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda found: found.search(tsk="x"), "did you mean 'task'"),
        (lambda found: found.search(limit=0), "limit must be"),
        (lambda found: found.search(after="nonsense"), "after is the"),
        (lambda found: found.search(older_than=-1), "older_than must be"),
        (lambda found: found.search(task="a b"), "a task's name must be"),
        (lambda found: found.count(text=5), "text is text"),
        (lambda found: found.retry(""), "a job's id"),
        (lambda found: found.delete(5), "a job's id"),
        (lambda found: found.retry_all(limit=True), "limit must be"),
    ],
)
def test_wrong_arguments_are_refused_before_a_call(call: Any, text: str) -> None:
    with Lockwork("redis://127.0.0.1:1", patience=0) as lw, pytest.raises(ConfigError, match=text):
        call(lw.queue().dead)


def test_wrong_dead_set_settings_are_refused() -> None:
    for setting in ({"dead_limit": -1}, {"dead_limit": True}, {"dead_ttl": 0}, {"dead_ttl": "soon"}):
        with pytest.raises(ConfigError, match=next(iter(setting))):
            Lockwork(**setting)


def test_clear_deletes_and_peek_lists_waiting_jobs(lw: Lockwork) -> None:
    @lw.task
    def send(number: int) -> None: ...

    send.enqueue_many([(number,) for number in range(1200)])
    later = send.options(delay=60, priority="high").enqueue(7)
    assert [job.call.args for job in lw.queue().peek(2, skip=999)] == [[999], [1000]]
    (job,) = lw.queue().peek(place="scheduled")
    assert (job.id, job.call.priority, job.call.args) == (later.id, "high", [7])
    assert job.due_in is not None
    assert 50 < job.due_in <= 60
    assert lw.queue().clear() == 1201
    status = lw.queue().status()
    assert (status.ready, status.scheduled, status.cleared, status.enqueued) == (0, 0, 1201, 1201)
    assert later.state() == "unknown"


def test_dead_command_lists_retries_and_deletes(lw: Lockwork, url: str, admin: redis.Redis) -> None:
    ids = bury(lw, calls("send", 3))
    listed(admin, "default", kind="queues")

    def command(*words: str, status: int = 0) -> str:
        with started([sys.executable, "-m", "lockwork", "dead", *words], folder=Path(__file__).parent, url=url) as ran:
            assert ran.process.stdout is not None
            text = ran.process.stdout.read().decode()
            assert ran.wait() == status, ran.errors
            return text + ran.errors

    dead_jobs = json.loads(command("--json"))["queues"]["default"]["jobs"]
    assert [job["id"] for job in dead_jobs] == ids[::-1]
    assert "ValueError: no" in command()
    assert json.loads(command("groups", "--json"))["queues"]["default"]["groups"][0]["count"] == 3
    assert json.loads(command("show", "--json", "-q", "default", ids[0]))["args"] == [0]
    assert "Missing option '--queue'" in command("retry", "--all", status=2)
    assert "retry needs ids" in command("retry", "-q", "default", status=2)
    assert "1 will run again" in command("retry", "-q", "default", ids[0])
    assert "not dead" in command("delete", "-q", "default", ids[0], status=1)
    assert "2 deleted" in command("delete", "-q", "default", "--task", "send", "--yes")
    assert command("list") == "no job is dead\n"
