"""Search of jobs in all places and in history: each job is found once, by its properties, page by page."""

from __future__ import annotations

import json
import random
import time
from base64 import urlsafe_b64encode
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import redis

from lockwork import ConfigError, Lockwork
from lockwork.ids import job_suffix, new_ids
from lockwork.jobs.search import JobPage, JobRow
from lockwork.jobs.snapshot import tags_of
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queue import enqueue, leases, record_header, records
from lockwork.protocol.queue import job_control as control
from lockwork.protocol.queue.enqueue import NewJob
from lockwork.protocol.queue.leases import Leased, Outcome
from lockwork.protocol.queue.record_header import JobLimits
from lockwork.protocol.search.search_position import BLOCKED, STAGES, Position

KEYS = QueueKeys("lw", "default")
SESSION = "host/1/a"
WINDOW_MS = 600_000
ERROR = b'{"type":"ValueError","message":"no such order: \\"42\\"","traceback":"line 1"}'


def body(task: str, *args: object, **options: Any) -> bytes:
    """Return a plain record."""
    arguments = ",".join(repr(arg).replace("'", '"') for arg in args)
    tags = b',{},{"tags":["%s"]}' % options["tag"].encode() if "tag" in options else b""
    return b'1,4,,;["%s",[%s]%s]' % (task.encode(), arguments.encode(), tags)


class Filled:
    """A queue with jobs in each place, and their expected states."""

    def __init__(self, lw: Lockwork, queue: QueueKeys = KEYS) -> None:
        self.run = lw.runtime.run
        self.queue = queue
        self.states: dict[str, str] = {}
        self.tasks: dict[str, str | None] = {}
        self.held: dict[str, Leased] = {}
        self.run(leases.beat(queue, {SESSION: True}, 600_000, 5))

    def push(self, record: bytes, count: int = 1, delay: int = 0, *, suffixes: bool = True) -> list[str]:
        """Give every other ID a suffix, including the first one."""
        task = records.read(record, len(record), "").task
        key = record_header.names(record).key
        suffix = job_suffix(task, tags_of(record), key) if suffixes and task is not None else ""
        ids = [id + (suffix if number % 2 == 0 else "") for number, id in enumerate(new_ids(count))]
        self.tasks |= dict.fromkeys(ids, task)
        self.run(enqueue.push(self.queue, [NewJob(id, record, delay) for id in ids]))
        self.states |= dict.fromkeys(ids, "scheduled" if delay else "ready")
        return ids

    def lease(self, count: int) -> list[Leased]:
        held = self.run(leases.reserve(self.queue, SESSION, count, new_ids(1)[0], "")).jobs
        self.states |= dict.fromkeys([job.id for job in held], "running")
        self.held |= {job.id: job for job in held}
        return held

    def settle(self, jobs: list[Leased], kind: str) -> None:
        value, delay = (ERROR, 500_000) if kind == "r" else (ERROR, 0) if kind == "d" else (b"1", 0)
        ends = [Outcome(job.id, job.token, kind, value, delay) for job in jobs]  # type: ignore[arg-type]
        assert all(self.run(leases.settle(self.queue, SESSION, ends, WINDOW_MS)))
        state = {"r": "scheduled", "d": "dead", "s": "succeeded", "c": "cancelled"}[kind]
        for job in jobs:
            self.states[job.id] = state
            del self.held[job.id]

    def step(self, chosen: random.Random) -> None:
        count, keyed = (
            chosen.randrange(1, 9),
            record_header.head(1, 4, "k", "g", JobLimits(at_once=3)) + b'["keyed",[1]]',
        )
        match chosen.randrange(5):
            case 0:
                self.push(chosen.choice([body("send", 1), keyed, body("save").replace(b"1,", b"0,", 1)]), count)
            case 1:
                self.push(body("later"), count, 500_000)
            case 2:
                self.lease(count)
            case 3:
                self.settle(self.lease(count), chosen.choice("sdrc"))
            case _:
                for id in [id for id, state in self.states.items() if state in ("ready", "scheduled")][:count]:
                    self.cancel(id)

    def end(self) -> None:
        self.settle(list(self.held.values()), "s")

    def cancel(self, id: str) -> None:
        assert self.run(control.cancel(self.queue, id, "lw")) == "cancelled"
        self.states[id] = "cancelled"


