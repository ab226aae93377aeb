"""`lockwork run` as a separate process, and an app with a worker that the other commands inspect."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import redis
from click.testing import CliRunner, Result

from app_modules import load_app
from lockwork import Lockwork
from lockwork.cli.commands import cli
from lockwork.protocol.index import index
from processes import Started, started, until

Run = Callable[..., AbstractContextManager[Started]]


@pytest.fixture
def run(url: str, admin: redis.Redis, tmp_path: Path) -> Run:
    """Start `lockwork run --lock x` with these arguments, on the run's server or another one."""

    def begin(*arguments: str, options: tuple[str, ...] = (), server: str = url) -> AbstractContextManager[Started]:
        command = [sys.executable, "-m", "lockwork", "run", "--lock", "x", *options, *arguments]
        return started(command, folder=tmp_path, url=server)

    return begin


@pytest.fixture(autouse=True)
def no_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove the width that xdist sets, so that output outside of a terminal has its own width."""
    monkeypatch.delenv("COLUMNS", raising=False)


class Office:
    """An app with a running worker. `app` enqueues, `run` runs a command, and `json` parses a command's JSON output."""

    def __init__(self, lw: Lockwork, url: str, app: ModuleType | None = None) -> None:
        self.lw = lw
        self.url = url
        self.app: Any = app

    def run(self, *words: str, answer: str | None = None) -> Result:
        """Run a command in this process; the result contains its exception."""
        return CliRunner(env={"LOCKWORK_URL": self.url}).invoke(cli, words, input=answer)

    def json(self, *words: str) -> Any:
        """Run a command with --json, check that it succeeds, and return its document."""
        found = self.run(*words, "--json")
        assert found.exit_code == 0, found.exception or found.output
        return json.loads(found.stdout)


@pytest.fixture
def office(at_work: Callable[[Path, str], str]) -> Iterator[Office]:
    """The app `office` with its worker, shared by all tests of the commands."""
    apps = Path(__file__).parent / "apps"
    url = at_work(apps, "office")
    app = load_app(apps, "office", url)
    with app.lw:
        until(lambda: app.lw.apps() and app.lw.schedules(), "its worker has announced it, and declared its schedule")
        # the worker adds its queues to the index at another time
        queues = {schedule.queue for schedule in app.lw.schedules()}
        app.lw.runtime.run(index.put(app.lw.config.prefix, index.QUEUES, sorted(queues)))
        until(lambda: queues <= {*app.lw.queues()}, "its worker has joined them")
        yield Office(app.lw, url, app)
