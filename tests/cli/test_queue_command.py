"""`lockwork queue`: pause, resume, limit, drain and status."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from lockwork import Lockwork
from lockwork.cli.commands import cli
from lockwork.protocol.keys import QueueKeys
from lockwork.protocol.queue import leases
from lockwork.queues.limits import QueueLimits


@pytest.fixture
def command(lw: Lockwork, url: str, tmp_path: Path) -> Callable[..., Result]:
    @lw.task(queue="mail")
    def send(number: int) -> None: ...

    send.enqueue_many([(1,), (2,)])

    def run(*words: str, name: str = "queue") -> Result:
        return CliRunner(env={"LOCKWORK_URL": url}).invoke(cli, [name, *words])

    return run


def row(shown: Result) -> list[str]:
    """Return the cells of the only row in a table of queues."""
    _, line = shown.output.splitlines()
    return line.split()


def test_pause_and_resume(lw: Lockwork, command: Callable[..., Result]) -> None:
    assert command("pause", "mail").output == (
        "queue  state   ready  running  scheduled  dead  workers\n"
        "mail   paused      2        0          0     0        0\n"
    )
    assert lw.queue("mail").status().paused
    assert json.loads(command("--json", "mail").output)["paused"]
    assert row(command("resume", "mail"))[:2] == ["mail", "open"]
    assert not lw.queue("mail").status().paused


@pytest.mark.parametrize(
    "words",
    [
        ("queue", "mial"),
        ("queue", "pause", "mial"),
        ("queue", "resume", "mial"),
        ("queue", "limit", "mial"),
        ("queue", "limit", "mial", "--size", "3"),
        ("queue", "drain", "mial"),
        ("queue", "pause", "mial", "--partitions", "3"),
        ("dead", "-q", "mial"),
        ("dead", "groups", "-q", "mial"),
        ("dead", "show", "-q", "mial", "x"),
        ("dead", "retry", "-q", "mial", "x"),
        ("dead", "retry", "-q", "mial", "--all", "--yes"),
        ("dead", "delete", "-q", "mial", "--all", "--yes"),
    ],
)
def test_unknown_queue_gets_a_suggestion(lw: Lockwork, command: Callable[..., Result], words: tuple[str, ...]) -> None:
    found = command(*words[1:], name=words[0])
    assert (found.exit_code, found.stdout) == (1, "")
    assert "no queue mial exists: did you mean mail?" in str(found.exception)
    assert lw.queues() == ["mail"]


def test_unknown_queue_lists_known_queues(lw: Lockwork, command: Callable[..., Result]) -> None:
    assert str(command("xyz").exception) == "no queue xyz exists: known is mail."
    assert str(command("mail", "--prefix", "no").exception) == "no queue mail exists: there is none."


def test_create_accepts_an_unknown_queue(lw: Lockwork, command: Callable[..., Result]) -> None:
    assert str(command("pause", "mial").exception).endswith("did you mean mail? Add --create to use it anyway.")
    assert row(command("pause", "mial", "--create"))[:2] == ["mial", "paused"]
    assert row(command("mial"))[:2] == ["mial", "paused"], "it is no mistake any more"
    assert row(command("resume", "mial"))[:2] == ["mial", "open"]
    assert command("resume", "mial").exit_code == 1
    assert command("limit", "mial", "--size", "3", "--create").output.endswith("  size 3\n")
    assert command("drain", "mial").exit_code == 0
    lw.task(name="post", queue="letters")(print).enqueue()
    assert command("letters").exit_code == command("pause", "letters", "--create").exit_code == 0


def test_queue_with_a_worker_and_no_jobs_exists(lw: Lockwork, command: Callable[..., Result]) -> None:
    lw.runtime.run(leases.beat(QueueKeys("lw", "idle"), {"host/1/a": True}, 60_000, 1))
    assert row(command("pause", "idle")) == ["idle", "paused", "0", "0", "0", "0", "1"]


def test_limits(lw: Lockwork, command: Callable[..., Result]) -> None:
    found = command("limit", "mail", "--rate", "100/s", "--concurrency", "50", "--size", "100000")
    assert found.output.endswith("  rate 100/s, concurrency 50, size 100,000\n")
    assert lw.queue("mail").limits() == QueueLimits("100/s", 50, 100_000)
    assert command("limit", "mail", "--rate", "none", "--size", "0").output.endswith("concurrency 50, size 0\n")
    found = command("limit", "mail", "--json", "--concurrency", "none")
    assert json.loads(found.output)["limits"] == {"rate": None, "concurrency": None, "size": 0}
    assert command("limit", "mail").output.endswith("  size 0\n"), "it shows what holds"


def test_jobs_that_wait_for_others_are_shown_when_there_are_any(lw: Lockwork, command: Callable[..., Result]) -> None:
    @lw.task(queue="mail")
    def reply(number: int) -> None: ...

    assert "blocked" not in command("mail").output
    lw.chain(reply.call(1), reply).enqueue()
    titles, *rows = command("mail").output.splitlines()
    assert dict(zip(titles.split(), rows[0].split(), strict=True))["blocked"] == "1"


def test_status_as_json(command: Callable[..., Result]) -> None:
    found = json.loads(command("show", "mail", "--json").output)
    assert (found["queue"], found["ready"], found["running"], found["paused"]) == ("mail", 2, 0, False)


def test_all_queues_are_listed(lw: Lockwork, url: str, command: Callable[..., Result]) -> None:
    lw.queue("mail").pause()
    lw.task(name="post", queue="letters")(print).enqueue()
    for words in ((), ("show",)):
        assert command(*words).output == (
            "queue    state   ready  running  scheduled  dead  workers\n"
            "letters  open        1        0          0     0        0\n"
            "mail     paused      2        0          0     0        0\n"
        )
    found = json.loads(command("--json").output)["queues"]
    assert [(queue["queue"], queue["ready"]) for queue in found] == [("letters", 1), ("mail", 2)]
    assert CliRunner().invoke(cli, ["queue", "--url", url, "--prefix", "no"]).output == "no queue has had a job\n"


def test_drain(lw: Lockwork, command: Callable[..., Result]) -> None:
    found = command("drain", "mail", "--timeout", "0.1")
    assert found.exit_code == 1
    lw.queue("mail").clear()
    assert row(command("drain", "mail"))[:3] == ["mail", "open", "0"]


def test_clear_asks_with_the_number_of_jobs(lw: Lockwork, command: Callable[..., Result]) -> None:
    asked = command("clear", "mail")
    assert "delete 2 waiting jobs in queue 'mail'? [y/N]:" in asked.output
    assert (asked.exit_code, lw.queue("mail").status().ready) == (1, 2)
    cleared = command("clear", "mail", "--yes")
    assert "2 jobs deleted\n" in cleared.output
    assert lw.queue("mail").status().ready == 0
    assert command("clear", "mail").exit_code == 0, "nothing to ask about"
    assert command("clear", "mial", "--yes").exit_code == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("stop", "mail", "now"), "pass one name, or an action and a name; the actions are show, pause, resume"),
        (("--size", "3"), "it is an option of lockwork queue limit"),
        (("pause",), "Missing argument 'NAME'"),
        (("stop", "mail"), "pass one name, or an action and a name"),
        (("pause", "mail", "more"), "Got unexpected extra argument (more)"),
        (("pause", "mail", "--size", "3"), "it is an option of lockwork queue limit"),
        (("show", "mail", "--delayed"), "it is an option of lockwork queue drain"),
        (("pause", "mail", "--yes"), "it is an option of lockwork queue clear"),
        (("pause", "mail", "--watch", "1"), "it is an option of lockwork queue show"),
        (("drain", "mail", "--create"), "it is an option of lockwork queue pause and lockwork queue limit"),
        (("limit", "mail", "--size", "many"), "--size is a number of jobs, or none, not 'many'"),
        (("limit", "mail", "--size", "9" * 5000), "--size is a number of jobs, or none, not '999"),
    ],
)
def test_wrong_arguments(command: Callable[..., Result], words: tuple[str, ...], said: str) -> None:
    found = command(*words)
    assert found.exit_code == 2
    assert said in found.output
