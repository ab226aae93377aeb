"""A task to be enqueued with something else."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lockwork import Lockwork
from lockwork.tasks.task import Task


@pytest.fixture
def ship(lw: Lockwork) -> Iterator[Task[[int], None, None]]:
    """A task of the queue "mail"; nobody works there."""

    @lw.task(queue="mail")
    def ship(order: int) -> None: ...

    return ship  # type: ignore[return-value]
