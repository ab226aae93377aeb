"""Options of `lockwork worker`: what is wrong is said in one line, with what to do, and exit status 1 or 2."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from lockwork import ConfigError
from lockwork.worker import environment
from processes import started, worker


@pytest.mark.parametrize(
    ("options", "status", "text"),
    [
        (("--qeues", "a"), 2, "Did you mean"),
        (("--loop", "uvlop"), 2, "'uvloop', 'asyncio'"),
        (("--max-jobs", "0"), 2, "--max-jobs"),
        (("--max-jobs", "many"), 2, "--max-jobs"),
        (("--max-memory", "512"), 1, 'lockwork: --max-memory must be a size such as "512MB"'),
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
        ("shift", "module:object"),
        ("shfit:lw", "there is no module 'shfit'"),
        ("shift.py:lw", "did you mean shift:lw?"),
        ("./shift.py:lw", "did you mean shift:lw?"),
        ("shop/tasks.py:lw", "did you mean shop.tasks:lw?"),
        ("shift:wl", "it has shift:lw"),
        ("shift:mark", "is a Task, not a Lockwork object"),
    ],
)
def test_an_app_that_is_not_there(own_url: str, apps: Path, app: str, text: str) -> None:
    with worker(app, url=own_url, folder=apps) as process:
        assert process.wait() == 1
        assert text in process.errors
        assert "Traceback" not in process.errors


def test_a_queue_that_no_task_uses_is_pointed_out(own_url: str, apps: Path) -> None:
    """It may be meant, so it is no error; but nobody shall wonder for long why nothing happens."""
    with worker("shift:lw", "--queues", "defualt", "--burst", url=own_url, folder=apps) as process:
        assert process.wait() == 0
        assert "no task of shift:lw belongs to queue 'defualt': did you mean 'default'?" in process.errors


@pytest.mark.parametrize("loop", environment.LOOPS)
def test_the_requested_event_loop(shift: Any, own_url: str, apps: Path, loop: str) -> None:
    pytest.importorskip("uvloop")
    with worker("shift:lw", "--loop", loop, url=own_url, folder=apps):
        assert shift.loop.enqueue().result(30).startswith(loop)


def test_uvloop_is_used_when_it_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lockwork.worker.environment.find_spec", lambda _name: object())
    assert environment.chosen(None) == "uvloop"
    monkeypatch.setattr("lockwork.worker.environment.find_spec", lambda _name: None)
    assert environment.chosen(None) == "asyncio"
    with pytest.raises(ConfigError, match=r"uvloop is not installed here: pip install 'lockwork\[fast\]'"):
        environment.chosen("uvloop")


def test_a_server_that_is_not_there(apps: Path, tmp_path: Path) -> None:
    with worker("shift:lw", url=f"unix://{tmp_path}/nobody.sock", folder=apps) as process:
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
