"""A ticker in virtual time, and a file to which scheduled jobs write."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from history import History
from simulation.server import Server


@pytest.fixture(scope="module")
def simulated(url: str) -> Iterator[Server]:
    """The server as the simulator uses it."""
    server = Server(url)
    yield server
    server.close()


@pytest.fixture
def own_url(url: str) -> Iterator[str]:
    """A database of the run's server for a test that starts workers of its own."""
    own = f"{url}?db=1"
    with redis.Redis.from_url(own) as client:
        client.flushdb()
        yield own
        client.flushdb()


@pytest.fixture
def history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> History:
    """Where the jobs of the apps write, in whichever process they run."""
    found = History(tmp_path / "history")
    monkeypatch.setenv("HISTORY", found.path)
    return found
