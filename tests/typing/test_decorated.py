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
USED = ("decorated.py", "injected.py", "batched.py", "typed_middleware.py", "typed_tasks.py")
MISUSED = ("misused.py", "misinjected.py", "misbatched.py", "mistyped_tasks.py", "typed_flows.py")


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=170, check=False)


@pytest.mark.timeout(180)
def test_mypy_agrees() -> None:
    """An unused ignore is an error. With the options of `make check`, which may have read the libraries already."""
    pytest.importorskip("mypy")
    options = ("--strict", "--warn-unused-ignores")
    done = run(sys.executable, "-m", "mypy", *options, *(str(HERE / name) for name in (*USED, *MISUSED)))
    assert done.stdout == "Success: no issues found in 10 source files\n", done.stdout + done.stderr
    assert done.returncode == 0


@pytest.mark.timeout(180)
def test_pyright_agrees_and_sees_each_misuse(tmp_path: Path) -> None:
    """Each line with an ignore is an error without it. One test, because each start of pyright takes seconds."""
    program = shutil.which("pyright", path=str(Path(sys.executable).parent)) or shutil.which("pyright")
    if program is None:
        pytest.skip("pyright is not installed")
    files, expected = [HERE / name for name in USED], {name: set[int]() for name in USED}
    for name in MISUSED:
        lines = (HERE / name).read_text().splitlines()
        expected[name] = {number for number, line in enumerate(lines, 1) if "# type: ignore" in line}
        files.append(tmp_path / name)
        files[-1].write_text("\n".join(re.sub(r"  # type: ignore\[.*\]", "", line) for line in lines))
    report = json.loads(run(program, "--outputjson", "--pythonpath", sys.executable, *map(str, files)).stdout)
    assert report["summary"]["filesAnalyzed"] == len(files)
    errors = {path.name: set[int]() for path in files}
    for one in report["generalDiagnostics"]:
        if one["severity"] == "error":
            errors[Path(one["file"]).name].add(one["range"]["start"]["line"] + 1)
    assert errors == expected
