"""One connection to the run's server, in virtual time; and Hypothesis settings that repeat exactly."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from simulation.server import Server


@pytest.fixture(scope="package")
def simulated(url: str) -> Iterator[Server]:
    """The server as the simulator uses it."""
    server = Server(url)
    yield server
    server.close()
