"""Apps with hooks, dependencies and lifespans, and workers on them that note what happens in a file."""

from __future__ import annotations

import contextlib
import importlib.util
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import redis

from history import History
from processes import Started, worker

APPS = Path(__file__).parent / "apps"


@pytest.fixture
def history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> History:
    """What the apps note, in the workers and here."""
    path = tmp_path / "notes"
    monkeypatch.setenv("NOTES", str(path))
    return History(path)


@pytest.fixture
def own_url(url: str) -> Iterator[str]:
    """A database of the run's server for a test that starts workers of its own."""
    own = f"{url}?db=2"
    with redis.Redis.from_url(own) as client:
        client.flushdb()
        yield own
        client.flushdb()


@pytest.fixture
def app(own_url: str, history: History, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Any]]:
    """Loads an app module on that database, in this process; it is closed at the end."""
    monkeypatch.setenv("LOCKWORK_URL", own_url)
    monkeypatch.syspath_prepend(APPS)
    with contextlib.ExitStack() as stack:

        def load(name: str) -> ModuleType:
            for other in ("observed", name):  # modules that others import are made anew, too: each test has its own app
                sys.modules.pop(other, None)
            spec = importlib.util.spec_from_file_location(name, APPS / f"{name}.py")
            assert spec is not None
            assert spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            sys.modules[name] = module
            spec.loader.exec_module(module)
            stack.callback(sys.modules.pop, name, None)
            stack.enter_context(module.lw)
            return module

        yield load


@pytest.fixture
def work(own_url: str, history: History) -> Callable[..., contextlib.AbstractContextManager[Started]]:
    """Starts a worker on an app, for the length of a `with` block."""

    def start(name: str, *options: str) -> contextlib.AbstractContextManager[Started]:
        return worker(f"{name}:lw", "--lease", "5", *options, url=own_url, folder=APPS)

    return start
