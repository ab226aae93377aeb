"""`lockwork queue`: pause, resume, limit, drain, and how a queue stands."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from lockwork import Lockwork
from lockwork.cli.commands import cli
from lockwork.queues.limits import QueueLimits


@pytest.fixture
def command(lw: Lockwork, url: str, tmp_path: Path) -> Callable[..., Result]:
    @lw.task(queue="mail")
    def send(number: int) -> None: ...

    send.enqueue_many([(1,), (2,)])

    def run(*words: str) -> Result:
        return CliRunner().invoke(cli, ["queue", "--url", url, *words])

    return run


def test_pause_and_resume(lw: Lockwork, command: Callable[..., Result]) -> None:
    assert command("pause", "mail").output == (
        "queue mail: paused\n  2 ready, 0 scheduled, 0 running, 0 dead\n  limits: none\n"
    )
    assert lw.queue("mail").status().paused
    assert json.loads(command("--json", "mail").output)["paused"]
    assert command("resume", "mail").output.startswith("queue mail: open\n")
    assert not lw.queue("mail").status().paused


def test_a_mistyped_name_is_noticed(lw: Lockwork, command: Callable[..., Result]) -> None:
    assert "no job was ever enqueued to queue mial: did you mean mail?" in command("mial").stderr
    assert command("post").stderr == command("mail").stderr == ""
    lw.queue("mial").pause()
    lw.task(name="post", queue="mial")(print).enqueue()
    assert command("mial").stderr == ""


def test_limits(lw: Lockwork, command: Callable[..., Result]) -> None:
    found = command("limit", "mail", "--rate", "100/s", "--concurrency", "50", "--size", "100000")
    assert found.output.endswith("limits: rate 100/s, concurrency 50, size 100,000\n")
    assert lw.queue("mail").limits() == QueueLimits("100/s", 50, 100_000)
    assert command("limit", "mail", "--rate", "none", "--size", "0").output.endswith("concurrency 50, size 0\n")
    found = command("limit", "mail", "--json", "--concurrency", "none")
    assert json.loads(found.output)["limits"] == {"rate": None, "concurrency": None, "size": 0}
    assert command("limit", "mail").output.endswith("limits: size 0\n"), "it shows what holds"


def test_jobs_that_wait_for_others_are_shown_when_there_are_any(lw: Lockwork, command: Callable[..., Result]) -> None:
    @lw.task(queue="mail")
    def reply(number: int) -> None: ...

    lw.chain(reply.call(1), reply).enqueue()
    assert ", 0 running, 1 blocked, 0 dead\n" in command("mail").output


def test_status_as_json(command: Callable[..., Result]) -> None:
    found = json.loads(command("status", "mail", "--json").output)
    assert (found["queue"], found["ready"], found["running"], found["paused"]) == ("mail", 2, 0, False)


def test_all_of_them(lw: Lockwork, url: str, command: Callable[..., Result]) -> None:
    lw.queue("mail").pause()
    lw.task(name="post", queue="letters")(print).enqueue()
    for words in ((), ("status",)):
        assert command(*words).output == (
            "queue letters: open\n  1 ready, 0 scheduled, 0 running, 0 dead\n  limits: none\n"
            "queue mail: paused\n  2 ready, 0 scheduled, 0 running, 0 dead\n  limits: none\n"
        )
    found = json.loads(command("--json").output)["queues"]
    assert [(queue["queue"], queue["ready"]) for queue in found] == [("letters", 1), ("mail", 2)]
    assert CliRunner().invoke(cli, ["queue", "--url", url, "--prefix", "no"]).output == "no queue has had a job\n"


def test_drain(lw: Lockwork, command: Callable[..., Result]) -> None:
    found = command("drain", "mail", "--timeout", "0.1")
    assert found.exit_code == 1
    lw.queue("mail").clear()
    assert command("drain", "mail").output.startswith("queue mail: open\n  0 ready")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("stop", "mail", "now"), "give status, pause, resume, limit or drain, and the queue's name"),
        (("--size", "3"), "go with limit"),
        (("pause",), "pause which queue?"),
        (("stop", "mail"), "give status, pause"),
        (("pause", "mail", "more"), "give status, pause"),
        (("pause", "mail", "--size", "3"), "go with limit"),
        (("status", "mail", "--delayed"), "go with drain"),
        (("limit", "mail", "--size", "many"), "--size is a number of jobs, or none, not 'many'"),
        (("limit", "mail", "--size", "9" * 5000), "--size is a number of jobs, or none, not '999"),
    ],
)
def test_wrong_words(command: Callable[..., Result], words: tuple[str, ...], said: str) -> None:
    found = command(*words)
    assert found.exit_code == 2
    assert said in found.output
