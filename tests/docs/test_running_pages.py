"""Runs the examples of these pages and the README's first program as printed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import zygote
from docs.snippets import Reader, steps
from lockwork import Lockwork
from processes import worker

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("page", "names"),
    [
        ("compat.md", {}),
        ("dead.md", {}),
        ("delay-queue.md", {}),
        ("errors.md", {}),
        ("fencing.md", {}),
        ("flows.md", {}),
        ("history.md", {}),
        ("jobs.md", {}),
        ("middleware.md", {}),
        ("observability.md", {}),
        ("queues.md", {}),
        ("schedules.md", {}),
        ("synchronizers.md", {"make_report": str.upper}),
        ("unique.md", {}),
        ("worker.md", {}),
    ],
)
def test_page_runs_as_printed(
    own_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, page: str, names: dict[str, Any]
) -> None:
    monkeypatch.setenv("LOCKWORK_URL", own_url)
    reader = Reader(tmp_path, lambda _: None)
    reader.names.update(names, url=own_url)
    page_steps = steps(ROOT / "docs" / page)
    assert page_steps
    for step in page_steps:
        try:
            reader.run(step)
        finally:
            # a page may create an app in each block; apps in use open again
            for made in [value for value in reader.names.values() if isinstance(value, Lockwork)]:
                made.close()


def program(page: str, at: int) -> str:
    """The Python block of a page at this position."""
    text = (ROOT / page).read_text()
    blocks: list[str] = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return blocks[at]


def run(folder: Path, url: str, name: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"LOCKWORK_URL": url, "PYTHONPATH": ":".join(sys.path)}
    return zygote.run([sys.executable, name], cwd=folder, env=environment, text=True, timeout=60)


def test_readme_program_runs_as_printed(own_url: str, tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(program("README.md", 0))
    with worker("shop:lw", url=own_url, folder=tmp_path):
        ran, again = (run(tmp_path, own_url, "shop.py") for _ in range(2))
    first, second = ran.stdout.splitlines()
    assert "LimitReached" in again.stderr
    assert first.startswith("changing the catalogue under fence ")
    assert second.startswith("order of ada StockStatus(")
    assert "available=9" in second


def test_quick_start_programs_run_as_printed(own_url: str, tmp_path: Path) -> None:
    first, more, stock = (program("docs/quick-start.md", at) for at in (2, 3, 4))
    (tmp_path / "mails.py").write_text(first)
    (tmp_path / "more.py").write_text(f"from mails import lw, send\n\n{more}\n{stock}")
    with worker("mails:lw", url=own_url, folder=tmp_path):
        ran = run(tmp_path, own_url, "mails.py")
        assert (ran.stdout, ran.stderr) == ("sent to user 42\n", "")
        ran = run(tmp_path, own_url, "more.py")
        assert (ran.returncode, ran.stderr) == (0, "")