def pages(lw: Lockwork, limit: int, **wanted: Any) -> list[JobRow]:
    """Return the rows of all pages."""
    found: list[JobRow] = []
    after = None
    while True:
        page = lw.jobs(limit=limit, after=after, **wanted)
        assert len(page.jobs) <= limit
        found += page.jobs
        after = page.next
        if after is None:
            return found


def test_next_of_a_page_is_short_with_many_queues(lw: Lockwork) -> None:
    record = body("send", 1)
    for number in range(300):
        queue = QueueKeys("lw", f"a-long-name-of-a-queue-{number:03}")
        ids = new_ids(2)
        lw.runtime.run(enqueue.push(queue, [NewJob(ids[0], record, 0), NewJob(ids[1], record, 500_000)]))
    found: list[str] = []
    after = None
    while True:
        page = lw.jobs(limit=250, after=after)
        found += [job.id for job in page.jobs]
        if page.next is None:
            break
        after = page.next
        assert len(after) < 200
    assert len(found) == len(set(found)) == 600


ODD = [
    "", "e30=", "WzFd", "bnVsbA==", "\N{SNOWMAN}", "====", "A" * 5000,
    *(
        urlsafe_b64encode(json.dumps(position).encode()).decode()
        for position in (
            [9, True, 0, "", ""], [-1, True, 0, "", ""], [0, True, -2, "", ""], [0, 1, 0, "", ""],
            [0.0, True, 0, "", ""],
            [1, True, 2**53, "", ""], [BLOCKED, True, 2**64, "", ""], [BLOCKED, True, 0, "x", ""],
            [BLOCKED, True, 0, "9" * 30, ""],
            [6, True, 5, "\ud800", ""], [1, True, 0, "", "\ud800"], [6, True, 1e300, "", ""], [6, True, 5, None, ""],
            [0, True, 0, "", "", ""], [True, True, 0, "", ""],
        )
    ),
]  # fmt: skip


@pytest.mark.parametrize("after", ODD[1:])
def test_malformed_page_position_is_refused(lw: Lockwork, after: str) -> None:
    with pytest.raises(ConfigError, match="after is the `next` of an earlier page"):
        lw.jobs(after=after)


@pytest.mark.parametrize("seed", range(30))
def test_search_from_any_position_lists_jobs_once(lw: Lockwork, seed: int) -> None:
    """A position from another search, or an invented one, is accepted as a start."""
    chosen = random.Random(seed)
    queue = Filled(lw)
    for _ in range(10):
        queue.step(chosen)
    stage = chosen.randrange(len(STAGES))
    at = chosen.choice([-1, 0, 1, 3, 2**53 - 1, int(time.time() * 1_000_000), int(time.time() * 1000)])
    id = str(chosen.randrange(5)) if stage == BLOCKED else chosen.choice(["", "x", "\udc80", *queue.states])
    state = chosen.choice([None, "ready", "scheduled", "dead", "done", "running"])
    position = Position(stage, chosen.random() < 0.5, at, id, chosen.choice(["", "0", "zzz"]))
    found: list[str] = []
    after: str | None = position.text()
    while after is not None:
        page = lw.jobs(limit=3, after=after, newest=position.newest, state=state)  # type: ignore[arg-type]
        found += [job.id for job in page.jobs]
        after = page.next
    assert len(found) == len(set(found))
    assert set(found) <= set(queue.states)
    queue.end()


