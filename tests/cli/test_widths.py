"""What the main commands print at 80 and at 120 columns; LOCKWORK_PICTURES keeps it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cli.conftest import Office
from processes import until


@pytest.mark.parametrize("width", [80, 120])
def test_nothing_is_wider_than_the_screen_and_ids_stay_whole(
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
