"""The process tests' app, with a database for each test."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from app_modules import Load


@pytest.fixture
def forge(own_url: str, load: Load) -> Iterator[Any]:
    """The app's tasks, without a worker."""
    module: Any = load(own_url, "forge")
    with module.lw:
        yield module
