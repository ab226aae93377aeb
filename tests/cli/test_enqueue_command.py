"""`lockwork enqueue`: a worker runs the enqueued job."""

from __future__ import annotations

import pytest

from cli.conftest import Office
from lockwork import Lockwork


def test_enqueued_job_runs_with_its_arguments(office: Office) -> None:
    made = office.json("enqueue", "send", "-q", "mail", "--args", "[3]", "--kwargs", '{"subject": "hi"}')
    assert made == {"job": made["job"], "queue": "mail", "task": "send", "retries": 0}
    assert office.lw.job(made["job"], "mail").result(30) == 5
    shown = office.run("enqueue", "send", "--args", "[3]")
    assert office.lw.job(shown.stdout.strip(), "mail").result(30) == 8
    assert shown.stderr == "task send, queue mail, retries 0\n"


def test_announced_options_of_a_task_apply(office: Office) -> None:
    made = office.json("enqueue", "order", "--args", "[3]", "--delay", "1h")
    assert (made["queue"], made["retries"]) == ("keyed", 7)
    found = office.json("job", made["job"])
    assert (found["key"], found["group"], found["priority"]) == ("order:3", "all", "low")
    assert found["tags"] == ["shop", "new"]
    assert [job["id"] for job in office.json("jobs", "--tag", "shop", "--scheduled")["jobs"]] == [made["job"]]
    assert office.lw.job(made["job"], made["queue"]).cancel()
    few = office.run("enqueue", "order", "--args", "[3]", "--retries", "2", "--key", "x", "--delay", "1h")
    assert few.stderr == "task order, queue keyed, retries 2\n"
    assert office.json("job", few.stdout.strip())["key"] == "x"
    assert office.run("job", "cancel", few.stdout.strip()).exit_code == 0


def test_enqueued_job_hides_its_arguments_as_its_task_does(office: Office) -> None:
    made = office.json("enqueue", "charge", "--args", '["4111"]', "--delay", "1h")
    job = office.lw.job(made["job"], made["queue"])
    assert job.inspect().hidden
    assert job.cancel()


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
        ([], 1, "send(user, subject): missing a required argument: 'user': see --args and --kwargs"),
        (["--kwargs", '{"usr": 1}'], 1, "see --args and --kwargs"),
        (["42", "x y"], 2, "arguments of the task are JSON: --args '[42, \"x y\"]'"),
        (["-q", "mail", "--args", "3"], 2, "--args must be an array, such as '[42]', not '3'"),
        (["-q", "mail", "--kwargs", "[]"], 2, "--kwargs must be an object"),
        (["-q", "mail", "--args", "[3"], 2, "--args is not JSON"),
        (["-q", "mail", "--delay", "soon"], 2, "--delay must be a number of seconds"),
        (["-q", "mail", "--watch"], 2, "No such option '--watch'"),
    ],
)
def test_invalid_call_is_refused(office: Office, words: list[str], status: int, said: str) -> None:
    office.app.send.enqueue(1)
    found = office.run("enqueue", "send", *words)
    assert found.exit_code == status
    assert said in found.output + str(found.exception)


def test_create_accepts_an_unknown_queue(office: Office) -> None:
    made = office.json("enqueue", "send", "-q", "new", "--create", "--args", "[1]")
    assert office.lw.queue("new").status().ready == 1
    assert office.lw.job(made["job"], "new").cancel()


def test_mistyped_task_gets_a_suggestion(office: Office) -> None:
    for words in ([], ["-q", "mail"]):
        found = office.run("enqueue", "sned", *words)
        assert (found.exit_code, str(found.exception)) == (
            1,
            "no task sned exists: did you mean send? Add --create to use it anyway.",
        )


def test_without_announcements_a_queue_is_named(lw: Lockwork, url: str) -> None:
    office = Office(lw, url)
    assert str(office.run("enqueue", "send").exception) == "no app has announced task send: pass its --queue"
    assert office.json("enqueue", "send", "-q", "new", "--create", "--args", "[1]")["retries"] == 3