@pytest.mark.parametrize("newest", [True, False])
@pytest.mark.parametrize("seed", range(8))
def test_jobs_are_found_once_in_their_state(lw: Lockwork, seed: int, newest: bool) -> None:
    chosen = random.Random(seed)
    queues = [Filled(lw), Filled(lw, QueueKeys("lw", "mail/0")), Filled(lw, QueueKeys("lw", "mail/1"))]
    for _ in range(25):
        chosen.choice(queues).step(chosen)
    for queue in queues:
        queue.lease(0)  # moves jobs with a key into their queues
    expected = {id: state for queue in queues for id, state in queue.states.items()}
    for limit in (1, 7, 1000):
        assert {job.id: job.state for job in pages(lw, limit, newest=newest)} == expected
        assert not [id for id, count in Counter(job.id for job in pages(lw, limit, newest=newest)).items() if count > 1]
    for state in ("ready", "scheduled", "running", "dead", "succeeded", "cancelled", "expired"):
        found = pages(lw, 3, state=state, newest=newest)
        assert sorted(job.id for job in found) == sorted(id for id, known in expected.items() if known == state)
    tasks = {id: task for queue in queues for id, task in queue.tasks.items()}
    for task in ("send", "save", "keyed", "later"):
        found = pages(lw, 3, task=task, newest=newest)
        assert sorted(job.id for job in found) == sorted(id for id, known in tasks.items() if known == task)
    mail = lw.jobs("mail", state="running")
    assert mail.total == sum(state == "running" for queue in queues[1:] for state in queue.states.values())
    assert {job.queue for job in mail.jobs} <= {"mail"}
    assert lw.jobs(state="ready").total == sum(state == "ready" for state in expected.values())
    for queue in queues:
        queue.end()


def test_newest_come_first_and_the_next_due(lw: Lockwork) -> None:
    queue = Filled(lw)
    ended = []
    for number in range(6):
        queue.push(body("send", number))
        ended += queue.lease(1)
        queue.settle(ended[-1:], "ds"[number % 2])
    for newest in (True, False):
        found = pages(lw, 2, state="done", newest=newest)
        assert {job.id for job in found} == {job.id for job in ended}
        times_ms = [
            int(job.ended.timestamp() * 1000) for job in found if job.ended
        ]  # dead jobs are ordered by milliseconds
        assert times_ms == sorted(times_ms, reverse=newest)
    times = [queue.push(body("later"), 1, delay)[0] for delay in (300_000, 100_000, 200_000)]
    assert [job.id for job in pages(lw, 1, state="scheduled")] == [times[1], times[2], times[0]]


def test_search_filters_select_matching_jobs(lw: Lockwork) -> None:
    queue = Filled(lw)
    [dead] = queue.push(body("send", 42, "x"))
    queue.settle(queue.lease(1), "d")
    [retried] = queue.push(body("send", 42.5))
    queue.settle(queue.lease(1), "r")
    [tagged] = queue.push(body("save", 7, tag="vip"))
    [named] = queue.push(b'1,4,,;["save",[],{"n":42,"odd":"\xc3\xa4"}]')
    [keyed] = queue.push(record_header.head(1, 4, "order:7", "shop") + b'["ship",[1]]')
    [behind] = queue.push(record_header.head(1, 4, "order:7") + b'["ship",[2]]')

    def ids(**wanted: Any) -> set[str]:
        return {job.id for job in pages(lw, 2, **wanted)}

    assert ids(task="send") == {dead, retried}
    assert ids(task="sen") == set()
    assert ids(arg="42") == {dead, named}
    assert ids(arg="n=42") == {named}
    assert ids(arg="n=7") == set()
    assert ids(arg="ä") == ids(arg="odd=ä") == {named}
    assert ids(tag="vip") == {tagged}
    assert ids(error="ValueError") == ids(error="no such order") == ids(error='"42"') == {dead, retried}
    assert ids(error="ValueError", state="scheduled") == {retried}
    assert ids(error="ValueError: no such") == ids(error="Error: no") == ids(error="ValueError:") == {dead, retried}
    assert ids(error="ValueError: such") == set()
    assert ids(text="order:7") == ids(key="order:7") == {keyed, behind}
    assert ids(group="shop") == {keyed}
    assert ids(text=dead) == ids(text=dead[3:]) == {dead}
    assert dead in ids(text="ValueError: no such") & ids(text="ValueError:") & ids(text=" such order")
    assert ids(since="1h") == {dead, retried, tagged, named, keyed, behind}
    assert ids(until="1h") == set()
    now, hour = datetime.now(UTC), timedelta(hours=1)
    assert ids(since=now - hour, until=now + hour) == ids(since="1h")
    assert ids(since=now - 2 * hour, until=now - hour) == set()
    with pytest.raises(ConfigError, match="since must be a datetime with a zone"):
        ids(since=now.replace(tzinfo=None))


