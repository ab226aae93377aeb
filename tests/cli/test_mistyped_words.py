"""What people type by mistake, and what they are told: what was meant, or what there is."""

from __future__ import annotations

import pytest

from cli.conftest import Office
from processes import until


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("queue paus mail", "did you mean pause?"),
        ("workers quit web1", "did you mean quiet?"),
        ("schedules paus nightly", "did you mean pause?"),
        ("jobs mail cancl", "did you mean cancel?"),
        ("locks relase catalog", "did you mean release?"),
        ("job abc cancle", "'cancle' is no action: pass cancel, retry, reschedule or delete: did you mean cancel?"),
        ("flows abc cancle", "'cancle' is no action: pass cancel: did you mean cancel?"),
        ("flows cancel", "cancel which one? Pass its id"),
        ("schedules nightly puase", "did you mean pause?"),
        ("jobs mail dead", "did you mean --dead?"),
        ("jobs --since 1x", '--since must be a number of seconds or a time such as "10m" or "1h30m", not \'1x\''),
        ("worker --url redis://x office:lw", "the app names its server, or LOCKWORK_URL"),
        ("dead grups", "did you mean groups?"),
        ("dead mail", "'mail' is none of list, groups, show, retry, delete: a queue is named by --queue"),
        ("queue pause", "pause which queue?"),
        ("statsu", "no command is named 'statsu': did you mean status?"),
    ],
)
def test_mistyped_action_is_answered_by_what_was_meant(office: Office, words: str, said: str) -> None:
    found = office.run(*words.split())
    assert found.exit_code == 2
    assert said in found.output


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("jobs mial", "no queue mial exists: did you mean mail?"),
        ("queue drain mial", "no queue mial exists: did you mean mail?"),
        ("dead -q mial", "no queue mial exists: did you mean mail?"),
        ("jobs --task sned", "no task sned exists: did you mean send?"),
        ("enqueue sned", "no task sned exists: did you mean send? Add --create to use it anyway."),
        ("schedules run nigthly", "no schedule nigthly exists: did you mean nightly?"),
        ("job nonsense", "no job nonsense exists"),
        ("flows nonsense", "no flow nonsense exists"),
    ],
)
def test_mistyped_name_is_answered_by_what_there_is(office: Office, words: str, said: str) -> None:
    found = office.run(*words.split())
    assert (found.exit_code, str(found.exception)) == (1, said)


def test_mistyped_lock_is_answered_by_what_is_held(office: Office) -> None:
    with office.lw.lock("catalog"):
        said = office.run("locks", "release", "catlog", "--yes").output
        assert said == "nobody holds 'catlog': did you mean catalog?\n"
        assert office.lw.lock("catalog").locked()


def test_empty_lists_say_what_there_is_not(office: Office) -> None:
    for words, said in [
        (("jobs",), "no job is on this server"),
        (("jobs", "--dead"), "no job matches"),
        (("queue",), "no queue has had a job"),
        (("workers",), "no worker runs: start one with `lockwork worker MODULE:OBJECT`"),
        (("flows",), "no flow is on this server"),
        (("dead",), "no job is dead"),
    ]:
        assert office.run(*words, "--prefix", "none").output == f"{said}\n"


def test_one_worker_is_shown_with_all_of_its_queues(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    (worker,) = office.lw.workers()
    lines = office.run("workers", worker.name).output
    for text in (worker.name, *worker.queues, f"of {worker.slots}", worker.version):
        assert text in lines


def test_action_may_come_before_or_behind_what_it_acts_on(office: Office) -> None:
    job = office.app.send.options(delay="1h").enqueue(1)
    (worker,) = office.lw.workers()
    for words in (
        ("job", "cancel", job.id),
        ("schedules", "nightly", "resume"),
        ("queue", "mail", "resume"),
        ("workers", worker.name, "resume"),
    ):
        found = office.run(*words)
        assert found.exit_code == 0, (words, found.output)
    assert job.state() == "cancelled"


def test_cancelled_job_cannot_be_cancelled_again(office: Office) -> None:
    job = office.app.send.options(delay="1h").enqueue(1)
    assert office.run("job", job.id, "cancel").output == f"job {job.id} cancelled\n"
    again = office.run("job", job.id, "cancel")
    said = f"job {job.id} is cancelled: only a waiting or running job can be cancelled"
    assert (again.exit_code, str(again.exception)) == (1, said)
    moved = office.run("job", job.id, "reschedule", "--delay", "1h")
    assert str(moved.exception).endswith("only a waiting job can be rescheduled; retry it with --delay")


def test_question_without_an_answer_names_the_option(office: Office) -> None:
    job = office.app.send.options(delay="1h").enqueue(1)
    found = office.run("jobs", "mail", "--scheduled", "cancel", answer="")
    assert found.exit_code == 1
    assert "no answer, so nothing was changed: add --yes to skip the question" in found.output
    assert job.state() == "scheduled"
    found = office.run("jobs", "mail", "--scheduled", "cancel", answer="n\n")
    assert (found.exit_code, found.output.splitlines()[-1]) == (1, "lockwork: nothing was changed")
    assert job.cancel()


def test_top_without_a_terminal_is_refused(office: Office) -> None:
    found = office.run("top")
    assert found.exit_code == 1
    assert str(found.exception).startswith("lockwork top needs a terminal")


def test_error_of_dead_jobs_is_found_by_type_and_by_message(office: Office) -> None:
    dead = office.app.send.enqueue(7)
    until(lambda: dead.state() == "dead", "it dies")
    for text in ("ValueError", "no address", "Error: user 7"):
        assert dead.id in office.run("dead", "--error", text).output
    assert office.run("dead", "--error", "no such text").output == "no dead job matches\n"
    found = office.run("dead", "-q", "mail", "--error", "no such text", "delete")
    assert (found.exit_code, str(found.exception)) == (1, "nothing to delete: no dead job matches")
