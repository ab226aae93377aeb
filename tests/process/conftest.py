"""The process tests' app, on a database of its own that workers may leave in any state."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import redis

from app_modules import load_app
from history import History

APPS = Path(__file__).parent / "apps"


@pytest.fixture(scope="session")
def forge_folder() -> Path:
    """The folder from which workers are started."""
    return APPS


@pytest.fixture(scope="session")
def load_forge() -> Callable[[str], ModuleType]:
    """A fresh copy of the app's module, bound to the server at a URL."""

    def load(url: str) -> ModuleType:
        return load_app(APPS, "forge", url)

    return load


@pytest.fixture
def forge_url(url: str) -> Iterator[str]:
    own = f"{url}?db=3"
    with redis.Redis.from_url(own) as client:
        client.flushdb()
        yield own
        client.flushdb()


@pytest.fixture
def forge(forge_url: str, load_forge: Callable[[str], ModuleType]) -> Iterator[Any]:
    """The app's tasks; nobody works there yet."""
    module = load_forge(forge_url)
    with module.lw:
        yield module


@pytest.fixture
def history(tmp_path: Path) -> History:
    return History(tmp_path / "history")
