"""An app whose queue "mail" has four partitions, here and in workers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import redis

from app_modules import Load
from lockwork import Lockwork


@pytest.fixture
def four(url: str, admin: redis.Redis) -> Iterator[Lockwork]:
    """An app on the run's server; nobody works there."""
    with Lockwork(url, partitions={"mail": 4}) as app:
        yield app


@pytest.fixture
def sorting(own_url: str, load: Load) -> Iterator[Any]:
    """The tasks that workers run; nobody works there yet."""
    module: Any = load(own_url, "sorting")
    with module.lw:
        yield module
