"""The process tests' app, on a database of its own that workers may leave in any state."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from app_modules import Load


@pytest.fixture
def forge(own_url: str, load: Load) -> Iterator[Any]:
    """The app's tasks; nobody works there yet."""
    module: Any = load(own_url, "forge")
    with module.lw:
        yield module
