"""Runs every line of the migration page on a real server."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import redis

from docs.snippets import Reader, Step, steps
from processes import until

PAGE = Path(__file__).parents[2] / "docs" / "migrating.md"


@pytest.mark.timeout(600)
def test_migration_page_runs_as_printed(own_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCKWORK_URL", own_url)
    monkeypatch.syspath_prepend(str(tmp_path))
    # the sale's shop.py, which other tests import, would hide the page's folder of that name
    monkeypatch.setattr(sys, "path", [place for place in sys.path if not place.endswith("flashsale")])
    monkeypatch.delitem(sys.modules, "shop", raising=False)
    with redis.Redis.from_url(own_url) as client:

        def working(process: subprocess.Popen[bytes]) -> None:
            until(lambda: client.exists("lw:{q:mail}:workers", "lw:{q:orders}:workers"), "the worker works")

        reader = Reader(tmp_path, working)
        try:
            for step in steps(PAGE):
                client.delete("lw:{q:mail}:workers", "lw:{q:orders}:workers")
                reader.run(step)
        finally:
            if "lw" in reader.names:
                reader.names["lw"].close()
            for name in [name for name in sys.modules if name.partition(".")[0] == "shop"]:
                del sys.modules[name]


def test_migration_page_is_read_completely() -> None:
    page_steps = steps(PAGE)
    assert len(page_steps) > 80
    assert [step.file for step in page_steps if step.file] == ["shop/tasks.py"]
    assert sum(step.command for step in page_steps) > 15


@pytest.mark.parametrize(
    "lie",
    [
        Step(1, "1 + 1", "3"),
        Step(1, "lockwork worker nothing.here:lw --burst"),
        Step(1, "lockwork no-such-command"),
    ],
)
def test_wrong_line_is_noticed(lie: Step, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="line 1"):
        Reader(tmp_path, lambda _: None).run(lie)


def test_row_that_cannot_be_run_is_noticed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("| there | here | gives | |\n|---|---|---|---|\n| a | not code | | |\n")
    with pytest.raises(ValueError, match="not code"):
        steps(page)
