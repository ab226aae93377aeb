"""An app with batch tasks, and workers on it that note each call in a file."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
import redis

from history import History
from processes import Started, worker

APPS = Path(__file__).parent / "apps"


@pytest.fixture
def history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> History:
    """What the calls note."""
    path = tmp_path / "notes"
    monkeypatch.setenv("NOTES", str(path))
    return History(path)


@pytest.fixture
def own_url(url: str) -> Iterator[str]:
    """A database of the run's server for a test that starts workers of its own."""
    own = f"{url}?db=3"
    with redis.Redis.from_url(own) as client:
        client.flushdb()
        yield own
        client.flushdb()


@pytest.fixture
def batched(own_url: str, history: History, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The app on that database; nobody works there yet."""
    monkeypatch.setenv("LOCKWORK_URL", own_url)
    spec = importlib.util.spec_from_file_location("batched_here", APPS / "batched.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    with module.lw:
        yield module
    del sys.modules[spec.name]


@pytest.fixture
def work(own_url: str, history: History) -> Callable[..., AbstractContextManager[Started]]:
    """Starts a worker on the app, for the length of a `with` block."""

    def start(*options: str) -> AbstractContextManager[Started]:
        return worker("batched:lw", "--lease", "5", *options, url=own_url, folder=APPS)

    return start