def test_parameter_of_a_registered_task_is_named(lw: Lockwork) -> None:
    @lw.task
    async def send(to: str, count: int) -> None: ...

    job, _ = send.enqueue("a", 5), send.enqueue("b", 6)
    assert [row.id for row in lw.jobs(arg="count=5").jobs] == [job.id]


@pytest.mark.parametrize(
    ("value", "texts"),
    [
        (1e-7, ["1e-07", "1e-7", "1E-7", "1.0e-7", "0.0000001", "+1e-7", "n=1e-07", "n=1e-7"]),
        (-2.5e20, ["-2.5e+20", "-2.5e20", "n=-2.5e+20", "-250000000000000000000.0"]),
        (1e16, ["1e+16", "1e16", "10000000000000000.0", "n=1e+16"]),
        (42.5, ["42.5", "42.50", "4.25e1", "n=42.5"]),
        (0.0001, ["0.0001", "1e-4", "n=.0001"]),
        ("1e-07", ["1e-07", "n=1e-07"]),
    ],
)
def test_float_is_found_in_every_form(lw: Lockwork, value: Any, texts: list[str]) -> None:
    send = lw.task(name="send")(lambda n: None)
    job = send.enqueue(value)
    send.enqueue_many([(1e-8,), (1,), (7,), ("x",), (True,), (None,), (1e300,)])
    assert [lw.jobs(arg=text).jobs[0].id for text in texts] == [job.id] * len(texts)
    assert lw.jobs(arg=texts[0]).jobs[0].args == (value,)
    assert not any(lw.jobs(arg=text).jobs for text in ("1e-9", "42", "n=1e", "e16", "1.0", "7.0"))


def test_keys_and_groups_are_found_in_line(lw: Lockwork, admin: redis.Redis) -> None:
    queue = Filled(lw)
    queue.push(body("send"), 300)
    in_line = [queue.push(record_header.head(1, 4, "a", "g") + b'["ship",[]]')[0] for _ in range(3)]
    queue.push(record_header.head(1, 4, "b", "g2") + b'["ship",[]]', 3)
    lw.queue().pause()
    lw.runtime.run(leases.reserve(KEYS, SESSION, 1, "r1", ""))  # moves jobs into the queues of their keys and groups
    assert admin.zcard(KEYS.group_queue) == 6
    page = lw.jobs(key="a", state="ready")
    assert ({job.id for job in page.jobs}, page.total) == (set(in_line), 306)
    assert page.searched < 20, "the plain jobs are not searched"
    assert {job.id for job in lw.jobs(group="g", state="ready").jobs} == set(in_line)


def test_search_stops_when_its_budget_is_used_up(lw: Lockwork) -> None:
    queue = Filled(lw)
    [wanted] = queue.push(body("rare", 1))
    for _ in range(3):
        queue.push(body("send", 1), 1000, suffixes=False)
    page, steps = lw.jobs(task="rare", budget=1000), 1
    assert (page.jobs, page.total) == ([], 3001)
    assert page.searched == 1000
    while page.next is not None and not page.jobs:
        page, steps = lw.jobs(task="rare", budget=1000, after=page.next), steps + 1
    assert ([job.id for job in page.jobs], steps) == ([wanted], 4)


@pytest.mark.parametrize("state", [None, "ready", "scheduled", "dead", "done"])
def test_ids_tell_the_task_and_the_tags(lw: Lockwork, state: Any) -> None:
    """With a budget of 500 records, the search skips 3,000 jobs by their IDs."""
    queue = Filled(lw)

    options: Any = {"delay": "1h"} if state == "scheduled" else {}
    rare = lw.task(name="rare")(lambda: None).options(**options).enqueue_many([()] * 3)
    send = lw.task(name="send")(lambda: None).options(**options)
    tagged = send.options(tags=["vip", "new"]).enqueue_many([()] * 3)
    keyed = send.options(key="order:7").enqueue_many([()] * 3)
    both = send.options(key="order:8", tags=["old"]).enqueue()
    others = send.enqueue_many([()] * 3000)
    if state in ("dead", "done"):
        while held := queue.lease(500):
            queue.settle(held, "d")
    matching: list[tuple[Any, Any]] = [
        ({"task": "rare"}, rare),
        ({"tag": "vip"}, tagged),
        ({"tag": "new", "task": "send"}, tagged),
        ({"key": "order:7"}, keyed),
        ({"key": "order:8"}, [both]),
        ({"key": "order:8", "tag": "old"}, [both]),
    ]
    for wanted, jobs in matching:
        page = lw.jobs(**wanted, state=state, budget=500)
        assert {job.id for job in page.jobs} == {job.id for job in jobs}
        assert page.next is None
        assert page.searched in (len(others) + 10, 4), "jobs that wait with a key have an index"
    assert lw.jobs(task="send", tag="odd", state=state, budget=500).jobs == []
    assert lw.jobs(task="rare", key="order:7", state=state, budget=500).jobs == []


