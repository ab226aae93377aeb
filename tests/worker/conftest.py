"""The worker tests' app, with a database for each test."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from app_modules import own_app
from scraping import answer
from service_managers import Manager

shift = own_app("shift")


@pytest.fixture
def ask() -> Callable[[int, str], tuple[int, str]]:
    """Send a request to a health port; status 0 means no answer."""
    return answer


@pytest.fixture
def failing_log() -> Iterator[None]:
    """The app's log handler fails."""

    class Fails(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            raise ConnectionError("where logs are sent is away")

    handler, logger = Fails(), logging.getLogger("lockwork")
    logger.addHandler(handler)
    yield
    logger.removeHandler(handler)


@pytest.fixture
def manager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Manager]:
    address = str(tmp_path / "notify")
    made = Manager(address)
    monkeypatch.setenv("NOTIFY_SOCKET", address)
    yield made
    made.close()
