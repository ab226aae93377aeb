"""`manage.py lockwork`: every command, with the app, server and prefix of the project."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import time
from pathlib import Path

import pytest

from django_project import PROJECT, START, DjangoProject
from processes import started, until


def test_worker_runs_jobs_in_threads_on_the_loop_and_in_runners(project: DjangoProject, tmp_path: Path) -> None:
    jobs = [project.task(name, "order").enqueue(project.insert()) for name in ("ship", "aship", "pack")]
    # from another folder, and without the name of an app
    text = project.output("lockwork", "worker", "--burst", "--settings=config.settings", folder=tmp_path)
    assert [job.result(timeout=0) for job in jobs] == ["shipped 1", "shipped 2", "packed 3"]
    assert [project.state(order) for order in (1, 2, 3)] == ["shipped", "shipped", "packed"]
    assert "runs lockwork.contrib.django:lw" in text
    assert [app.name for app in project.lw.apps()] == ["config"]


def test_lockwork_command_finds_the_app_of_the_settings(
    project: DjangoProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DJANGO_SETTINGS_MODULE", "config.settings")
    project.configure({}, PROJECT_EARLY="models import the app, although Django is not ready")
    job = project.task("aship", "order").enqueue(project.insert())
    with started([sys.executable, "-m", "lockwork", "worker", "--burst"], folder=PROJECT, url=project.url) as worker:
        assert worker.wait() == 0, worker.errors
    assert job.result(timeout=0) == "shipped 1"


def test_commands_use_the_server_and_prefix_of_the_settings(project: DjangoProject) -> None:
    project.configure({"LOCKWORK": {"url": project.url, "prefix": "shop"}})
    elsewhere = "redis://127.0.0.1:1"
    code = "from orders.tasks import ship; ship.enqueue(1)"
    project.output("shell", "-c", code, url=elsewhere)
    (queue,) = json.loads(project.output("lockwork", "queue", "--json", url=elsewhere).partition("\n\n")[0])["queues"]
    assert queue["ready"] == 1
    # the options of the command line take precedence
    assert "no queue" in project.output("lockwork", "status", "--prefix", "other", url=elsewhere)


def test_worker_with_reload_restarts_as_the_same_command(
    project: DjangoProject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(PROJECT, copy, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setenv("DJANGO_SETTINGS_MODULE", "config.settings")
    with started(
        [sys.executable, "manage.py", "lockwork", "worker", "--reload"], folder=copy, url=project.url
    ) as worker:
        until(lambda: "works on default" in worker.errors, "the worker is ready", START)
        tasks = copy / "orders" / "tasks.py"
        tasks.write_text(tasks.read_text().replace('f"shipped {order}"', 'f"sent {order}"'))
        until(lambda: worker.errors.count("works on default") == 2, "the worker is ready again", START)
        assert project.task("ship", "order").enqueue(project.insert()).result(timeout=30) == "sent 1"
        worker.send(signal.SIGTERM)
        assert worker.wait() == 0


def test_call_command_runs_a_command_in_this_process(project: DjangoProject) -> None:
    code = """
from django.core.management import call_command, CommandError
call_command("lockwork", "status")
try:
    call_command("lockwork", "job", "nothing")
except CommandError as error:
    print(error, error.returncode)
"""
    assert "lockwork job nothing failed with status 1 1" in project.output("shell", "-c", code)


def test_project_without_databases_runs_jobs(project: DjangoProject) -> None:
    """celery/celery#1635: with the dummy backend, the worker died at its first job."""
    project.configure({"DATABASES": {"default": {"ENGINE": "django.db.backends.dummy"}}, "LANGUAGE_CODE": "de"})
    tasks = [project.task(name) for name in ("speak", "aspeak")]
    jobs = [task.enqueue() for task in tasks]
    with project.manage("lockwork", "worker", "--concurrency", "2") as worker:
        assert [job.result(timeout=START) for job in jobs] == [["de", "America/Chicago"]] * 2
        worker.send(signal.SIGTERM)
        assert worker.wait() == 0


def test_help_is_that_of_lockwork(project: DjangoProject) -> None:
    assert "Usage: manage.py lockwork" in project.output("help", "lockwork")
    assert "--concurrency" in project.output("lockwork", "worker", "--help")


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"LOCKWORK": {"prefx": "shop"}}, "there is no key 'prefx': did you mean 'prefix'?"),
        ({"LOCKWORK": {"url": "redis://:@:a"}}, "the setting LOCKWORK is wrong"),
        ({"LOCKWORK": {"on_commit": "archiv"}}, "did you mean 'archive'?"),
    ],
)
def test_wrong_settings_are_one_line(project: DjangoProject, settings: dict[str, object], complaint: str) -> None:
    project.configure(settings)
    said = project.output("lockwork", "worker", "--burst", "--skip-checks", status=1)
    assert complaint in said
    assert "Traceback" not in said


def test_missing_app_and_failing_import_are_named(
    project: DjangoProject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DJANGO_SETTINGS_MODULE", "config.settings")
    copy = tmp_path / "copy"
    shutil.copytree(PROJECT, copy, ignore=shutil.ignore_patterns("__pycache__"))
    command = [sys.executable, "-m", "lockwork", "worker", "--burst"]
    tasks = copy / "orders" / "tasks.py"
    tasks.write_text("import orders.missing\n")
    with started(command, folder=copy, url=project.url) as worker:
        assert worker.wait() == 1
        assert "No module named 'orders.missing'" in worker.errors
        assert "tasks.py, line 1" in worker.errors
    tasks.write_text("")
    settings = copy / "config" / "settings.py"
    settings.write_text(settings.read_text().replace('    "lockwork.contrib.django",\n', ""))
    with started(command, folder=copy, url=project.url) as worker:
        assert worker.wait() == 1
        assert worker.errors == "lockwork: 'lockwork.contrib.django' is missing in INSTALLED_APPS\n"


def test_killed_worker_process_is_replaced_and_finds_the_project(project: DjangoProject, tmp_path: Path) -> None:
    project.configure({}, PROJECT_JOBS="2")
    with project.manage("lockwork", "worker", "--lease", "2", folder=tmp_path) as worker:
        until(lambda: "works on default" in worker.errors, "the worker is ready", START)
        stuck = project.task("together", "order").enqueue(project.insert())
        until(lambda: stuck.state() == "running", "the job runs")
        (child,) = worker.children()
        os.kill(child, signal.SIGKILL)
        time.sleep(0.1)
        project.task("together", "order").enqueue(project.insert())
        assert stuck.result(timeout=30) is None
        worker.send(signal.SIGTERM)
        assert worker.wait() == 0
