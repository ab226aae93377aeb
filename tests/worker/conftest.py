"""The worker tests' app, on a database of its own that workers may leave in any state."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from app_modules import Load
from scraping import answer


@pytest.fixture
def shift(own_url: str, load: Load) -> Iterator[Any]:
    """The app's tasks; nobody works there yet."""
    module: Any = load(own_url, "shift")
    with module.lw:
        yield module


@pytest.fixture
def ask() -> Callable[[int, str], tuple[int, str]]:
    """Ask a health port; status 0 when nobody answers."""
    return answer
