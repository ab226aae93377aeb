"""The worker tests' app, on a database of its own that workers may leave in any state."""

from __future__ import annotations

import logging
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


@pytest.fixture
def deaf() -> Iterator[None]:
    """The app's log handler fails."""

    class Fails(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            raise ConnectionError("where logs are sent is away")

    handler, logger = Fails(), logging.getLogger("lockwork")
    logger.addHandler(handler)
    yield
    logger.removeHandler(handler)
