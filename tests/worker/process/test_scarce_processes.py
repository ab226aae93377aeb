"""A system that temporarily refuses new runner processes."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from app_modules import load_app
from lockwork.worker.execution import runner_handle
from processes import until, worker


def test_waiting_jobs_get_the_next_process(
    own_url: str, apps: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first job is postponed, and no new job comes that would start a process for the others."""
    gate = tmp_path / "gate"
    monkeypatch.setenv("SCARCE_GATE", str(gate))
    monkeypatch.setattr(
        runner_handle, "start", runner_handle.start
    )  # the app puts its own there: afterwards this one comes back
    scarce = load_app(apps, "scarce", own_url)
    options = ("-c", "3", "--runners", "1", "--grace", "10m")
    with scarce.lw, worker("scarce:lw", *options, url=own_url, folder=apps) as process:
        scarce.double.enqueue_many([(number,) for number in range(3)])
        until(lambda: scarce.lw.queue().status().running == 3, "all wait for a process")
        process.send(signal.SIGTERM)
        until(lambda: "stopping" in process.errors, "no more jobs are fetched")
        gate.touch()
        assert process.wait() == 0
        status = scarce.lw.queue().status()
        assert (status.succeeded, status.scheduled + status.ready, status.failed) == (2, 1, 0)
