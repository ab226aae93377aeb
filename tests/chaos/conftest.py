"""A server for one chaos run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lockwork.runtime.embedded import start_private


@pytest.fixture
def chaos_url(tmp_path: Path) -> Iterator[str]:
    with start_private(tmp_path / "server") as server:
        yield server.url
