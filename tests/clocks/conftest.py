"""A server whose clock the test steps."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from server_steps import Stepping, stepping


@pytest.fixture
def clock(admin: redis.Redis) -> Iterator[Stepping]:
    with stepping(admin) as made:
        yield made


@pytest.fixture(scope="module")
def apps() -> Path:
    return Path(__file__).parent / "apps"
