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
        (["stop", "nightly"], 2, "the actions are show, pause, resume, run"),
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
    assert "no worker has declared a schedule" in office.run("schedules", "--prefix", "none").output
