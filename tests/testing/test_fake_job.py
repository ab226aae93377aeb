"""A task alone: `task.run`, `task.arun`, and `fake_job` around them or around a direct call."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
import unittest
from collections.abc import AsyncIterator, Iterator
from typing import Annotated, Any

import pytest

from lockwork import ConfigError, Depends, Lockwork, PayloadTooLarge, current_job, current_jobs
from lockwork.errors import BlockingCallError, DeliveryOver
from lockwork.testing import fake_job
from lockwork.types import Again

app = Lockwork("redis://127.0.0.1:1", patience=0)
threads: list[threading.Thread] = []


@pytest.fixture(autouse=True)
def no_sockets(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise AssertionError("a socket was connected")

    monkeypatch.setattr(socket.socket, "connect", refused)


async def get_db() -> AsyncIterator[str]:
    yield "db"


def get_file() -> Iterator[str]:
    threads.append(threading.current_thread())
    yield "file"


@app.task(queue="mail", tags=["news"])
def send(user: int, times: int = 1) -> str:
    job = current_job()
    for step in range(times):
        job.progress({"done": step + 1})
    job.checkpoint("sent", user)
    return f"{user}: {job.task} {job.queue} {job.attempt} {job.tags}"


@app.task
async def asend(user: int) -> dict[str, Any]:
    job = current_job()
    await job.aprogress(0.5)
    await job.acheckpoint("sent", (user, 1))
    return job.checkpoints


@app.task
def file_of(user: int, file: Annotated[str, Depends(get_file)]) -> str:
    threads.append(threading.current_thread())
    return f"{user} {file}"


@app.task
def row_of(user: int, db: Annotated[str, Depends(get_db)]) -> str:
    return f"{user} {db}"


@app.task(batch=10)
def index(pages: list[str]) -> list[str]:
    return [f"{page} {job.attempt} {job.task}" for page, job in zip(pages, current_jobs(), strict=True)]


def test_run_calls_a_def_on_this_thread() -> None:
    threads.clear()
    assert file_of.run(5) == "5 file"  # type: ignore[call-arg]
    assert threads == [threading.main_thread()] * 2
    assert file_of.run(5, file="mine") == "5 mine"


def test_run_gives_an_async_def_a_loop_of_its_own() -> None:
    assert asend.run(5) == {"sent": [5, 1]}
    assert row_of.run(5) == "5 db"  # type: ignore[call-arg]
    with pytest.raises(RuntimeError, match="no running event loop"):
        asyncio.get_running_loop()


async def test_run_refuses_a_running_loop() -> None:
    for task in (send, asend):
        with pytest.raises(BlockingCallError, match="name begins with 'a'"):
            task.run(5)


async def test_arun_is_a_job() -> None:
    assert await asend.arun(5) == {"sent": [5, 1]}
    assert await send.arun(5) == "5: send mail 1 ('news',)"


def test_run_is_a_job_only_meanwhile() -> None:
    assert send.run(5) == "5: send mail 1 ('news',)"
    with pytest.raises(RuntimeError, match="no job is running here"):
        current_job()


def test_fake_job_records_progress_and_checkpoints() -> None:
    with fake_job(attempt=2, checkpoints={"begun": [1, 2]}) as job:
        assert send.run(7, times=2) == "7: send mail 2 ('news',)"
        assert current_job().checkpoints == {"begun": [1, 2], "sent": 7}
    assert job.progress == [{"done": 1}, {"done": 2}]
    assert job.checkpoints == {"begun": [1, 2], "sent": 7}
    assert (job.retries, job.snoozes) == ([], [])


def test_direct_call_in_a_fake_job() -> None:
    with fake_job(send, id="42", headers={"trace": "t1"}, tags=["own"], fence=9) as job:
        assert send(7) == "7: send mail 1 ('own',)"
        assert (job.context.headers, job.context.id, job.context.fence) == ({"trace": "t1"}, "42", 9)
    assert job.progress == [{"done": 1}]


async def test_async_notes_in_a_fake_job() -> None:
    with fake_job(attempt=3, checkpoints={"begun": None}) as job:
        assert await asend(5) == {"begun": None, "sent": [5, 1]}
        await asyncio.gather(*(asend.arun(user) for user in (1, 2)))
    assert job.progress == [0.5] * 3


async def test_blocking_note_on_a_loop_is_refused_as_in_a_worker() -> None:
    with fake_job() as job, pytest.raises(BlockingCallError):
        current_job().progress(1)
    assert job.progress == []


def test_retry_and_snooze_are_recorded_and_raised() -> None:
    @app.task
    def wait(how: str) -> None:
        try:
            if how == "retry":
                current_job().retry("1m")
            current_job().snooze(2.5)
        except Exception:  # noqa: BLE001 - as a task may do
            raise AssertionError("Again is no Exception") from None

    with fake_job() as job:
        for how in ("retry", "snooze"):
            with pytest.raises(Again):
                wait.run(how)
        with pytest.raises(Again):
            current_job().retry()
        with pytest.raises(ConfigError):
            current_job().snooze(-1)
    assert (job.retries, job.snoozes) == ([60.0, None], [2.5])


def test_values_are_checked_as_in_a_worker() -> None:
    small = Lockwork("redis://127.0.0.1:1", max_result=10)

    @small.task
    def note(value: object, name: str = "") -> None:
        if name:
            current_job().checkpoint(name, value)
        else:
            current_job().progress(value)

    with fake_job(note) as job:
        with pytest.raises(ConfigError, match="cannot be sent as JSON"):
            note(object())
        with pytest.raises(ConfigError, match="NaN"):
            note(float("nan"))
        with pytest.raises(PayloadTooLarge):
            note("x" * 20)
        with pytest.raises(ConfigError, match="checkpoint's name"):
            note(1, "x" * 201)
    assert job.progress == []
    with pytest.raises(ConfigError, match="cannot be sent as JSON"), fake_job(checkpoints={"a": object()}):
        pass
    with pytest.raises(ConfigError, match="attempt"), fake_job(attempt=0):
        pass


def test_ended_delivery_and_cancellation() -> None:
    with fake_job(send) as job:
        job.end_delivery()
        with pytest.raises(DeliveryOver):
            send(1)
        assert not current_job().cancelled
        job.cancel()
        assert current_job().cancelled
    assert job.progress == []


def test_batch_has_a_job_for_each_item() -> None:
    assert index.run(["a", "b"]) == ["a 1 index", "b 1 index"]
    assert index.run(["a"]) == ["a 1 index"]
    with fake_job(attempt=2):
        assert index.run(["a", "b"]) == ["a 2 index", "b 2 index"]


def test_threads_and_nested_jobs() -> None:
    seen: list[int] = []

    async def in_thread() -> None:
        await asyncio.to_thread(lambda: seen.append(current_job().attempt))

    with fake_job(attempt=4), contextlib.ExitStack() as inner:
        asyncio.run(in_thread())
        inner.enter_context(fake_job(attempt=5))
        asyncio.run(in_thread())
        inner.close()
        seen.append(current_job().attempt)
    assert seen == [4, 5, 4]


class InUnittest(unittest.TestCase):
    def test_context_of_a_test_case(self) -> None:
        self.job = self.enterContext(fake_job(attempt=2))
        assert "2" in send.run(1)
        assert self.job.checkpoints == {"sent": 1}
