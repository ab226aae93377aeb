"""An app whose queue "mail" has four partitions, with and without workers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis

from app_modules import own_app
from lockwork import Lockwork


@pytest.fixture
def four(url: str, admin: redis.Redis) -> Iterator[Lockwork]:
    """An app on the shared server, without a worker."""
    with Lockwork(url, partitions={"mail": 4}) as app:
        yield app


sorting = own_app("sorting")
