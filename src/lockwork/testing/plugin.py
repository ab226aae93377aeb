"""The pytest plugin `lockwork`: fixtures for tests of tasks, and of code that enqueues.

pytest loads it in each run of an environment with Lockwork, so it imports nothing of Lockwork before a fixture is used.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from lockwork.testing.fixtures import LockworkFixture
    from lockwork.testing.servers import LocalServer


@pytest.fixture
def lockwork() -> Iterator[LockworkFixture]:
    """Record what is enqueued, as `lockwork.testing.record()` does, with the functions of `lockwork.testing`."""
    from lockwork.testing.fixtures import LockworkFixture  # noqa: PLC0415 - see above

    with LockworkFixture() as recording:
        yield recording


@pytest.fixture(scope="session")
def _lockwork_process_server() -> Iterator[None]:
    """End the embedded server of this process with the run."""
    yield
    from lockwork.testing.servers import stop_server  # noqa: PLC0415 - see above

    stop_server()


@pytest.fixture
def lockwork_server(_lockwork_process_server: None) -> Iterator[LocalServer]:
    """Let all Lockwork objects use an embedded server: see `lockwork.testing.server`."""
    from lockwork.testing.servers import server  # noqa: PLC0415 - see above

    with server() as local:
        yield local
