"""Separate servers for tests that damage them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from lockwork.runtime.embedded import Embedded, start_private


@pytest.fixture
def spoiled(tmp_path: Path) -> Iterator[Embedded]:
    """A server that the test may damage."""
    with start_private(tmp_path / "spoiled") as server:
        yield server


@pytest.fixture
def spoil(spoiled: Embedded) -> Iterator[redis.Redis]:
    """A client that damages the server."""
    with redis.Redis.from_url(spoiled.url) as client:
        yield client
