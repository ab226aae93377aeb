"""What jobs do to their process ends them, and at worst their process, but never the worker's grip on it."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app_modules import load_app
from processes import until, worker


@pytest.fixture
def unruly(shift_url: str, shift_folder: Path) -> Iterator[Any]:
    """The app's tasks; nobody works there yet."""
    module = load_app(shift_folder, "unruly", shift_url)
    with module.lw:
        yield module


def test_a_program_of_a_job_does_not_hear_what_is_told_to_its_worker(
    unruly: Any, shift_url: str, shift_folder: Path
) -> None:
    """It finds an empty standard input, and not the line on which the worker process is told to stop."""
    with worker("unruly:lw", "--grace", "10m", url=shift_url, folder=shift_folder) as process:
        job = unruly.starts_a_program_that_reads.enqueue()
        until(lambda: unruly.lw.queue().status().ready == 0, "it runs")
        process.send(signal.SIGTERM)
        assert process.wait() == 0
        assert job.result(5) == [0, "''"]
