"""`lockwork enqueue`: a worker runs the enqueued job."""

from __future__ import annotations

import pytest

from cli.conftest import Office
from lockwork import Lockwork


def test_enqueued_job_runs_with_its_arguments(office: Office) -> None:
    made = office.json("enqueue", "send", "-q", "mail", "--args", "[3]", "--kwargs", '{"subject": "hi"}')
    assert made == {"job": made["job"], "queue": "mail", "task": "send", "retries": 0, "new": True}
    assert office.lw.job(made["job"], "mail").result(30) == 5
    shown = office.run("enqueue", "send", "--args", "[3]")
    assert office.lw.job(shown.stdout.strip(), "mail").result(30) == 8
    assert shown.stderr == "task send, queue mail, retries 0\n"


def test_job_with_an_own_id_is_enqueued_once(office: Office) -> None:
    words = ("enqueue", "send", "-q", "mail", "--args", "[3]", "--id", "order-42", "--delay", "1h")
    made, again = office.json(*words), office.run(*words)
    assert (made["job"], made["new"]) == (":order-42", True)
    assert again.stdout == ":order-42\n"
    assert "kept, since this job has the id" in again.stderr
    assert office.json("job", ":order-42")["state"] == "scheduled"
    assert [job["id"] for job in office.json("jobs", "--text", "order-42", "--scheduled")["jobs"]] == [":order-42"]
    assert office.run("job", "delete", ":order-42").exit_code == 0
    assert office.json(*words)["new"]
    assert office.run("job", "delete", ":order-42").exit_code == 0
    refused = office.run(*words[:-4], "--id", "a b")
    assert str(refused.exception).startswith("a job's own id must be text of 1 to 199 characters")


def test_number_as_priority_needs_a_queue_with_ten(own_url: str) -> None:
    with Lockwork(own_url, ten_priorities=["mail"], app_name="shop") as lw:
        office = Office(lw, own_url)

        @lw.task(queue="mail", priority=7)
        def send(number: int) -> None: ...

        @lw.task
        def other(number: int) -> None: ...

        send.enqueue(1)
        made = office.json("enqueue", "send", "--args", "[2]", "--priority", "3")
        assert office.json("job", made["job"])["priority"] == 3
        made = office.json("enqueue", "send", "--args", "[2]")
        assert office.json("job", made["job"])["priority"] == 7
        refused = office.run("enqueue", "other", "--args", "[2]", "--priority", "3")
        assert "has the priorities high, normal and low, not numbers" in str(refused.exception)
        assert office.run("enqueue", "send", "--priority", "11").exit_code == 2


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


def test_unique_name_of_the_task_applies(own_url: str) -> None:
    with Lockwork(own_url, app_name="shop") as lw:

        @lw.task(queue="mail", unique="report:{user}", expires="1h")
        def report(user: int) -> None: ...

        first = report.enqueue(1)
        again = Office(lw, own_url).run("enqueue", "report", "--args", "[1]")
        assert again.stdout.strip() == first.id
        assert again.stderr.startswith("task report, queue mail, retries 3: kept, since this job has the unique name")
        made = Office(lw, own_url).json("enqueue", "report", "--args", "[2]")
        assert made["new"]
        assert lw.job(made["job"], "mail").inspect().expires is not None


def test_task_in_several_queues_needs_one(own_url: str) -> None:
    with Lockwork(own_url, app_name="shop") as lw, Lockwork(own_url, app_name="bank") as bank:
        lw.task(name="send", queue="mail")(print).enqueue()
        bank.task(name="send", queue="money")(print).enqueue()
        office = Office(lw, own_url)
        assert str(office.run("enqueue", "send").exception) == (
            "task send is in several queues (mail, money): pass its --queue"
        )
        assert office.json("enqueue", "send", "-q", "money")["queue"] == "money"
