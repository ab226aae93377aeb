"""The backend of Django's tasks: the project's own cases, and workers that are killed."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import django
import pytest
import redis

from django_project import PROJECT, START, DjangoProject
from processes import until

FRAMEWORK = "django.tasks" if django.VERSION >= (6,) else "django_tasks"
BACKEND = "lockwork.contrib.django.tasks.LockworkBackend"
QUEUES = ["default", "slow", "third"]


@pytest.fixture
def reports(project: DjangoProject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DjangoProject:
    """A project whose only tasks are Django's, and whose queues keep no history."""
    configure(project)
    monkeypatch.setenv("REPORTS_SIGNALS", str(tmp_path / "signals"))
    return project


def configure(project: DjangoProject, **options: Any) -> None:
    project.configure(
        {
            "INSTALLED_APPS": ["reports", "lockwork.contrib.django"],
            "ROOT_URLCONF": "reports.urls",
            "MIDDLEWARE": [],
            "LOCKWORK": {"history": 0, "patience": 5},
            "TASKS": {
                "default": {"BACKEND": BACKEND, "QUEUES": QUEUES, "OPTIONS": options},
                "other": {"BACKEND": BACKEND, "QUEUES": QUEUES},
                "immediate": {"BACKEND": f"{FRAMEWORK}.backends.immediate.ImmediateBackend"},
            },
        }
    )


def shell(project: DjangoProject, code: str) -> Any:
    """Run code in the project, and parse the last line of its output as JSON."""
    found = project.output("shell", "-c", f"import json\nfrom reports.tasks import *\n{code}")
    return json.loads([line for line in found.splitlines() if line.startswith(("[", "{", '"'))][-1])


RESULT = """
def show(result):
    return [
        str(result.status),
        [error.exception_class_path for error in result.errors],
        [error.traceback for error in result.errors],
        result.worker_ids,
        [each and each.timestamp() for each in
         (result.enqueued_at, result.started_at, result.last_attempted_at, result.finished_at)],
        result._return_value,
        result.args,
    ]
"""


def signals(project: DjangoProject, tmp_path: Path) -> list[list[str]]:
    file = tmp_path / "signals"
    return [line.split() for line in file.read_text().splitlines()] if file.exists() else []


