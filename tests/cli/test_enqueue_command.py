"""`lockwork enqueue`: a worker runs what it enqueues."""

from __future__ import annotations

import pytest

from cli.conftest import Office


def test_a_job_runs_with_its_arguments(office: Office) -> None:
    made = office.json("enqueue", "send", "-q", "mail", "--args", "[3]", "--kwargs", '{"subject": "hi"}')
    assert made == {"job": made["job"], "queue": "mail", "task": "send"}
    assert office.lw.job(made["job"], "mail").result(30) == 5
    shown = office.run("enqueue", "send", "-q", "mail", "--args", "[3]")
    assert office.lw.job(shown.output.strip(), "mail").result(30) == 8


def test_options_of_a_job(office: Office) -> None:
    options = ["--delay", "10m", "--key", "order:1", "--priority", "low"]
    made = office.json("enqueue", "send", "-q", "mail", "--args", "[3]", *options)
    job = office.lw.job(made["job"], "mail")
    assert job.state() == "scheduled"
    (waiting,) = [each for each in office.lw.queue("mail").peek(1000, place="scheduled") if each.id == job.id]
    assert waiting.call.priority == "low"
    assert job.cancel()


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["-q", "mial"], 1, "no queue mial exists: did you mean mail?"),
        (["-q", "mail", "--args", "3"], 2, "--args must be an array, such as '[42]', not '3'"),
        (["-q", "mail", "--kwargs", "[]"], 2, "--kwargs must be an object"),
        (["-q", "mail", "--args", "[3"], 2, "--args is no JSON"),
        (["-q", "mail", "--delay", "soon"], 1, "delay must be seconds"),
        (["-q", "mail", "--watch"], 2, "a job is enqueued once"),
    ],
)
def test_what_cannot_be_enqueued(office: Office, words: list[str], status: int, said: str) -> None:
    office.app.send.enqueue(1)
    found = office.run("enqueue", "send", *words)
    assert found.exit_code == status
    assert said in found.output + str(found.exception)


def test_a_queue_that_shall_exist(office: Office) -> None:
    made = office.json("enqueue", "send", "-q", "new", "--create")
    assert office.lw.queue("new").status().ready == 1
    assert office.lw.job(made["job"], "new").cancel()
