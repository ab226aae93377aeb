"""The cells of the notebook run in one event loop, as in Jupyter, and have the outputs that it shows."""

from __future__ import annotations

import ast
import contextlib
import inspect
import io
import json
import linecache
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

NOTEBOOK = Path(__file__).parents[2] / "examples" / "notebook" / "prices.ipynb"
AWAIT = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT


def cells() -> Iterator[tuple[str, str]]:
    """Yield the code of each cell and its output."""
    for cell in json.loads(NOTEBOOK.read_text())["cells"]:
        if cell["cell_type"] == "code":
            parts = [part["text"] if "text" in part else part["data"]["text/plain"] for part in cell["outputs"]]
            yield "".join(cell["source"]), "".join(line for part in parts for line in part)


async def evaluate(code: ast.AST, file: str, mode: str, names: dict[str, Any]) -> Any:
    value = eval(compile(code, file, mode, flags=AWAIT), names)  # type: ignore[call-overload]
    return await value if inspect.iscoroutine(value) else value


async def run(code: str, number: int, names: dict[str, Any]) -> str:
    """Run a cell, and return its output and the value of its last expression."""
    file = f"<cell {number}>"
    linecache.cache[file] = len(code), None, code.splitlines(keepends=True), file
    tree = ast.parse(code)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    value, printed = None, io.StringIO()
    with contextlib.redirect_stdout(printed):
        await evaluate(tree, file, "exec", names)
        if isinstance(last, ast.Expr):
            value = await evaluate(ast.Expression(last.value), file, "eval", names)
    return printed.getvalue() + ("" if value is None else repr(value))


async def test_cells_have_the_outputs_of_the_notebook(own_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCKWORK_URL", own_url)
    names: dict[str, Any] = {"__name__": "__main__"}
    seen = [(await run(code, number, names), output) for number, (code, output) in enumerate(cells(), 1)]
    assert len(seen) >= 6
    assert [got for got, _ in seen] == [expected for _, expected in seen]
