"""A task whose jobs are enqueued together with other changes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lockwork import Lockwork
from lockwork.tasks.task import Task


@pytest.fixture
def ship(lw: Lockwork) -> Iterator[Task[[int], None, None]]:
    """A task of the queue "mail", without a worker."""

    @lw.task(queue="mail")
    def ship(order: int) -> None: ...

    return ship  # type: ignore[return-value]
