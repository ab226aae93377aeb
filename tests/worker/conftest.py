"""The worker tests' app, on a database of its own that workers may leave in any state."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import redis

from app_modules import load_app
from history import History
from scraping import answer

APPS = Path(__file__).parent / "apps"


@pytest.fixture(scope="session")
def shift_folder() -> Path:
    """The folder from which workers are started."""
    return APPS


@pytest.fixture(scope="session")
def load_shift() -> Callable[[str], ModuleType]:
    """A fresh copy of the app's module, bound to the server at a URL."""

    def load(url: str) -> ModuleType:
        return load_app(APPS, "shift", url)

    return load


@pytest.fixture
def shift_url(url: str) -> Iterator[str]:
    own = f"{url}?db=2"
    with redis.Redis.from_url(own) as client:
        client.flushdb()
        yield own
        client.flushdb()


@pytest.fixture
def shift(shift_url: str, load_shift: Callable[[str], ModuleType]) -> Iterator[Any]:
    """The app's tasks; nobody works there yet."""
    module = load_shift(shift_url)
    with module.lw:
        yield module


@pytest.fixture
def history(tmp_path: Path) -> History:
    return History(tmp_path / "history")


@pytest.fixture
def ask() -> Callable[[int, str], tuple[int, str]]:
    """Ask a health port; status 0 when nobody answers."""
    return answer
