"""The examples of these pages run as they are printed, top to bottom; and so does the README's first program."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

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
def test_a_page_runs_as_it_is_printed(
    own_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, page: str, names: dict[str, Any]
) -> None:
    monkeypatch.setenv("LOCKWORK_URL", own_url)
    reader = Reader(tmp_path, lambda _: None)
    reader.names.update(names, url=own_url)
    found = steps(ROOT / "docs" / page)
    assert found
    for step in found:
        try:
            reader.run(step)
        finally:
            # a page may make a new one in each block; those that go on open again
            for made in [value for value in reader.names.values() if isinstance(value, Lockwork)]:
                made.close()


def test_the_program_of_the_readme(own_url: str, tmp_path: Path) -> None:
    code = re.search(r"^```python\n(.*?)^```$", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    assert code is not None
    (tmp_path / "shop.py").write_text(code[1])
    with worker("shop:lw", url=own_url, folder=tmp_path):
        ran, again = (
            subprocess.run(
                [sys.executable, "shop.py"],
                cwd=tmp_path,
                env={"LOCKWORK_URL": own_url, "PYTHONPATH": ":".join(sys.path)},
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
            for _ in range(2)
        )
    first, second = ran.stdout.splitlines()
    assert "LimitReached" in again.stderr
    assert first.startswith("changing the catalogue under fence ")
    assert second.startswith("order of ada StockStatus(")
    assert "available=9" in second
