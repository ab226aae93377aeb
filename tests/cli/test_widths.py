"""The output of the main commands at 60, 80 and 120 columns; LOCKWORK_PICTURES names a folder to store it."""

from __future__ import annotations

import os
import re
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from cli.conftest import Office
from lockwork.cli.workers import listing
from processes import until
from terminals import typist


@pytest.mark.parametrize("width", [60, 80, 120])
def test_output_fits_the_screen_and_ids_stay_whole(
    office: Office, width: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    dead = office.app.send.enqueue(7)
    waiting = office.app.send.options(delay="1h").enqueue(43, subject="a subject that needs some more room than that")
    until(lambda: dead.state() == "dead", "it dies")
    (worker,) = office.lw.workers()
    monkeypatch.setenv("COLUMNS", str(width))
    views = {
        ("status",): worker.name,
        ("jobs",): waiting.id,
        ("jobs", "mail", "--dead"): dead.id,
        ("job", dead.id): dead.id,
        ("workers",): worker.name,
        ("schedules",): "nightly",
        ("dead",): dead.id,
        ("dead", "groups"): "ValueError",
        ("queue",): "mail",
        ("doctor",): "",
        ("flows",): "",
        ("stocks",): "",
        ("locks",): "",
    }
    captured: list[str] = []
    for words, whole in views.items():
        text = office.run(*words).output
        captured.append(f"$ lockwork {' '.join(words)}\n{text}")
        long = [line for line in text.splitlines() if len(line) > width and not line.startswith("  File ")]
        assert not long, (words, long)
        assert whole in text, (words, text)
    folder = Path(os.environ.get("LOCKWORK_PICTURES", tmp_path))
    (folder / f"commands-{width}.txt").write_text("\n".join(captured))
    assert waiting.delete()


def test_long_ages_of_workers_fit_the_screen(office: Office) -> None:
    (worker,) = office.lw.workers()
    old = replace(worker, name="vm/19389/5a51ae9ed8", started=datetime.now(UTC) - timedelta(seconds=86_390))
    screen = Console(width=200, file=StringIO(), record=True)
    screen.print(listing([old]), width=60)
    text = screen.export_text()
    assert max(map(len, text.splitlines())) <= 60, text
    assert all(cell in text for cell in ("keyed", "0/20", "23 h")), text


@pytest.mark.parametrize("width", [80, 120])
def test_in_a_terminal_no_column_vanishes(office: Office, width: int, tmp_path: Path) -> None:
    dead = office.app.send.enqueue(7, subject="a subject that needs some more room than that of other jobs")
    until(lambda: dead.state() == "dead", "it dies")
    views = {
        "jobs --dead": ["id", "queue", "task", "state", "when", dead.id, "ValueError: user 7"],
        "status": ["queue", "state", "scheduled", "workers", "keyed", office.lw.workers()[0].name],
        "workers": ["worker", "state", "queues", "busy", "age", office.lw.workers()[0].name],
        "schedules": ["schedule", "queue", "when", "next", "enqueued", "nightly"],
    }
    for view, wanted in views.items():
        command = [sys.executable, "-m", "lockwork", *view.split()]
        environment = {"TERM": "xterm", "NO_COLOR": "1"}
        with typist(command, tmp_path, office.url, columns=width, environment=environment) as somebody:
            text = re.sub(r"\x1b\[[0-9;]*m", "", somebody.rest()).replace("\r", "")
        assert [line for line in text.splitlines() if len(line.rstrip()) > width] == []
        for each in wanted:
            assert each in text, (view, text)
