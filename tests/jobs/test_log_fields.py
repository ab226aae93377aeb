"""Log records of a job name the job, in threads and coroutines, without code in the app."""

from __future__ import annotations

import importlib
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lockwork.jobs.current import JobContext, QueueContext, SlotContext, slot
from lockwork.protocol.queue.leases import Leased
from lockwork.types import JobFields
from processes import until, worker

FIELDS = ("job", "task", "queue", "attempt")
APP = """
import asyncio
import logging

from lockwork import Lockwork

lw = Lockwork()
log = logging.getLogger("shop")


async def helper():
    log.info("in a helper")


@lw.task
async def coroutine():
    async with asyncio.TaskGroup() as group:
        group.create_task(helper())


@lw.task
def in_thread():
    log.info("in a thread")


@lw.task(batch=2)
async def batched(items: list[int]) -> None:
    log.info("in a batch")


"""


def job(id: str, attempt: int) -> JobContext:
    nothing: Any = None
    return JobContext(Leased(id, b"1 x", b"1,4,,;", attempt, 7), "send", QueueContext("mail", nothing, nothing, "s", 1))


@pytest.fixture
def mine() -> Iterator[SlotContext]:
    context = SlotContext()
    token = slot.set(context)
    yield context
    slot.reset(token)


def fields(**extra: object) -> list[object]:
    record = logging.makeLogRecord({"msg": "x", **extra})
    assert JobFields().filter(record)
    return [getattr(record, name) for name in FIELDS]


def test_log_fields_are_none_outside_of_a_job() -> None:
    assert fields() == [None] * 4


def test_log_fields_name_the_current_job(mine: SlotContext) -> None:
    assert fields() == [None] * 4
    mine.job = job("a", 2)
    assert fields() == ["a", "send", "mail", 2]
    assert fields(task="mine") == ["a", "mine", "mail", 2]


def test_log_fields_of_a_batch_are_task_and_queue(mine: SlotContext) -> None:
    mine.batch = [job("a", 1), job("b", 2)]
    assert fields() == [None, "send", "mail", None]


def test_json_lines_of_a_worker_have_log_fields(own_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "fieldshop.py").write_text(APP)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("LOCKWORK_URL", own_url)
    shop: Any = importlib.import_module("fieldshop")

    with shop.lw, worker("fieldshop:lw", "--log-format", "json", url=own_url, folder=tmp_path) as process:
        jobs = {task.name: task.enqueue() for task in (shop.coroutine, shop.in_thread)}
        jobs["batched"] = shop.batched.enqueue(1)
        for each in jobs.values():
            each.result(30)
        lines = until(lambda: found if len(found := job_fields(process.errors)) == 3 else None, "three lines")
    assert lines == {
        "in a helper": [jobs["coroutine"].id, "coroutine", "default", 1],
        "in a thread": [jobs["in_thread"].id, "in_thread", "default", 1],
        "in a batch": [None, "batched", "default", None],
    }


def job_fields(errors: str) -> dict[str, list[object]]:
    lines = [json.loads(line) for line in errors.splitlines() if line.startswith("{")]
    return {line["message"]: [line.get(name) for name in FIELDS] for line in lines if line["logger"] == "shop"}
