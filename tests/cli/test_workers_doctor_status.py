"""`lockwork workers`, `doctor` and `status`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime

import msgspec
import pytest
from click.testing import CliRunner, Result

from lockwork import Lockwork
from lockwork.cli.commands import cli
from lockwork.protocol.announcements import announcements
from lockwork.protocol.announcements.announcements import WORKERS
from lockwork.workers import AwaitedJob, RunningJob, Worker

JOB = RunningJob("j1", "mail", "send", datetime.now(UTC), 2, [AwaitedJob("j2", "mail", 3.0)])
WORKER = Worker(
    "web1/1/abc",
    "web1",
    1,
    "1",
    "shop:lw",
    ["mail"],
    1,
    10,
    datetime.now(UTC),
    15.0,
    busy=1,
    slots=10,
    jobs=[JOB],
    waiting=1,
)


@pytest.fixture
def shop(own_url: str) -> Iterator[Lockwork]:
    """Announce two workers and enqueue a job."""
    with Lockwork(own_url) as lw:

        @lw.task(queue="mail")
        def send() -> None: ...

        send.enqueue()
        for worker in (WORKER, replace(WORKER, name="web2/1/abc", jobs=[])):
            lw.runtime.run(announcements.put("lw", WORKERS, worker.name, msgspec.msgpack.encode(worker)))
        yield lw


def call(url: str, *arguments: str) -> Result:
    return CliRunner().invoke(cli, [*arguments, "--url", url])


def test_workers_are_listed(shop: Lockwork, own_url: str) -> None:
    shown = call(own_url, "workers")
    assert shown.exit_code == 0
    assert "web1/1/abc" in shown.output
    assert "1/10" in shown.output
    found = json.loads(call(own_url, "workers", "--json").output)["workers"]
    assert [worker["name"] for worker in found] == ["web1/1/abc", "web2/1/abc"]
    one = call(own_url, "workers", "web1/1/abc").output
    assert "send" in one
    assert "1 of 10, 1 of them wait for results" in one
    assert "j2" in one
    assert "web2" not in one
    assert len(shop.workers()) == 2


def test_orders_are_left_for_workers(shop: Lockwork, own_url: str) -> None:
    assert call(own_url, "workers", "quiet", "web1/1/abc").output == "worker web1/1/abc fetches no more jobs\n"
    assert call(own_url, "workers", "stop", "--all", "--yes").output.count("stop") == 2
    asked = CliRunner().invoke(cli, ["workers", "stop", "--all", "--url", own_url], input="n\n")
    assert asked.exit_code
    assert shop.runtime.run(announcements.put("lw", WORKERS, "web1/1/abc", b"x")) == "stop"


@pytest.mark.parametrize("words", [["quiet"], ["stop", "a", "b"], ["--all"], ["quiet", "a", "--all"]])
def test_unclear_words_are_usage_errors(own_url: str, words: list[str]) -> None:
    assert call(own_url, "workers", *words).exit_code == 2


def test_mistyped_worker_is_an_error(shop: Lockwork, own_url: str) -> None:
    said = call(own_url, "workers", "quiet", "web1/1/abd")
    assert said.exit_code
    assert "did you mean web1/1/abc?" in str(said.exception) + said.output
    assert len(shop.workers()) == 2


def test_doctor_exits_1_on_a_serious_finding(shop: Lockwork, own_url: str) -> None:
    said = call(own_url, "doctor")
    assert said.exit_code == 1
    assert "Queue mail: 1 ready, and no worker." in said.output
    shop.queue("mail").clear()
    said = call(own_url, "doctor", "--json")
    assert said.exit_code == 0
    assert {found["level"] for found in json.loads(said.output)["findings"]} <= {"warning", "info"}


def test_doctor_says_that_the_server_is_away() -> None:
    said = call("redis://127.0.0.1:1", "doctor")
    assert said.exit_code == 1
    assert "serious" in said.output


def test_status_shows_everything(shop: Lockwork, own_url: str) -> None:
    shown = call(own_url, "status")
    assert shown.exit_code == 0
    for text in ("no worker", "last hour: 0 succeeded", "mail", "web2/1/abc"):
        assert text in shown.output
    found = json.loads(call(own_url, "status", "--json").output)
    assert found["queues"][0]["status"]["ready"] == 1
    assert len(found["workers"]) == len(shop.workers()) == 2
