"""`lockwork schedules`."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from cli.conftest import Office
from lockwork import Lockwork
from processes import until, worker


@pytest.fixture
def declared(office: Office) -> None:
    office.app.add.enqueue(1)  # a queue is listed after its first job
    until(lambda: office.lw.schedules("sums"), "the worker declares its schedule")


@pytest.mark.usefixtures("declared")
def test_schedules_are_listed_and_paused(office: Office) -> None:
    (found,) = office.json("schedules")["schedules"]
    assert (found["name"], found["queue"], found["when"], found["paused"]) == (
        "nightly",
        "sums",
        "0 3 29 2 * (UTC)",
        False,
    )
    assert len(found["next"]) == 1
    assert office.json("schedules", "pause", "nightly")["schedules"][0]["paused"]
    assert "paused" in office.run("schedules", "nightly").output
    assert not office.json("schedules", "resume", "nightly", "-q", "sums")["schedules"][0]["paused"]


@pytest.mark.usefixtures("declared")
def test_schedule_runs_now(office: Office) -> None:
    ran = office.json("schedules", "run", "nightly")
    assert ran["task"] == "nightly"
    job = office.lw.job(ran["job"], ran["queue"])
    again = office.run("schedules", "run", "nightly")
    assert again.exit_code == 1
    assert "it allows no overlap, and its last job" in str(again.exception)
    assert job.cancel()


@pytest.mark.usefixtures("declared")
@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["run", "nihgtly"], 1, "no schedule nihgtly exists: did you mean nightly?"),
        (["pause"], 2, "Missing argument 'NAME'"),
        (["stop", "nightly"], 2, "the actions are show, create, delete, pause, resume, run"),
        (["pause", "nightly", "--watch", "1"], 2, "it is an option of lockwork schedules show"),
    ],
)
def test_impossible_change_of_a_schedule_is_refused(office: Office, words: list[str], status: int, said: str) -> None:
    found = office.run("schedules", *words)
    assert found.exit_code == status
    assert said in found.output + str(found.exception)


def test_schedule_without_a_worker_does_not_look_as_if_it_would_fire(own_url: str) -> None:
    with Lockwork(own_url) as lw:
        with worker("office:lw", url=own_url, folder=Path(__file__).parent / "apps") as process:
            until(lambda: "next" in Office(lw, own_url).run("schedules").output, "the worker declares its schedule")
            process.send(signal.SIGTERM)
            assert process.wait() == 0
        text = Office(lw, own_url).run("schedules").output
    assert "no worker" in text
    assert "next" not in text


def test_empty_list_of_schedules_explains_itself(office: Office) -> None:
    assert "there is no schedule: it is @lw.task(cron=...)" in office.run("schedules", "--prefix", "none").output


@pytest.mark.usefixtures("declared")
def test_schedule_is_created_changed_and_deleted(office: Office) -> None:
    words = ["schedules", "create", "sum:7", "add", "--args", "[7]"]
    (created,) = office.json(*words, "--cron", "0 9 * * fri#2", "--tz", "Europe/Berlin")["schedules"]
    assert (created["name"], created["queue"], created["task"], created["created"]) == ("sum:7", "sums", "add", True)
    assert "run time" in office.run("schedules").output
    (changed,) = office.json(*words, "--every", "1h", "--overlap", "skip")["schedules"]
    assert (changed["when"], changed["overlap"]) == ("every 1 h", "skip")
    assert office.json("schedules", "pause", "sum:7")["schedules"][0]["paused"]
    assert office.json("schedules", "delete", "sum:7") == {"schedule": "sum:7", "queue": "sums", "deleted": True}
    assert [each["name"] for each in office.json("schedules")["schedules"]] == ["nightly"]


@pytest.mark.usefixtures("declared")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["delete", "nightly"], "is declared by code"),
        (["create", "nightly", "add", "--args", "[1]", "--every", "1h"], "is declared by code"),
        (["create", "x", "add", "--args", "[1]"], "cron= or every= or at="),
        (["create", "x", "ad", "--every", "1h"], "did you mean add?"),
        (["create", "x", "add", "--args", "[1]", "--at", "noon"], "--at must be a time such as"),
        (["create", "x", "add", "--args", "[1]", "--at", "2026-01-01T10:00"], "a datetime with a time zone"),
    ],
)
def test_impossible_schedule_is_not_created(office: Office, words: list[str], said: str) -> None:
    found = office.run("schedules", *words)
    assert found.exit_code != 0
    assert said in found.output + str(found.exception)
