"""The command line with partitioned queues: warnings of the worker, and the commands queue, dead and locks."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from history import History
from lockwork import Lockwork
from lockwork.cli.commands import cli
from processes import worker

ALL = {f"mail/{number}" for number in range(4)}


@pytest.mark.parametrize(
    ("queues", "warning"),
    [
        ("mial", "no task of sorting:lw belongs to queue 'mial': did you mean 'mail'?"),
        ("mial/2", "no task of sorting:lw belongs to queue 'mial/2'"),
    ],
)
def test_worker_warns_of_mistyped_queue(own_url: str, apps: Path, queues: str, warning: str) -> None:
    with worker("sorting:lw", "-q", queues, "--burst", url=own_url, folder=apps) as one:
        assert one.wait() == 0
        assert warning in one.errors


def test_worker_warns_of_partitions_of_mistyped_queue(own_url: str, tmp_path: Path) -> None:
    (tmp_path / "typo.py").write_text(
        "from lockwork import Lockwork\nlw = Lockwork(partitions={'mial': 4})\n"
        "@lw.task(queue='mail')\ndef send() -> None: ...\n"
    )
    with worker("typo:lw", "--burst", url=own_url, folder=tmp_path) as one:
        assert one.wait() == 0
        assert "queue 'mial' has partitions, but no task of typo:lw belongs to it: did you mean 'mail'?" in one.errors


def test_jobs_on_unserved_partitions_are_warned_about(sorting: Any, own_url: str, apps: Path, history: History) -> None:
    with Lockwork(own_url) as none, Lockwork(own_url, partitions={"mail": 5}) as more:
        for app in (none, more):

            @app.task(queue="mail", name="mark", keep_result=False)
            def mark(path: str, number: int) -> None: ...

            for number in range(10):
                mark.enqueue(history.path, number)
    with worker("sorting:lw", "--burst", url=own_url, folder=apps) as one:
        assert one.wait() == 0
        assert "10 jobs wait in queue 'mail' without partitions" in one.errors
        assert "2 jobs wait in 'mail/4', but here queue 'mail' has only 4 partitions" in one.errors
    with worker("sorting:lw", "-q", "mail/4", "--burst", url=own_url, folder=apps) as one:
        assert one.wait() == 0
        assert "jobs wait" not in one.errors
    assert Counter(line["queue"] for line in history.lines("ran")) == dict.fromkeys([*ALL, "mail/4"], 2)


def test_worker_refuses_queue_with_its_partition(own_url: str, apps: Path) -> None:
    with worker("sorting:lw", "-q", "mail,mail/2", url=own_url, folder=apps) as one:
        assert one.wait() == 1
        assert "--queues names 'mail/2' twice: it is a partition of 'mail'" in one.errors


def test_command_line_accepts_partitions(sorting: Any, own_url: str, tmp_path: Path) -> None:
    sorting.lw.registry.context.announcing.stop()
    for number in range(8):
        sorting.double.enqueue(number)
    found = command(own_url, "queue", "show", "mail")
    assert (
        "queue mail has partitions (mail/0, mail/1, mail/2, ...): pass one of them, or --partitions N" in found.stderr
    )
    assert command(own_url, "queue", "mail/2").stdout.splitlines()[1].split()[:3] == ["mail/2", "open", "2"]
    whole = json.loads(command(own_url, "queue", "pause", "--json", "--partitions", "4", "mail").stdout)
    assert (whole["queue"], whole["ready"], whole["paused"]) == ("mail", 8, True)
    assert all(part.status().paused for part in sorting.lw.queue("mail").partitions)
    refused = command(own_url, "queue", "limit", "mail", "--partitions", "4", "--rate", "5/s")
    assert refused.exit_code == 1
    assert "no server counts" in str(refused.exception)
    assert command(own_url, "queue", "limit", "mail/1", "--rate", "5/s").exit_code == 0
    assert sorting.lw.queue("mail/1").limits().rate == "5/s"
    assert command(own_url, "dead", "--queue", "mail/2").stdout == "no job is dead\n"
    assert command(own_url, "dead", "--queue", "mail", "--partitions", "4").stdout == "no job is dead\n"
    assert "has partitions" in command(own_url, "dead", "--queue", "mail").stderr
    assert command(own_url, "dead", "--partitions", "4").exit_code == 2
    assert command(own_url, "queue", "mail/02").exit_code == 1


def test_announced_partitions_need_no_option(sorting: Any, own_url: str) -> None:
    for number in range(8):
        sorting.double.enqueue(number)
    whole = json.loads(command(own_url, "queue", "pause", "--json", "mail").stdout)
    assert (whole["queue"], whole["ready"], whole["paused"]) == ("mail", 8, True)
    assert command(own_url, "dead", "--queue", "mail").output == "no job is dead\n"
    made = json.loads(command(own_url, "enqueue", "double", "--args", "[1]", "--json").stdout)
    assert made["queue"] in ALL
    assert len(json.loads(command(own_url, "jobs", "mail", "--json").stdout)["jobs"]) == 9


@pytest.mark.parametrize(
    "words",
    [
        ("queue", "pause", "mail"),
        ("queue", "resume", "mail"),
        ("queue", "limit", "mail", "--size", "0"),
        ("queue", "drain", "mail"),
        ("dead", "delete", "-q", "mail", "--all", "--yes"),
        ("dead", "retry", "-q", "mail", "--all", "--yes"),
    ],
)
def test_options_without_effect_on_partitions_are_refused(sorting: Any, own_url: str, words: list[str]) -> None:
    sorting.lw.registry.context.announcing.stop()
    for number in range(4):
        sorting.double.enqueue(number)
    refused = command(own_url, *words)
    assert (refused.exit_code, refused.output) == (1, "")
    assert str(refused.exception) == (
        "queue mail has partitions (mail/0, mail/1, mail/2, ...): pass one of them, or --partitions N"
    )
    with Lockwork(own_url) as lw:
        assert not lw.queue("mail").status().paused
        assert lw.queue("mail").limits().size is None


def command(url: str, *words: str) -> Any:
    return CliRunner(env={"LOCKWORK_URL": url}).invoke(cli, words)


def test_lock_of_a_partition_is_released_by_its_name(sorting: Any, own_url: str) -> None:
    for lock in (sorting.lw.queue("mail").lock("order/5"), sorting.lw.queue("other").lock("2/x")):
        lock.acquire()
        found = command(own_url, "locks", "release", "--yes", f"{lock.queue}/{lock.name}")
        assert "1 released" in found.stdout
        assert not lock.locked()
