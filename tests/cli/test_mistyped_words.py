"""Errors for mistyped names: each suggests a close match, or lists the existing names."""

from __future__ import annotations

import re

import click
import pytest
from click.testing import CliRunner

from cli.conftest import Office
from lockwork import Lockwork
from lockwork.cli.action_group import ActionGroup
from lockwork.cli.commands import cli
from processes import until


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("queue paus mail", "did you mean lockwork queue pause mail?"),
        ("workers quit web1", "did you mean lockwork workers quiet web1?"),
        ("schedules paus nightly", "did you mean lockwork schedules pause nightly?"),
        ("jobs mail cancl --dead", "did you mean lockwork jobs cancel mail --dead?"),
        ("locks relase catalog", "did you mean lockwork locks release catalog?"),
        ("job abc cancle", "no action of job is named 'cancle': did you mean lockwork job cancel abc?"),
        ("flows abc cancle", "no action of flows is named 'cancle': did you mean lockwork flows cancel abc?"),
        ("flows cancel", "Missing argument 'ID'"),
        ("schedules nightly puase", "did you mean lockwork schedules pause nightly?"),
        ("jobs mail dead", "did you mean --dead?"),
        ("jobs --since 1x", '--since must be a number of seconds or a time such as "10m" or "1h30m", not \'1x\''),
        ("worker --url redis://x office:lw", "the app names its server, or LOCKWORK_URL"),
        ("dead grups", "did you mean lockwork dead groups?"),
        ("dead mail", "there are list, groups, show, retry, delete; pass a queue as --queue"),
        ("queue pause", "Missing argument 'NAME'"),
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


def test_narrow_view_of_a_worker_shows_all_queues(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    (worker,) = office.lw.workers()
    lines = office.run("workers", worker.name).output
    for text in (worker.name, *worker.queues, f"of {worker.slots}", worker.version):
        assert text in lines


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("queue mail pause", "queue pause mail"),
        ("queue mail limit --rate 5/s", "queue limit mail --rate 5/s"),
        ("queue --json pause", "queue pause --json; for the name pause: lockwork queue show --json pause"),
        ("job {job} cancel", "job cancel {job}"),
        ("job -q mail {job} delete", "job delete -q mail {job}"),
        ("jobs mail --scheduled cancel --yes", "jobs cancel mail --scheduled --yes"),
        ("jobs mail --text cancel cancel --yes", "jobs cancel mail --text cancel --yes"),
        ("schedules nightly pause", "schedules pause nightly"),
        ("workers web1 stop", "workers stop web1"),
        ("flows abc cancel", "flows cancel abc"),
        ("locks --yes catalog release", "locks release --yes catalog"),
        ("dead -q mail retry --all --yes", "dead retry -q mail --all --yes"),
        ("functions --yes delete", "functions delete --yes"),
    ],
)
def test_action_after_the_name_is_refused_with_the_corrected_line(office: Office, words: str, line: str) -> None:
    job = office.app.send.options(delay="1h").enqueue(1)
    found = office.run(*words.format(job=job.id).split())
    assert found.exit_code == 2
    assert found.output.endswith(f"Error: the action comes first: lockwork {line.format(job=job.id)}\n")
    assert job.state() == "scheduled"
    assert not office.lw.queue("mail").status().paused
    assert job.delete()


def test_thing_named_like_an_action_is_shown_and_changed(lw: Lockwork, url: str) -> None:
    lw.task(name="send", queue="pause")(print).enqueue(1)
    office = Office(lw, url)
    assert office.json("queue", "show", "pause")["queue"] == "pause"
    assert office.json("queue", "pause", "pause")["paused"]
    assert [job["queue"] for job in office.json("jobs", "show", "pause")["jobs"]] == ["pause"]
    lw.lock("release").acquire()
    (lock,) = office.json("locks", "show", "release")["locks"]
    assert lock["name"] == "release"
    assert "release" in office.run("locks", "--", "release").output
    assert office.run("locks", "release", "release", "--yes").output == "lock 'release': 1 released\n"


def test_only_word_may_be_a_mistyped_action(office: Office) -> None:
    found = office.run("queue", "puase")
    assert found.exception is not None
    assert found.exception.__notes__ == ["If you meant the action: lockwork queue pause"]
    assert not hasattr(office.run("queue", "mial").exception, "__notes__")


@pytest.mark.parametrize(
    "noun", ["queue", "job", "jobs", "workers", "schedules", "flows", "locks", "dead", "functions"]
)
def test_help_of_a_group_lists_its_actions_and_the_options_of_its_view(noun: str) -> None:
    group = cli.get_command(click.Context(cli), noun)
    assert isinstance(group, ActionGroup)
    text = CliRunner().invoke(cli, [noun, "--help"]).output
    for action in group.commands:
        assert re.search(rf"^  {action} +\S", text, re.MULTILINE), action
    assert "This is the default." in text
    assert "--json" in text


def test_cancelled_job_cannot_be_cancelled_again(office: Office) -> None:
    job = office.app.send.options(delay="1h").enqueue(1)
    assert office.run("job", "cancel", job.id).output == f"job {job.id} cancelled\n"
    again = office.run("job", "cancel", job.id)
    said = f"job {job.id} is cancelled: only a waiting or running job can be cancelled"
    assert (again.exit_code, str(again.exception)) == (1, said)
    moved = office.run("job", "reschedule", job.id, "--delay", "1h")
    assert str(moved.exception).endswith("only a waiting job can be rescheduled; retry it with --delay")


def test_question_without_an_answer_names_the_option(office: Office) -> None:
    job = office.app.send.options(delay="1h").enqueue(1)
    found = office.run("jobs", "cancel", "mail", "--scheduled", answer="")
    assert found.exit_code == 1
    assert "no answer, so nothing was changed: add --yes to skip the question" in found.output
    assert job.state() == "scheduled"
    found = office.run("jobs", "cancel", "mail", "--scheduled", answer="n\n")
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
    found = office.run("dead", "delete", "-q", "mail", "--error", "no such text")
    assert (found.exit_code, str(found.exception)) == (1, "nothing to delete: no dead job matches")
