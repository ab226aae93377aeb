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


def test_question_names_the_exact_number_of_jobs(full: Office) -> None:
    refused = full.run("jobs", "cancel", "mail", "--task", "send_mail", answer="n\n")
    assert refused.exit_code == 1
    assert "cancel 10 jobs of queue mail? [y/N]" in refused.stderr
    assert full.lw.queue("mail").status().ready == 10
    done = full.run("jobs", "cancel", "mail", "--arg", "3", answer="y\n")
    assert "cancel 1 job of queue mail?" in done.stderr
    assert done.stdout == "1 job cancelled\n"
    everywhere = full.run("jobs", "cancel", answer="n\n")
    assert "cancel 19 jobs of all queues?" in everywhere.stderr


def test_cancelled_jobs_run_again_and_are_deleted(full: Office) -> None:
    assert full.json("jobs", "cancel", "mail", "--yes", "--limit", "4") == {
        "action": "cancel",
        "matched": 10,
        "changed": 4,
        "undecided": 0,
    }
    assert full.lw.queue("mail").status().ready == 6
    assert full.run("jobs", "retry", "mail", "--cancelled", "--yes").output == "4 jobs will run again\n"
    assert full.lw.queue("mail").status().ready == 10
    assert full.run("jobs", "delete", "mail", "--yes").output == "10 jobs deleted\n"
    assert full.lw.queue("mail").status().ready == 0
    assert full.lw.queue("other").status().ready == 10


def test_jobs_whose_kept_part_does_not_decide_are_left_out(full: Office) -> None:
    send = full.lw.task(name="long", queue="mail")(lambda text, n: None)
    send.enqueue("x" * 5000, 77)
    send.enqueue("x", 77)
    assert full.run("jobs", "cancel", "mail", "--task", "long", "--yes").output == "2 jobs cancelled\n"
    wanted = ("mail", "--arg", "77")
    assert "1 more job may match: history has only the beginning of a long record" in full.run("jobs", *wanted).output
    left_out = "; 1 job left out: the kept part of the record does not decide"
    assert full.run("jobs", "delete", *wanted, "--yes").output == f"1 job deleted{left_out}\n"
    nothing = full.run("jobs", "delete", *wanted, "--yes")
    assert (nothing.exit_code, str(nothing.exception).endswith(f"do not run{left_out}")) == (1, True)


def test_change_of_no_job_fails_with_the_reason(full: Office) -> None:
    for words, said in (
        (("retry",), "nothing to retry: no job matches among those that are dead, cancelled or expired"),
        (("cancel", "mail", "--arg", "77"), "nothing to cancel: no job matches among those that wait or run"),
    ):
        found = full.run("jobs", *words, "--yes")
        assert (found.exit_code, str(found.exception)) == (1, said)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["cancel", "--dead"], "cancel applies to jobs that wait or run, not to --dead"),
        (["delete", "--running"], "delete applies to jobs that do not run, not to --running"),
        (["retry", "--succeeded"], "retry applies to jobs that are dead, cancelled or expired, not to --succeeded"),
        (["cancel", "mail", "other"], "Got unexpected extra argument (other)"),
        (["mail", "cancl"], "did you mean lockwork jobs cancel mail?"),
        (["cancel", "--watch"], "it is an option of lockwork jobs show"),
        (["--yes"], "it is an option of lockwork jobs cancel, lockwork jobs retry and lockwork jobs delete"),
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
    words = ("retry", "mail", "--dead", "--text", job.id, "--yes")
    assert office.run("jobs", *words).output == "1 job will run again\n"
    until(lambda: job.state() == "dead", "it dies again")
    assert office.run("jobs", "delete", "mail", "--dead", "--text", job.id, "--yes").output == "1 job deleted\n"
    assert office.json("jobs", "mail", "--text", job.id)["jobs"] == []


def test_argument_is_found_by_its_announced_name(office: Office) -> None:
    one, other = office.app.send.enqueue(2100), office.app.send.enqueue(1, subject="2100")
    one.result(30)
    other.result(30)
    found = [each["id"] for each in office.json("jobs", "mail", "--arg", "user=2100")["jobs"]]
    assert (one.id in found, other.id in found) == (True, False)
    both = [each["id"] for each in office.json("jobs", "mail", "--arg", "2100")["jobs"]]
    assert {one.id, other.id} <= {*both}


def test_mistyped_task_is_an_error(office: Office) -> None:
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


def test_names_made_from_hidden_arguments_are_hidden(lw: Lockwork, url: str) -> None:
    """No app has announced the task, so the option comes from the jobs."""
    office = Office(lw, url)
    options: dict[str, str] = {"key": "card:{card}", "group": "all:{card}"}
    pay = lw.task(name="pay", queue="keyed", hide_arguments=True, **options)(lambda card: None)  # type: ignore[call-overload]
    job = pay.options(delay="1h").enqueue("4111")
    views = [("jobs", "keyed"), ("job", job.id), ("jobs", "keyed", "--json"), ("job", job.id, "--json")]
    for words in [*views, ("jobs", "keyed", "--key", "card:4111")]:
        shown = office.run(*words)
        assert job.id in shown.output
        assert "4111" not in shown.output, words
    assert "key        (hidden)\n" in office.run("job", job.id).output
    for guess in (("--text", "4111"), ("--text", "card:"), ("--arg", "4111")):
        assert office.json("jobs", "keyed", *guess)["jobs"] == []
        assert "nothing to cancel" in str(office.run("jobs", "cancel", "keyed", *guess, "--yes").exception)
    assert office.run("jobs", "cancel", "keyed", "--key", "card:4111", "--yes").output == "1 job cancelled\n"
