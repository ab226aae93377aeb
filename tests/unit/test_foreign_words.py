"""The words of other libraries: each is an error that says what to write instead."""

from __future__ import annotations

import copy
import pickle
import re
from typing import Any

import click
import pytest
from click.testing import CliRunner

from lockwork import ConfigError, Lockwork, foreign_words
from lockwork.cli.commands import cli
from lockwork.cli.worker import worker

NOWHERE = "redis://localhost:1"


@pytest.fixture
def app() -> Lockwork:
    return Lockwork(NOWHERE)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("get", "use result(timeout)"),
        ("ready", "use state()"),
        ("revoke", "use cancel()"),
        ("status", "use state()"),
        ("successful", 'use state() == "succeeded"'),
    ],
)
def test_job_names_its_own_methods(app: Lockwork, name: str, hint: str) -> None:
    job: Any = app.job("0" * 20)
    with pytest.raises(AttributeError, match=re.escape(f"'FoundJob' object has no attribute '{name}': {hint}")):
        getattr(job, name)
    assert not hasattr(job, "nonsense")
    assert copy.copy(job).id == job.id


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("send_task", "use lw.remote_task(name).enqueue(...)"),
        ("enqueue", "call the task's method: task.enqueue(1)"),
        ("AsyncResult", "use lw.job(id)"),
        ("conf", "pass settings to Lockwork(...)"),
    ],
)
def test_app_names_its_own_methods(app: Lockwork, name: str, hint: str) -> None:
    anything: Any = app
    with pytest.raises(AttributeError, match=re.escape(f"'Lockwork' object has no attribute '{name}': {hint}")):
        getattr(anything, name)
    with pytest.raises(AttributeError, match="^'Lockwork' object has no attribute 'nonsense'$"):
        anything.nonsense  # noqa: B018


@pytest.mark.parametrize(
    ("option", "hint"),
    [
        ("bind", "omit it, and call lockwork.current_job() inside the task, which has no parameter self"),
        ("acks_late", "jobs are acknowledged when they have ended"),
        ("rate_limit", 'use rate="10/s", for all workers together'),
        ("autoretry_for", "use retry_on"),
        ("ignore_result", "use keep_result=False"),
        ("max_retries", "did you mean 'retries'?"),
    ],
)
def test_task_names_its_own_options(app: Lockwork, option: str, hint: str) -> None:
    options: Any = {option: True}
    with pytest.raises(ConfigError, match=re.escape(f"a task has no option '{option}': {hint}")):
        app.task(**options)


@pytest.mark.parametrize(
    ("option", "hint"),
    [
        ("timeout", 'use lease="10s"; without it, the lock is renewed while this process lives'),
        ("blocking_timeout", 'use wait="5s"'),
        ("blocking", "use wait=0 to try once"),
    ],
)
def test_lock_names_its_own_options(app: Lockwork, option: str, hint: str) -> None:
    options: Any = {option: 5}
    text = f"lock() got an unexpected keyword argument '{option}': {hint}"
    with pytest.raises(TypeError, match=f"^{re.escape(text)}$"):
        app.lock("name", **options)
    nonsense: Any = {"nonsense": 1}
    with pytest.raises(TypeError, match=r"^lock\(\) got an unexpected keyword argument 'nonsense'$"):
        app.lock("name", **nonsense)


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ("worker shop:lw --tries 3", "the task sets it: @lw.task(retries=2), without the first attempt"),
        ("worker shop:lw --tries=3", "the task sets it: @lw.task(retries=2), without the first attempt"),
        ("worker shop:lw --sleep 3", "omit it: nothing polls; a waiting worker is woken by each job"),
        ("worker shop:lw --stop-when-empty", "use --burst"),
        ("worker shop:lw --pool threads", "a worker needs no pool"),
        ("worker shop:lw -P threads", "a worker needs no pool"),
        ("worker -A shop:lw", "name the app without it: lockwork worker MODULE:OBJECT"),
        ("worker shop:lw -l info", "use --log-level"),
        ("beat", "every worker runs the schedules of its app"),
        ("queue:restart", "use lockwork workers stop --all"),
        ("flower", "use lockwork dashboard"),
    ],
)
def test_command_line_names_its_own_words(words: str, hint: str) -> None:
    done = CliRunner().invoke(cli, words.split())
    assert done.exit_code == 2
    assert hint in " ".join(done.output.split())


def test_words_of_other_libraries_are_not_lockwork_methods(app: Lockwork) -> None:
    @app.task
    def task() -> None: ...

    job = app.job("0" * 20)
    for owner, words in (
        (task, foreign_words.TASK_METHODS), (job, foreign_words.JOB_METHODS), (app, foreign_words.APP_METHODS)
    ):  # fmt: skip
        assert [name for name in words if hasattr(owner, name)] == []
    options = {name for param in worker.params for name in param.opts}
    assert options & set(foreign_words.WORKER_OPTIONS) == set()
    context = click.Context(cli)
    assert set(cli.list_commands(context)) & set(foreign_words.COMMANDS) == set()


def test_hints_name_commands_and_options_that_exist() -> None:
    context = click.Context(cli)
    for hint in [*foreign_words.COMMANDS.values(), *foreign_words.WORKER_OPTIONS.values()]:
        for first, second in re.findall(r"lockwork ([a-z]+)(?: ([a-z]+))?", hint):
            command = cli.get_command(context, first)
            assert command is not None, hint
            if isinstance(command, click.Group) and second:
                assert second in command.commands, hint
    options = {name for param in worker.params for name in param.opts}
    for hint in foreign_words.WORKER_OPTIONS.values():
        assert set(re.findall(r"(?<!\S)--?[a-z][a-z-]*", hint)) <= options, hint


def test_unknown_names_are_no_part_of_a_pickle(app: Lockwork) -> None:
    with pytest.raises((TypeError, AttributeError, pickle.PicklingError)):
        pickle.dumps(app)
