"""A server for one chaos run, and the report of the run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from chaos.report import CONTROLS, RUNS, Report, name_of
from lockwork.runtime.embedded import start_private


@pytest.fixture
def chaos_url(tmp_path: Path) -> Iterator[str]:
    with start_private(tmp_path / "server") as server:
        yield server.url


@pytest.fixture
def report(request: pytest.FixtureRequest) -> Iterator[Report]:
    """Row of a run in the report. The test's module has the name of its piece in PIECE."""
    yield from _row(request, RUNS)


@pytest.fixture
def control(request: pytest.FixtureRequest) -> Iterator[Report]:
    """Row of a negative control in the report."""
    yield from _row(request, CONTROLS)


def _row(request: pytest.FixtureRequest, table: str) -> Iterator[Report]:
    row = Report(request.module.PIECE, name_of(request.node.name), table)
    yield row
    if not row.written:
        row.unfinished()
