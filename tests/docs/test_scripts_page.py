"""The programs of docs/scripts.md print what the page shows."""

from __future__ import annotations

import ast
import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

from docs.test_running_pages import program
from processes import started, worker

PAGE = "docs/scripts.md"


@pytest.mark.parametrize(
    ("block", "name", "words", "lines"),
    [
        (0, "lengths", ["one", "three"], ["one 3", "three 5"]),
        (1, "mails", ["42", "--wait"], ["sent to user 42"]),
    ],
)
def test_program_prints_its_results(
    own_url: str, tmp_path: Path, block: int, name: str, words: list[str], lines: list[str]
) -> None:
    (tmp_path / f"{name}.py").write_text(program(PAGE, block))
    text = (Path(__file__).parents[2] / PAGE).read_text()
    assert "\n".join([f"$ lockwork worker {name}", f"$ python {name}.py {' '.join(words)}", *lines]) in text
    with (
        worker(name, url=own_url, folder=tmp_path),
        started([sys.executable, f"{name}.py", *words], folder=tmp_path, url=own_url) as process,
    ):
        assert [process.line() for _ in lines] == lines
        assert process.wait(60) == 0, process.errors


async def test_cell_of_the_notebook_runs(own_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCKWORK_URL", own_url)
    names: dict[str, Any] = {"__name__": "__main__"}
    cell = compile(program(PAGE, 2), "cell", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    await asyncio.wait_for(eval(cell, names), 60)
    assert await names["job"].aresult() == 12.0
    names["worker"].stop()
    await names["running"]
    await names["lw"].aclose()
    names["lw"].close()
