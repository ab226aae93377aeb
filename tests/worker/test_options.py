"""Options of `lockwork worker`: errors are one line that says what to change, with exit status 1 or 2."""

from __future__ import annotations

import re
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from lockwork import ConfigError
from lockwork.version import install_command
from lockwork.worker import environment
from processes import started, until, worker


@pytest.mark.parametrize(
    ("options", "status", "text"),
    [
        (("--qeues", "a"), 2, "Did you mean"),
        (("--loop", "uvlop"), 2, "'uvloop', 'asyncio'"),
        (("--max-jobs", "0"), 2, "--max-jobs"),
        (("--max-jobs", "many"), 2, "--max-jobs"),
        (("--max-memory", "512"), 1, 'lockwork: --max-memory must be a size such as "512MB"'),
        (("--exit-memory", "512"), 1, 'lockwork: --exit-memory must be a size such as "512MB"'),
        (("--max-time", "0"), 1, "lockwork: --max-time must be"),
        (("--exit-after", "soon"), 1, "lockwork: --exit-after must be"),
        (("--queues", "a:0"), 1, "the weight of queue 'a' must be a whole number from 1 to 1000"),
        (("--queues", "a,a"), 1, "names 'a' twice"),
        (("--once", "-p", "2"), 1, "omit --processes"),
        (("--reload", "--once"), 1, "cannot be used with --burst or --once"),
        (("--lease", "0.5"), 1, "--lease must be at least 1 s"),
        (("--grace", "soon"), 1, "--grace must be seconds"),
    ],
)
def test_wrong_options_are_reported(own_url: str, apps: Path, options: tuple[str, ...], status: int, text: str) -> None:
    with worker("shift:lw", *options, url=own_url, folder=apps) as process:
        assert process.wait() == status
        assert text in process.errors
        assert "Traceback" not in process.errors


@pytest.mark.parametrize(
    ("app", "text"),
    [
        ("shift:", "module:object, such as shop.tasks:lw, not 'shift:': did you mean shift:lw?"),
        (":lw", "module:object, such as shop.tasks:lw, not ':lw'"),
        ("nowhere", "there is no module 'nowhere'"),
        ("shfit", "did you mean shift:lw?"),
        ("shift.py", "did you mean shift:lw?"),
        ("./shift.py", "did you mean shift:lw?"),
        ("shfit:lw", "there is no module 'shfit'"),
        ("shfit:lw", "did you mean shift:lw?"),
        ("shift.py:lw", "did you mean shift:lw?"),
        ("./shift.py:lw", "did you mean shift:lw?"),
        ("shop/tasks.py:lw", "did you mean shop.tasks:lw?"),
        ("shift:wl", "the module has shift:lw"),
        ("shift:mark", "is a Task, not a Lockwork object; the module has shift:lw"),
    ],
)
def test_unknown_app_is_reported_with_suggestion(own_url: str, apps: Path, app: str, text: str) -> None:
    with worker(app, url=own_url, folder=apps) as process:
        assert process.wait() == 1
        assert text in process.errors
        assert "Traceback" not in process.errors


def test_queue_without_tasks_is_reported(own_url: str, apps: Path) -> None:
    """A warning, because the queue may be intended."""
    with worker("shift:lw", "--queues", "defualt", "--burst", url=own_url, folder=apps) as process:
        assert process.wait() == 0
        assert "no task of shift:lw belongs to queue 'defualt': did you mean 'default'?" in process.errors


@pytest.mark.parametrize("loop", environment.LOOPS)
def test_loop_option_selects_event_loop(shift: Any, own_url: str, apps: Path, loop: str) -> None:
    pytest.importorskip("uvloop")
    with worker("shift:lw", "--loop", loop, url=own_url, folder=apps):
        assert shift.loop.enqueue().result(30).startswith(loop)


def test_uvloop_is_used_when_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lockwork.worker.environment.find_spec", lambda _name: object())
    assert environment.chosen(None) == "uvloop"
    monkeypatch.setattr("lockwork.worker.environment.find_spec", lambda _name: None)
    assert environment.chosen(None) == "asyncio"
    with pytest.raises(ConfigError, match=re.escape(f"uvloop is not installed here: {install_command('fast')}")):
        environment.chosen("uvloop")


def test_unreachable_server_ends_worker_with_no_wait(apps: Path, tmp_path: Path) -> None:
    with worker("shift:lw", "--no-wait", url=f"unix://{tmp_path}/nobody.sock", folder=apps) as process:
        assert process.wait() == 1
        assert "lockwork: " in process.errors
        assert "Traceback" not in process.errors


def test_help_names_every_option(own_url: str, apps: Path) -> None:
    with started([sys.executable, "-m", "lockwork", "worker", "--help"], folder=apps) as process:
        assert process.wait() == 0
        assert process.process.stdout is not None
        text = process.process.stdout.read().decode()
    for option in ("--queues", "--burst", "--once", "--max-jobs", "--max-memory", "--loop", "--reload", "SIGUSR1"):
        assert option in text


def test_grace_is_read_from_the_environment(own_url: str, apps: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCKWORK_GRACE", "soon")
    with worker("shift:lw", url=own_url, folder=apps) as process:
        assert process.wait() == 1
        assert "LOCKWORK_GRACE must be seconds" in process.errors
    monkeypatch.setenv("LOCKWORK_GRACE", "7s")
    with worker("shift:lw", url=own_url, folder=apps) as process:
        until(lambda: "works on" in process.errors, "it has started")
        process.send(signal.SIGTERM)
        assert process.wait() == 0
        assert "running jobs have 7 s to end" in process.errors
    with worker("shift:lw", "--grace", "8s", url=own_url, folder=apps) as process:
        until(lambda: "works on" in process.errors, "it has started")
        process.send(signal.SIGTERM)
        assert process.wait() == 0
        assert "running jobs have 8 s to end" in process.errors
