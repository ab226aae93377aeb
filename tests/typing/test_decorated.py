"""A decorated function keeps its signature: both type checkers say so."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parent.parent


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=170, check=False)


@pytest.mark.timeout(180)
@pytest.mark.parametrize(
    "name", ["decorated.py", "misused.py", "injected.py", "misinjected.py", "batched.py", "misbatched.py"]
)
def test_mypy_agrees(name: str, tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    options = ("--strict", "--warn-unused-ignores", "--cache-dir", str(tmp_path), "--follow-imports=silent")
    done = run(sys.executable, "-m", "mypy", *options, str(HERE / name))
    assert done.returncode == 0, done.stdout + done.stderr


def pyright(name: str) -> list[dict[str, object]]:
    program = shutil.which("pyright", path=str(Path(sys.executable).parent)) or shutil.which("pyright")
    if program is None:
        pytest.skip("pyright is not installed")
    settings = run(program, "--outputjson", "--pythonpath", sys.executable, str(HERE / name))
    found: list[dict[str, object]] = json.loads(settings.stdout)["generalDiagnostics"]
    return [one for one in found if one["severity"] == "error"]


@pytest.mark.timeout(180)
@pytest.mark.parametrize("name", ["decorated.py", "injected.py", "batched.py"])
def test_pyright_agrees(name: str) -> None:
    assert pyright(name) == []


@pytest.mark.timeout(180)
@pytest.mark.parametrize("name", ["misused.py", "misinjected.py", "misbatched.py"])
def test_pyright_sees_each_misuse(tmp_path: Path, name: str) -> None:
    """Every line that is marked as an error is one, once its mark is taken away."""
    text = (HERE / name).read_text()
    marked = {number for number, line in enumerate(text.splitlines(), 1) if "# type: ignore" in line}
    bare = tmp_path / "bare.py"
    bare.write_text(re.sub(r"  # type: ignore\[.*\]", "", text))
    program = shutil.which("pyright", path=str(Path(sys.executable).parent)) or shutil.which("pyright")
    if program is None:
        pytest.skip("pyright is not installed")
    done = run(program, "--outputjson", "--pythonpath", sys.executable, str(bare))
    lines = {
        one["range"]["start"]["line"] + 1
        for one in json.loads(done.stdout)["generalDiagnostics"]
        if one["severity"] == "error"
    }
    assert lines == marked
