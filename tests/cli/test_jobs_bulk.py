"""`lockwork jobs cancel`, `retry` and `delete`: many jobs that match."""

from __future__ import annotations

import json

import pytest

from cli.conftest import Office
from lockwork import Lockwork
from processes import until


@pytest.fixture
def full(lw: Lockwork, url: str) -> Office:
    """Jobs that wait in two queues; no worker runs."""
    for queue in ("mail", "other"):
        lw.task(name=f"send_{queue}", queue=queue)(print).enqueue_many([(number,) for number in range(10)])
    return Office(lw, url)


def test_it_asks_with_the_exact_number(full: Office) -> None:
    refused = full.run("jobs", "mail", "--task", "send_mail", "cancel", answer="n\n")
    assert refused.exit_code == 1
    assert "cancel 10 jobs of queue mail? [y/N]" in refused.stderr
    assert full.lw.queue("mail").status().ready == 10
    done = full.run("jobs", "cancel", "mail", "--arg", "3", answer="y\n")
    assert "cancel 1 job of queue mail?" in done.stderr
    assert done.stdout == "1 job cancelled\n"
    everywhere = full.run("jobs", "cancel", answer="n\n")
    assert "cancel 19 jobs of all queues?" in everywhere.stderr


def test_cancelled_jobs_run_again_and_are_deleted(full: Office) -> None:
    assert full.json("jobs", "mail", "cancel", "--yes", "--limit", "4") == {
        "action": "cancel",
        "matched": 10,
        "changed": 4,
    }
    assert full.lw.queue("mail").status().ready == 6
    assert full.run("jobs", "mail", "--cancelled", "retry", "--yes").output == "4 jobs will run again\n"
    assert full.lw.queue("mail").status().ready == 10
    assert full.run("jobs", "mail", "delete", "--yes").output == "10 jobs deleted\n"
    assert full.lw.queue("mail").status().ready == 0
    assert full.lw.queue("other").status().ready == 10


def test_nothing_that_applies_is_status_1_with_the_reason(full: Office) -> None:
    for words, said in (
        (("retry",), "nothing to retry: no job matches among those that are dead, cancelled or expired"),
        (("mail", "--arg", "77", "cancel"), "nothing to cancel: no job matches among those that wait or run"),
    ):
        found = full.run("jobs", *words, "--yes")
        assert (found.exit_code, str(found.exception)) == (1, said)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--dead", "cancel"], "cancel applies to jobs that wait or run, not to --dead"),
        (["--running", "delete"], "delete applies to jobs that do not run, not to --running"),
        (["--succeeded", "retry"], "retry applies to jobs that are dead, cancelled or expired, not to --succeeded"),
        (["cancel", "retry"], "pass at most one queue, and cancel, retry, delete or no action"),
        (["mail", "cancl"], "pass at most one queue, and cancel, retry, delete or no action"),
        (["cancel", "--watch"], "--after, --oldest and --watch cannot be used with an action"),
        (["--yes"], "--yes is an option of cancel, retry and delete"),
        (["--limit", "1001"], "a list has at most 1,000 jobs: continue with --after"),
    ],
)
def test_wrong_words(full: Office, words: list[str], said: str) -> None:
    found = full.run("jobs", *words)
    assert found.exit_code == 2
    assert said in found.output


def test_dead_jobs_run_again_and_die_again(office: Office) -> None:
    job = office.app.send.enqueue(7)
    until(lambda: job.state() == "dead", "it dies")
    words = ("mail", "--dead", "--text", job.id, "retry", "--yes")
    assert office.run("jobs", *words).output == "1 job will run again\n"
    until(lambda: job.state() == "dead", "it dies again")
    assert office.run("jobs", "mail", "--dead", "--text", job.id, "delete", "--yes").output == "1 job deleted\n"
    assert office.json("jobs", "mail", "--text", job.id)["jobs"] == []


def test_a_named_argument_is_found_by_what_the_task_announced(office: Office) -> None:
    one, other = office.app.send.enqueue(2100), office.app.send.enqueue(1, subject="2100")
    one.result(30)
    other.result(30)
    found = [each["id"] for each in office.json("jobs", "mail", "--arg", "user=2100")["jobs"]]
    assert (one.id in found, other.id in found) == (True, False)
    both = [each["id"] for each in office.json("jobs", "mail", "--arg", "2100")["jobs"]]
    assert {one.id, other.id} <= {*both}


def test_a_mistyped_task_is_an_error(office: Office) -> None:
    found = office.run("jobs", "--task", "sned")
    assert (found.exit_code, str(found.exception)) == (1, "no task sned exists: did you mean send?")


def test_arguments_of_a_task_are_hidden(office: Office) -> None:
    job = office.app.charge.options(delay="1h").enqueue("4111 1111 1111 1111")
    for words in (("jobs", "keyed"), ("job", job.id), ("jobs", "keyed", "--json"), ("job", job.id, "--json")):
        shown = office.run(*words)
        assert shown.exit_code == 0, words
        assert job.id in shown.output
        assert "4111" not in shown.output, words
    assert "arguments  (hidden)\n" in office.run("job", job.id).output
    assert json.loads(office.run("job", job.id, "--json").output)["args"] is None
    assert job.delete()