@pytest.mark.parametrize("codec", ["plain", "encrypted"])
def test_cases_of_the_project(reports: DjangoProject, codec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if codec == "encrypted":
        monkeypatch.setenv("PROJECT_KEYS", f"k1:{'S' * 43}")
    said = reports.output("test", "reports.task_cases")
    assert "\nOK" in said, said
    assert "skipped" not in said
    assert int(re.findall(r"Ran (\d+) tests", said)[0]) >= 43


def test_encrypted_tasks_are_not_readable_on_the_server(
    reports: DjangoProject, admin: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROJECT_KEYS", f"k1:{'S' * 43}")
    secret = "card-4111"
    ids = shell(
        reports,
        f"print(json.dumps([aecho.enqueue({secret!r}).id, fail_with.enqueue({secret!r}).id]))",
    )
    reports.output("lockwork", "worker", "--burst")
    shown = shell(reports, f"{RESULT}\nprint(json.dumps([show(aecho.get_backend().get_result(id)) for id in {ids!r}]))")
    assert [(each[0], each[6]) for each in shown] == [("SUCCESSFUL", [secret]), ("FAILED", [secret])]
    assert shown[0][5] == secret
    assert secret in shown[1][2][0]
    stored = b"".join(repr(_dumped(admin, key)).encode() for key in admin.scan_iter())
    assert b"~k1." in stored
    assert secret.encode() not in stored


def _dumped(client: redis.Redis, key: bytes) -> object:
    kind = client.type(key)
    return client.hgetall(key) if kind == b"hash" else client.get(key) if kind == b"string" else key


def test_worker_serves_the_queues_of_the_backend(reports: DjangoProject) -> None:
    ids = shell(
        reports,
        "print(json.dumps([where.using(queue_name=name).enqueue().id for name in ('default', 'slow', 'third')]))",
    )
    said = reports.output("lockwork", "worker", "--burst")
    assert "queues: default, slow, third" in said
    values = shell(reports, f"print(json.dumps([where.get_result(id).return_value for id in {ids}]))")
    assert values == QUEUES
    (app,) = reports.lw.apps()
    assert {task.name for task in app.tasks} >= {"reports.tasks.where", "reports.tasks.immediate"}


def test_attempts_of_killed_processes_are_errors(reports: DjangoProject, tmp_path: Path) -> None:
    id = shell(reports, "print(json.dumps([kill.enqueue(1).id]))")[0]
    with reports.manage("lockwork", "worker", "--lease", "2") as worker:
        until(lambda: _finished(signals(reports, tmp_path)), "the task has finished", START)
        worker.send(signal.SIGTERM)
        assert worker.wait() == 0
    status, paths, traces, workers, times, value, args = shell(
        reports, f"{RESULT}\nprint(json.dumps(show(kill.get_result({id!r}))))"
    )
    assert (status, paths, value, args) == ("SUCCESSFUL", ["lockwork.errors.WorkerDied"], 2, [1])
    assert "its worker died" in traces[0]
    assert len(set(workers)) == 2
    assert times == sorted(times)
    assert len(set(times)) == 4
    assert [each[0] for each in signals(reports, tmp_path)] == ["enqueued", "started", "started", "finished"]


def test_runners_and_hard_timeouts(reports: DjangoProject, tmp_path: Path) -> None:
    ids = shell(reports, "print(json.dumps([pid.enqueue().id, pid.enqueue(True).id]))")
    with reports.manage("lockwork", "worker", "--lease", "2") as worker:
        until(lambda: _ended(signals(reports, tmp_path)) == {*ids}, "the runners have finished", START)
        ids += shell(reports, "print(json.dumps([stuck.enqueue().id]))")
        until(lambda: _ended(signals(reports, tmp_path)) == {*ids}, "all tasks have finished", START)
        worker.send(signal.SIGTERM)
        assert worker.wait() == 0
    found = shell(
        reports,
        f"{RESULT}\nprint(json.dumps([show(pid.get_backend().get_result(id)) for id in {ids!r}]))",
    )
    errors = [[], ["lockwork.errors.WorkerDied"], ["lockwork.errors.JobTimeout"]]
    assert [each[1] for each in found] == errors
    assert [each[0] for each in found] == ["SUCCESSFUL", "FAILED", "FAILED"]
    assert [len(each[3]) for each in found] == [1, 1, 1]
    assert "0.3" in found[2][2][0]
    ended = [each for each in signals(reports, tmp_path) if each[0] == "finished"]
    assert sorted(each[1:] for each in ended) == sorted(
        [
            [ids[0], "SUCCESSFUL", "0", "-"],
            [ids[1], "FAILED", "1", "WorkerDied"],
            [ids[2], "FAILED", "1", "JobTimeout"],
        ]
    )


def test_stopped_worker_returns_the_task(reports: DjangoProject, tmp_path: Path) -> None:
    """RealOrangeOne/django-tasks#192: the result stayed RUNNING."""
    id = shell(reports, "print(json.dumps([asleep.enqueue(600).id]))")[0]
    with reports.manage("lockwork", "worker", "--grace", "0") as worker:
        until(lambda: len(signals(reports, tmp_path)) == 2, "the task has started", START)
        worker.send(signal.SIGTERM)
        worker.wait()
    found = shell(reports, f"{RESULT}\nprint(json.dumps(show(asleep.get_result({id!r}))))")
    assert (found[0], found[1], found[3]) == ("READY", [], [])
    assert not _finished(signals(reports, tmp_path))


@pytest.mark.parametrize("at_once", [True, False])
def test_task_that_kills_its_process_finishes_once(reports: DjangoProject, tmp_path: Path, at_once: bool) -> None:
    configure(reports, **({"max_deliveries": 1} if at_once else {}))
    id = shell(reports, "print(json.dumps([kill.enqueue(100).id]))")[0]
    with reports.manage("lockwork", "worker", "--lease", "2") as worker:
        until(lambda: _finished(signals(reports, tmp_path)), "the task has finished", START)
        worker.send(signal.SIGTERM)
        assert worker.wait() == 0
    status, paths, _, workers, times, _, args = shell(
        reports, f"{RESULT}\nprint(json.dumps(show(kill.get_result({id!r}))))"
    )
    deaths = 1 if at_once else 3
    assert (status, paths, args) == ("FAILED", ["lockwork.errors.WorkerDied"] * deaths, [100])
    assert len(set(workers)) == deaths
    assert times == sorted(times)
    names = [each[0] for each in signals(reports, tmp_path)]
    assert names == ["enqueued", *["started"] * deaths, "finished"]
    assert signals(reports, tmp_path)[-1][1:] == [id, "FAILED", str(deaths), "WorkerDied"]


def test_job_that_a_program_without_django_cancels_finishes_once(reports: DjangoProject, tmp_path: Path) -> None:
    ids = shell(reports, "print(json.dumps([sleep.enqueue(600).id, asleep.enqueue(600).id, sleep.enqueue(600).id]))")
    assert reports.lw.job(ids[0]).cancel()
    with reports.manage("lockwork", "worker", "--concurrency", "1") as worker:
        until(lambda: _ended(signals(reports, tmp_path)) == {ids[0]}, "the end before its start is sent", START)
        until(lambda: [each[0] for each in signals(reports, tmp_path)].count("started") == 1, "one runs", START)
        assert reports.lw.job(ids[2]).cancel()
        until(lambda: ids[2] in _ended(signals(reports, tmp_path)), "the end of the waiting job is sent", START)
        assert reports.lw.job(ids[1]).cancel()
        until(lambda: ids[1] in _ended(signals(reports, tmp_path)), "the end of the running job is sent", START)
        worker.send(signal.SIGTERM)
        assert worker.wait() == 0
    ended = [each for each in signals(reports, tmp_path) if each[0] == "finished"]
    assert sorted(each[1:] for each in ended) == sorted([id, "FAILED", "1", "JobCancelled"] for id in ids)


@pytest.mark.parametrize("at", ["before", "after"])
def test_worker_that_dies_around_the_settlement_finishes_once(
    reports: DjangoProject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    monkeypatch.setenv("REPORTS_DIES", at)
    id = shell(reports, "print(json.dumps([echo.enqueue(1).id]))")[0]
    with reports.manage("lockwork", "worker", "--lease", "2") as worker:
        until(lambda: _finished(signals(reports, tmp_path)), "the task has finished", START)
        worker.send(signal.SIGTERM)
        assert worker.wait() == 0
    found = shell(reports, f"{RESULT}\nprint(json.dumps(show(echo.get_result({id!r}))))")
    assert found[0] == "SUCCESSFUL"
    assert len(found[3]) == (2 if at == "before" else 1)
    names = [each[0] for each in signals(reports, tmp_path)]
    assert names == ["enqueued", *["started"] * len(found[3]), "finished"]


def test_whole_worker_that_is_killed_loses_no_task(reports: DjangoProject, tmp_path: Path) -> None:
    id = shell(reports, "print(json.dumps([sleep.enqueue(1).id]))")[0]
    with reports.manage("lockwork", "worker", "--lease", "2") as worker:
        until(lambda: len(signals(reports, tmp_path)) == 2, "the task has started", START)
        worker.send(signal.SIGKILL)
        worker.wait()
    with reports.manage("lockwork", "worker", "--lease", "2") as worker:
        until(lambda: _finished(signals(reports, tmp_path)), "the task has finished", START)
        worker.send(signal.SIGTERM)
        assert worker.wait() == 0
    found = shell(reports, f"{RESULT}\nprint(json.dumps(show(sleep.get_result({id!r}))))")
    assert found[0] == "SUCCESSFUL"
    assert len(found[3]) == len(found[1]) + 1


def _ended(received: list[list[str]]) -> set[str]:
    return {each[1] for each in received if each[0] == "finished"}


def _finished(received: list[list[str]]) -> bool:
    return any(each[0] == "finished" for each in received)


def test_package_is_named_where_the_framework_is_missing() -> None:
    code = """
import sys
sys.modules["django.tasks"] = sys.modules["django_tasks"] = None
from django.conf import settings
settings.configure(INSTALLED_APPS=["lockwork.contrib.django"])
import django
django.setup()
from lockwork.contrib.django import lw
import lockwork.contrib.django.tasks
"""
    if FRAMEWORK == "django.tasks":
        pytest.skip("Django has the framework")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=PROJECT)
    assert (
        'ImportError: tasks need Django 6, or the package django-tasks for Django 5.2: pip install "django-tasks'
        in (done.stderr)
    )