@pytest.mark.parametrize("delay", [0, 500_000])
def test_ids_tell_when_waiting_jobs_were_enqueued(lw: Lockwork, monkeypatch: pytest.MonkeyPatch, delay: int) -> None:
    """With a budget of 500 records, the search skips 3,000 jobs of another time by their IDs."""
    queue, now = Filled(lw), time.time_ns()
    few = body("send")
    for hours, many in ((7, 3), (5, 3000), (3, 3), (1, 3000), (0, 3)):
        with monkeypatch.context() as patched:
            patched.setattr("lockwork.ids._last", 0)
            patched.setattr("lockwork.ids.time.time_ns", lambda at=now - hours * 3_600_000_000_000: at)
            queue.push(few, many, delay, suffixes=hours == 3)
    lw.runtime.run(enqueue.push(KEYS, [NewJob("nightly@2026-11-24T03:00:00Z", few, delay)]))
    for wanted, count in (({"since": "30m"}, 3), ({"since": "4h", "until": "2h"}, 3), ({"until": "6h"}, 4)):
        page = lw.jobs(budget=700, **wanted)  # type: ignore[arg-type]
        assert len(page.jobs) == count, wanted
        assert page.searched == 6010


def test_job_that_becomes_another_call_is_found_by_its_new_tags(lw: Lockwork) -> None:
    sync = lw.task(name="sync", unique="sync", on_duplicate="replace")(lambda: None)
    job = sync.options(tags=["old"]).enqueue()
    assert sync.options(tags=["new"]).enqueue().id == job.id
    assert [row.id for row in lw.jobs(tag="new", task="sync").jobs] == [job.id]


def test_long_record_is_shown_without_arguments(lw: Lockwork) -> None:
    queue = Filled(lw)
    [id] = queue.push(body("send", "x" * 5000, "end"))
    [row] = lw.jobs().jobs
    assert (row.task, row.args, row.size) == ("send", None, len(body("send", "x" * 5000, "end")))
    assert [job.id for job in lw.jobs(arg="end").jobs] == [id], "the server searches all of its record"
    assert lw.jobs(arg="ende").jobs == []
    assert lw.job(id).inspect().args == ("x" * 5000, "end")


def test_jobs_that_are_no_calls_are_shown(lw: Lockwork, admin: redis.Redis) -> None:
    queue = Filled(lw)
    queue.push(b"\xff\xfe")
    queue.push(b"1,4,,;{")
    admin.hset(KEYS.history, "odd", b"\x01")
    admin.zadd(KEYS.history_order, {"odd": 5})
    assert [(row.task, row.args, row.state) for row in lw.jobs().jobs] == [(None, None, "ready")] * 2


async def test_async_search_returns_pages(alw: Lockwork) -> None:
    @alw.task
    async def send(n: int) -> None: ...

    job = await send.aenqueue(1)
    page = await alw.ajobs("default", state="ready")
    assert isinstance(page, JobPage)
    assert [row.id for row in page.jobs] == [job.id]


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ({"state": "gone"}, "state must be one of ready"),
        ({"limit": 0}, "limit must be"),
        ({"after": "x"}, "after is the `next` of an earlier page"),
        ({"after": Position(0, False).text()}, "in the same order"),
        ({"colour": "red"}, "cannot be searched by 'colour'"),
        ({"arg": 42}, "arg is text, not 42"),
        ({"newest": 1}, "newest must be True or False"),
        ({"queue": "a b"}, "a queue's name"),
        ({"since": "x"}, "since"),
    ],
)
def test_wrong_search_filters_are_refused(lw: Lockwork, wanted: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        lw.jobs(**wanted)
