"""An app whose queue "mail" has four partitions, here and in workers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from app_modules import load_app
from history import History
from lockwork import Lockwork

APPS = Path(__file__).parent / "apps"


@pytest.fixture
def four(url: str, admin: redis.Redis) -> Iterator[Lockwork]:
    """An app on the run's server; nobody works there."""
    with Lockwork(url, partitions={"mail": 4}) as app:
        yield app


@pytest.fixture(scope="session")
def sorting_folder() -> Path:
    """The folder from which workers are started."""
    return APPS


@pytest.fixture
def sorting_url(url: str) -> Iterator[str]:
    """A database of the run's server that workers may leave in any state."""
    own = f"{url}?db=3"
    with redis.Redis.from_url(own) as client:
        client.flushdb()
        yield own
        client.flushdb()


@pytest.fixture
def sorting(sorting_url: str) -> Iterator[Any]:
    """The tasks that workers run; nobody works there yet."""
    module: Any = load_app(APPS, "sorting", sorting_url)
    with module.lw:
        yield module


@pytest.fixture
def history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> History:
    found = History(tmp_path / "history")
    monkeypatch.setenv("HISTORY", found.path)
    return found
