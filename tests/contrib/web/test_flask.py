"""The integration with Flask, on a real server."""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
import weakref
from pathlib import Path

import httpx
import pytest
import redis
from flask import Flask, current_app, g

from lockwork import ConfigError, Lockwork
from lockwork.contrib.flask import init_app
from lockwork.testing import inline
from ports import free_port
from processes import started, until

START = 60.0
HERE = Path(__file__).parent
FLASK = [sys.executable, "-m", "flask", "--app", "flask_app:create_app('shop')"]


@pytest.fixture
def notes(tmp_path: Path, url: str, admin: redis.Redis, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FLASK_TEST_LOG", str(tmp_path / "log"))
    monkeypatch.setenv("FLASK_TEST_URL", url)
    monkeypatch.delenv("FLASK_APP", raising=False)
    return tmp_path / "log"


def test_jobs_have_separate_app_contexts(notes: Path) -> None:
    port = free_port()
    with (
        started([*FLASK, "run", "--port", str(port)], folder=HERE, url=None) as web,
        started([*FLASK, "lockwork", "worker"], folder=HERE, url=None) as worker,
        httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=START) as client,
    ):
        until(lambda: "Running on" in web.errors, "the app is open", START)
        until(lambda: "works on default" in worker.errors, "the worker is ready", START)
        answers = [client.get(f"/start/{task}").json() for task in ("in_thread", "on_loop", "in_process", "fail")]
        assert [answer.get("result") for answer in answers[:-1]] == [
            "hello from shop in a thread",
            "shop on the loop",
            "shop in a process",
        ]
        assert "no mail server" in answers[-1]["error"]
        # four processes load the app once each: web, supervisor, worker process, runner
        expected = [
            "closed failed after ValueError",
            "closed loop",
            "closed process",
            "closed thread",
            "hook of in_process in shop",
            "hook of in_thread in shop",
            "hook of on_loop in shop",
            *["made in shop"] * 4,
        ]
        until(lambda: len(notes.read_text().splitlines()) == len(expected), "all hooks ran")
        assert sorted(notes.read_text().splitlines()) == expected
        worker.send(signal.SIGTERM)
        assert worker.wait(START) == 0


def test_commands_use_the_server_and_prefix_of_the_app(notes: Path, url: str) -> None:
    with started(
        [*FLASK, "lockwork", "enqueue", "in_thread", "-q", "mail", "--create"], folder=HERE, url=None
    ) as command:
        assert command.wait(START) == 0, command.errors
    with Lockwork(url, prefix="flasked") as app:
        assert app.queue("mail").status().ready == 1
        app.queue("mail").clear()
    with started([*FLASK, "lockwork", "--help"], folder=HERE, url=None) as command:
        assert "Usage: flask lockwork" in command.line()
        command.wait(START)
    with started([*FLASK, "lockwork", "job", "missing"], folder=HERE, url=None) as command:
        assert command.wait(START) == 1, command.errors


def test_words_behind_two_dashes_belong_to_the_program(notes: Path) -> None:
    run = ["run", "--lock", "report", "--", sys.executable, "-c", "print('--help')"]
    with started([*FLASK, "lockwork", *run], folder=HERE, url=None) as command:
        assert command.line() == "--help"
        assert command.wait(START) == 0, command.errors


def test_program_with_its_own_group_starts_a_worker(notes: Path, tmp_path: Path) -> None:
    program = (
        "from flask.cli import FlaskGroup\nfrom flask_app import create_app\nFlaskGroup(create_app=create_app)()\n"
    )
    (tmp_path / "manage.py").write_text(program)
    paths = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
    environment = ["env", f"PYTHONPATH={paths}"]
    command = [*environment, sys.executable, "manage.py", "lockwork", "worker", "--burst"]
    with started(command, folder=tmp_path, url=None) as worker:
        assert worker.wait(START) == 0, worker.errors
        assert "tasks: fail, in_process, in_thread, on_loop" in worker.errors


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("from flask import Flask\napp = Flask('bare')\n", "app 'bare' has no Lockwork object: call lockwork.contrib"),
        ("raise ImportError('no such driver')\n", "the Flask app cannot be loaded: While importing 'app'"),
        ("", "the Flask app cannot be loaded: Failed to find Flask application"),
    ],
)
def test_worker_names_the_problem_of_the_app(
    tmp_path: Path, notes: Path, monkeypatch: pytest.MonkeyPatch, code: str, message: str
) -> None:
    (tmp_path / "app.py").write_text(code)
    monkeypatch.setenv("FLASK_APP", "app")
    command = [sys.executable, "-m", "lockwork", "worker", "lockwork.contrib.flask:lw"]
    with started(command, folder=tmp_path, url=None) as worker:
        assert worker.wait(START) == 1
        assert message in worker.errors


def test_app_has_one_lockwork_object(lw: Lockwork) -> None:
    app = Flask("twice")
    init_app(app, lw)
    assert app.extensions["lockwork"] is lw
    with pytest.raises(ConfigError, match="call init_app once"):
        init_app(app, lw)
    with pytest.raises(ConfigError, match="takes the Flask app and a Lockwork object"):
        init_app(Flask("swapped"), app)  # type: ignore[arg-type]


def test_jobs_get_the_last_app_of_a_factory(lw: Lockwork) -> None:
    @lw.task
    def name() -> str:
        return current_app.name

    for each in ("first", "second"):
        init_app(Flask(each), lw)
    worker = lw.worker(concurrency=1)
    thread = threading.Thread(target=worker.run)
    thread.start()
    try:
        assert name.enqueue().result(timeout=START) == "second"
    finally:
        worker.stop()
        thread.join()


def test_inline_job_is_part_of_the_context_of_the_test(lw: Lockwork) -> None:
    closed: list[str] = []

    @lw.task
    def greet() -> str:
        return f"{g.user} in {current_app.name}"

    app = Flask("tested")
    init_app(app, lw)
    app.teardown_appcontext(lambda _error: closed.append("closed"))
    with app.app_context(), inline():
        g.user = "ada"
        assert greet.enqueue().result(timeout=0) == "ada in tested"
        assert (g.user, closed) == ("ada", [])
    assert closed == ["closed"]


def test_unused_app_is_collected_with_its_lockwork_object(url: str) -> None:
    app = Flask("gone")
    init_app(app, Lockwork(url))
    reference = weakref.ref(app)
    del app
    gc.collect()
    assert reference() is None
