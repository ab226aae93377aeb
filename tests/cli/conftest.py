"""`lockwork run` as a process of its own, and an app with a worker that the other commands look at."""

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
    """Begin `lockwork run --lock x` with these arguments, on the run's server or another."""

    def begin(*arguments: str, options: tuple[str, ...] = (), server: str = url) -> AbstractContextManager[Started]:
        command = [sys.executable, "-m", "lockwork", "run", "--lock", "x", *options, *arguments]
        return started(command, folder=tmp_path, url=server)

    return begin


@pytest.fixture(autouse=True)
def no_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let output that is no terminal have its own width; xdist sets one."""
    monkeypatch.delenv("COLUMNS", raising=False)


class Office:
    """An app with a worker at work: `app` enqueues to it, `run` runs a command, `json` reads what one prints."""

    def __init__(self, lw: Lockwork, url: str, app: ModuleType | None = None) -> None:
        self.lw = lw
        self.url = url
        self.app: Any = app

    def run(self, *words: str, answer: str | None = None) -> Result:
        """Run a command in this process; what it raises is in the result."""
        return CliRunner(env={"LOCKWORK_URL": self.url}).invoke(cli, words, input=answer)

    def json(self, *words: str) -> Any:
        """Run a command that ends well with --json, and read its document."""
        found = self.run(*words, "--json")
        assert found.exit_code == 0, found.exception or found.output
        return json.loads(found.stdout)


@pytest.fixture
def office(at_work: Callable[[Path, str], str]) -> Iterator[Office]:
    """The app `office` with its worker, the same for all tests of the commands."""
    apps = Path(__file__).parent / "apps"
    url = at_work(apps, "office")
    app = load_app(apps, "office", url)
    with app.lw:
        until(lambda: app.lw.apps() and app.lw.schedules(), "its worker has announced it, and declared its schedule")
        # the worker adds its queues to the index at another moment
        queues = {schedule.queue for schedule in app.lw.schedules()}
        app.lw.runtime.run(index.put(app.lw.config.prefix, index.QUEUES, sorted(queues)))
        yield Office(app.lw, url, app)
