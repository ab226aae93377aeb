"""Jobs and tasks that misbehave: each gets its outcome, the worker continues, and no job stays leased (Q1, Q5)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from app_modules import Load
from lockwork import JobFailed
from lockwork.ids import new_id
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queue import enqueue
from lockwork.protocol.queue.enqueue import NewJob
from lockwork.runtime.embedded import start_private
from processes import until, worker


@pytest.fixture(scope="module")
def odd_url(tmp_path_factory: pytest.TempPathFactory, apps: Path) -> Iterator[str]:
    """A server and a worker that these tests may damage."""
    with start_private(tmp_path_factory.mktemp("odd")) as server:
        with worker("chores:lw", "--lease", "5", "--concurrency", "5", url=server.url, folder=apps):
            yield server.url


@pytest.fixture
def odd(odd_url: str, load: Load) -> Iterator[Any]:
    module = load(odd_url, "chores")
    with module.lw:
        yield module
        # check that the worker still works, and that no job stays leased
        assert module.add.enqueue(1, 2).result(30) == 3
        until(lambda: module.lw.queue().status().running == 0, "nothing runs any more")


@pytest.mark.parametrize(
    ("what", "text"),
    [
        ("surrogate", "ValueError"),
        ("odd", "Odd"),
        ("base", "Base: not an Exception"),
        ("exit", "SystemExit: 3"),
        ("interrupt", "KeyboardInterrupt"),
        ("cancelled", "CancelledError"),
        ("generator", "GeneratorExit"),
        ("stop", "StopAsyncIteration"),
        ("long", "ValueError: xxx"),
    ],
)
def test_exception_of_a_coroutine_is_its_outcome(odd: Any, what: str, text: str) -> None:
    with pytest.raises(JobFailed) as caught:
        odd.raises.enqueue(what).result(30)
    assert text in str(caught.value)
    assert len(str(caught.value)) < 2000


@pytest.mark.parametrize("what", ["base", "exit", "interrupt", "stop"])
def test_exception_in_a_thread_is_its_outcome(odd: Any, what: str) -> None:
    with pytest.raises(JobFailed):
        odd.raises_in_a_thread.enqueue(what).result(30)


@pytest.mark.parametrize(
    ("what", "text"),
    [
        ("object", "the result of task 'returns' cannot be sent as JSON"),
        ("large", "PayloadTooLarge: the result of task 'returns' would be"),
        ("surrogate", "the result of task 'returns' cannot be sent as JSON"),
        ("nan", "the result of task 'returns' cannot be sent as JSON"),
    ],
)
def test_result_that_cannot_be_stored_fails_the_job(odd: Any, what: str, text: str) -> None:
    with pytest.raises(JobFailed) as caught:
        odd.returns.enqueue(what).result(30)
    assert text in str(caught.value)


def push(app: Any, body: bytes, header: bytes = b"1,1,,;") -> Any:
    """Enqueue raw bytes, as another program might."""
    id = new_id()
    app.lw.runtime.run(enqueue.push(QueueKeys("lw", "default"), [NewJob(id, header + body)]))
    return app.lw.job(id)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b"null",
        b"{}",
        b"[]",
        b'["add"]',
        b'["add",5]',
        b'["add",[1],5]',
        b'["tomorrow",[],5]',
        b'["tomorrow",[],[]]',
        b'["add",[1],{},null]',
        b'["add",[1],{"c":2}]',
        b'["add",[]]',
        b"[5,[]]",
        b"[null,[]]",
        b'[["add"],[]]',
        b"[" * 100_000,
        b'["add",' + b"[" * 50_000 + b"]" * 50_000 + b"]",
        b"\x80\x04\x95\x10\x00\x00\x00\x00\x00\x00\x00\x8c\x05posix\x94.",
        b'["add",[1]]' + b" " * (2 << 20),
    ],
    ids=lambda body: repr(body[:24]),
)
def test_foreign_record_goes_dead_and_delays_no_job(odd: Any, body: bytes) -> None:
    """celery#1825: a body that could not be unpacked ended one worker after the other."""
    job = push(odd, body)
    with pytest.raises(JobFailed):
        job.result(30)
    assert job.state() == "dead"


@pytest.mark.parametrize("name", ["os.system", "__class__", "nobody", "ADD", "add ", "\u0430dd"])
def test_unknown_task_is_dead_with_a_helpful_error(odd: Any, name: str) -> None:
    job = push(odd, json.dumps([name, []]).encode())
    with pytest.raises(JobFailed) as caught:
        job.result(30)
    assert f"UnknownTask: no task is named {name!r} here" in str(caught.value)
    assert "imported by the worker's module" in str(caught.value)


def test_job_that_kills_its_worker_is_dead_after_max_deliveries(odd: Any, history: Any) -> None:
    """Q5: three deliveries, regardless of retries, and no fourth."""
    with pytest.raises(JobFailed, match="WorkerDied: its worker died 3 times while it ran"):
        odd.kills_its_process.enqueue(history.path).result(30)
    assert [line["attempt"] for line in history.lines("ran")] == [1, 2, 3]


@pytest.mark.parametrize("header", [b"", b"9,1,,;", b"x,1,,;", b"1,x,,;", b"1,1"])
def test_broken_header_does_not_stop_other_jobs(odd: Any, odd_url: str, header: bytes) -> None:
    """Such a record comes only from a program that writes to the keys directly."""
    keys = QueueKeys("lw", "default")
    id = new_id()
    with redis.Redis.from_url(odd_url) as client:
        client.hset(keys.jobs, id, header + b'["nobody",[]]')
        client.rpush(keys.ready[1], id)
        try:
            assert odd.add.enqueue(2, 2).result(30) == 4
            until(lambda: not client.llen(keys.ready[1]), "it was taken")
        finally:
            client.hdel(keys.jobs, id)
            client.lrem(keys.ready[1], 0, id)
