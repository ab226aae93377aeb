"""The app of the tests of job handles, and one worker that many tests share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from app_modules import Load


@pytest.fixture(scope="module")
def busy_url(at_work: Callable[[Path, str], str], apps: Path) -> str:
    """The server of the shared worker."""
    return at_work(apps, "handled")


@pytest.fixture
def handled(busy_url: str, load: Load) -> Iterator[Any]:
    """The app's tasks, with the shared worker at work on them."""
    module: Any = load(busy_url, "handled")
    with module.lw:
        yield module


@pytest.fixture
async def ahandled(busy_url: str, load: Load) -> Any:
    """The same for asyncio tests."""
    module: Any = load(busy_url, "handled")
    async with module.lw:
        yield module


@pytest.fixture
def own(own_url: str, load: Load) -> Iterator[Any]:
    """The app's tasks on a database of the test's own; nobody works there yet."""
    module: Any = load(own_url, "handled")
    with module.lw:
        yield module
