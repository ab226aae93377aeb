"""`lockwork jobs` and `lockwork job`, with a worker that runs them."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta

import pytest
import redis

from cli.conftest import Office
from lockwork import Lockwork
from processes import until


@pytest.fixture
def dead(office: Office) -> str:
    """The id of a dead job."""
    job = office.app.send.enqueue(7)
    until(lambda: job.state() == "dead", "it dies")
    id: str = job.id
    return id


def test_jobs_are_found_by_state_task_argument_and_error(office: Office, dead: str) -> None:
    for words in (
        ["--dead"],
        ["mail", "--done", "--task", "send"],
        ["mail", "--dead", "--arg", "7"],
        ["--dead", "--error", "no address", "--since", "1h"],
        ["--dead", "--error", "ValueError"],
        ["mail", "--dead", "--text", dead],
    ):
        found = {each["id"]: each for each in office.json("jobs", *words)["jobs"]}
        assert (found[dead]["state"], found[dead]["error"]["type"]) == ("dead", "ValueError"), words
    assert office.json("jobs", "mail", "--dead", "--arg", "8")["jobs"] == []
    assert office.run("jobs", "mail", "--dead", "--arg", "8").output.startswith("no job matches\n")


def test_running_job_shows_its_worker_and_is_cancelled(office: Office) -> None:
    job = office.app.rest.enqueue()
    until(lambda: job.progress(), "it reports progress")
    line = next(line for line in office.run("jobs", "--running").output.splitlines() if job.id in line)
    assert line.split()[1:4] == ["slow", "rest", "running"]
    (found,) = [each for each in office.json("jobs", "slow", "--running")["jobs"] if each["id"] == job.id]
    assert found["worker"] in {each.session for each in office.lw.queue("slow").workers()}
    shown = office.run("job", job.id).output
    assert 'progress  {"done": 3, "of": 10}\n' in shown
    assert "      1  " in shown
    cancelled = office.run("job", "cancel", job.id)
    assert cancelled.output == f"job {job.id} is being cancelled by its worker\n"
    until(lambda: job.state() == "cancelled", "it is cancelled")


def test_job_that_waits_for_its_next_attempt_is_retrying(office: Office) -> None:
    job = office.app.again.enqueue(5)
    until(lambda: job.state() == "scheduled", "it failed once")
    line = next(line for line in office.run("jobs", "mail", "--scheduled").output.splitlines() if job.id in line)
    assert "retrying" in line
    assert line.rstrip().endswith("ConnectionError: no line to 5") or "ConnectionError: no line to 5" in line
    found = office.json("job", job.id)
    assert (found["attempts"], found["error"]["type"], found["due"] > found["enqueued"]) == (1, "ConnectionError", True)
    assert [each["outcome"] for each in found["timeline"]] == ["failed"]
    assert job.cancel()


def test_dead_job_shows_its_traceback_and_runs_again(office: Office, dead: str) -> None:
    shown = office.run("job", dead).output
    assert "error      ValueError: user 7 has no address\n" in shown
    assert "Traceback (most recent call last):\n" in shown
    said = office.run("job", "retry", dead, "--delay", "10m").output
    assert re.fullmatch(rf"job {dead} will run again in (10 min|9 min 5\d s)\n", said)
    again = office.run("job", "retry", dead)
    assert (again.exit_code, str(again.exception)) == (
        1,
        f"job {dead} is scheduled: only a dead, cancelled or expired job can be retried",
    )
    assert office.json("job", "cancel", dead) == {"job": dead, "queue": "mail", "state": "cancelled"}


def test_dead_job_is_deleted_once(office: Office, dead: str) -> None:
    assert office.run("job", "delete", dead).output == f"job {dead} deleted\n"
    assert office.run("job", "delete", dead, "-q", "mail").exit_code == 1


def test_waiting_job_is_moved(office: Office) -> None:
    job = office.app.send.options(delay="1h").enqueue(1)
    at = datetime.now(UTC) + timedelta(hours=3)
    moved = office.run("job", "reschedule", job.id, "--at", at.isoformat()).output
    assert re.fullmatch(rf"job {job.id} will run at [-\d]+ [:\d]+, in (3 h|2 h 59 min)\n", moved)
    found = datetime.fromisoformat(office.json("job", job.id)["due"])
    assert abs(found - at) < timedelta(seconds=1)
    refused = office.run("job", "delete", job.id)
    assert refused.output == f"job {job.id} deleted\n"
    job = office.app.send.options(delay="1h").enqueue(1)
    assert office.run("job", "reschedule", job.id, "--delay", "1s").exit_code == 0
    job.result(30)
    ended = office.run("job", "cancel", job.id)
    assert (ended.exit_code, "only a waiting or running job can be cancelled" in str(ended.exception)) == (1, True)
    assert office.run("job", "reschedule", job.id, "--delay", "1s").exit_code == 1


def test_job_of_a_flow_shows_its_tree(office: Office) -> None:
    add = office.app.add
    flow = office.lw.flow()
    flow.add(add.call(flow.add(add.call(1))))
    run = flow.enqueue()
    run.result(30)
    assert (
        f"flow {run.id}\n1 add  succeeded\n└── 2 add  succeeded  <- this job\n"
        in office.run("job", run.job(2).id).output
    )
    assert len(office.json("job", run.job(1).id)["graph"]) == 2


def test_mistyped_job_id_gets_a_suggestion(office: Office, dead: str) -> None:
    found = office.run("job", f"{dead}x")
    assert (found.exit_code, str(found.exception)) == (1, f"no job {dead}x exists: did you mean {dead}?")
    assert str(office.run("job", "zzz").exception) == "no job zzz exists"
    assert "no queue mial exists: did you mean mail?" in str(office.run("jobs", "mial").exception)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("cancel x --delay 5s", "it is an option of lockwork job retry and lockwork job reschedule"),
        ("retry x --at 2026-12-24", "it is an option of lockwork job reschedule"),
        ("reschedule x", "reschedule takes --delay or --at"),
        ("reschedule x --at soon", "--at is a time such as 2026-12-24T18:00+01:00, not 'soon'"),
        ("cancel x --watch", "it is an option of lockwork job show"),
        ("x stop", "pass one name, or an action and a name; the actions are show, cancel, retry, reschedule, delete"),
    ],
)
def test_misplaced_option_is_refused(office: Office, words: str, said: str) -> None:
    found = office.run("job", *words.split())
    assert found.exit_code == 2
    assert said in found.output


def test_list_shows_the_number_of_searched_jobs(lw: Lockwork, url: str) -> None:
    task = lw.task(name="send", queue="mail")(print)
    task.enqueue_many([(number,) for number in range(300)])
    office = Office(lw, url)
    found = office.json("jobs", "mail", "--limit", "20")
    assert (len(found["jobs"]), found["total"]) == (20, 300)
    rest = office.json("jobs", "mail", "--limit", "1000", "--after", found["next"])
    assert len({each["id"] for each in (*found["jobs"], *rest["jobs"])}) == 300
    few = office.run("jobs", "mail", "--arg", "3", "--search", "100", "--oldest")
    assert "searched 1" in few.output
    assert "there may be more: raise --search\n" in few.output


def test_control_characters_of_jobs_are_not_printed(lw: Lockwork, url: str, admin: redis.Redis) -> None:
    task = lw.task(name="send", queue="mail", tags=["\x1b[31mred"])(print)
    job = task.enqueue("\x1b]0;title\x07", sep="[bold]\u202e")
    office = Office(lw, url)
    for text in (office.run("jobs").output, office.run("job", job.id).output):
        assert "\x1b" not in text
        assert "[bold]" in text
        assert "\u202e" not in text
    assert json.loads(office.run("job", job.id, "--json").stdout)["args"] == ["\x1b]0;title\x07"]
