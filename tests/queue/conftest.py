"""The queue tests' app, and one worker that many tests share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import redis

from app_modules import load_app
from history import History
from lockwork.runtime.embedded import start_private
from processes import Started, worker

APPS = Path(__file__).parent / "apps"


@pytest.fixture(scope="session")
def apps() -> Path:
    """The folder of the app modules, from which workers are started."""
    return APPS


@pytest.fixture(scope="session")
def load() -> Callable[[str], ModuleType]:
    """A fresh copy of an app module, bound to the server at `url`."""

    def load_one(url: str, name: str = "chores") -> ModuleType:
        return load_app(APPS, name, url)

    return load_one


@pytest.fixture(scope="session")
def busy_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The server of the shared worker, which is never emptied."""
    with start_private(tmp_path_factory.mktemp("busy")) as server:
        yield server.url


@pytest.fixture(scope="session")
def shared_worker(busy_url: str) -> Iterator[Started]:
    """A worker for all tests that do it no harm."""
    with worker("chores:lw", "--lease", "5", "--concurrency", "20", url=busy_url, folder=APPS) as process:
        yield process


@pytest.fixture
def chores(busy_url: str, shared_worker: Started, load: Callable[[str], ModuleType]) -> Iterator[Any]:
    """The app's tasks, with the shared worker at work on them."""
    module = load(busy_url)
    with module.lw:
        yield module


@pytest.fixture
async def achores(busy_url: str, shared_worker: Started, load: Callable[[str], ModuleType]) -> Any:
    """The same for asyncio tests."""
    module = load(busy_url)
    async with module.lw:
        yield module


@pytest.fixture
def own_url(url: str) -> Iterator[str]:
    """A database of the run's server for a test that starts workers of its own, and may leave them in any state."""
    own = f"{url}?db=1"
    with redis.Redis.from_url(own) as client:
        client.flushdb()
        yield own
        client.flushdb()


@pytest.fixture
def own(own_url: str, load: Callable[[str], ModuleType]) -> Iterator[Any]:
    """The app's tasks on that database; nobody works there yet."""
    module = load(own_url)
    with module.lw:
        yield module


@pytest.fixture
def history(tmp_path: Path) -> History:
    return History(tmp_path / "history")
