"""What people type by mistake, and what they are told: what was meant, or what there is."""

from __future__ import annotations

import pytest

from cli.conftest import Office


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("queue paus mail", "did you mean pause?"),
        ("workers quit web1", "did you mean quiet?"),
        ("schedules paus nightly", "did you mean pause?"),
        ("jobs mail cancl", "did you mean cancel?"),
        ("locks relase catalog", "did you mean release?"),
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
        (("dead",), "no dead jobs"),
    ]:
        assert office.run(*words, "--prefix", "none").output == f"{said}\n"


def test_one_worker_is_shown_with_all_of_its_queues(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    (worker,) = office.lw.workers()
    lines = office.run("workers", worker.name).output
    for text in (worker.name, *worker.queues, f"of {worker.slots}", worker.version):
        assert text in lines
