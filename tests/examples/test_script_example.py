"""The script example, with a worker process that is killed while it runs the jobs."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from lockwork import Lockwork
from processes import started, until, worker
from terminals import typist

FOLDER = Path(__file__).parents[2] / "examples" / "script"


def test_script_prints_all_results_although_a_worker_dies(own_url: str, tmp_path: Path) -> None:
    files = [tmp_path / f"{number}.txt" for number in range(4)]
    for number, file in enumerate(files):
        file.write_text("word " * number)
    command = [sys.executable, "pages.py", *map(str, files), str(tmp_path / "missing.txt")]
    with (
        Lockwork(own_url, prefix="pages") as lw,
        worker("pages", "-c", "2", "--lease", "3", url=own_url, folder=FOLDER) as process,
        started(command, folder=FOLDER, url=own_url) as script,
    ):
        until(lambda: lw.jobs("default", state="running").jobs, "a job runs")
        (child,) = process.children()
        os.kill(child, signal.SIGKILL)
        lines = [script.line() for _ in files]
        assert lines == [f"{file}: {number} words" for number, file in enumerate(files)]
        assert script.wait(60) == 1
        assert f"{tmp_path / 'missing.txt'}: " in script.errors
        assert "Traceback" not in script.errors
        process.send(signal.SIGTERM)
        assert process.wait() == 0


@pytest.mark.parametrize("files", [[], ["pages.py"]])
def test_script_runs_without_files_and_again(own_url: str, files: list[str]) -> None:
    with worker("pages", url=own_url, folder=FOLDER):
        for _ in range(2):
            with started([sys.executable, "pages.py", *files], folder=FOLDER, url=own_url) as script:
                assert script.wait(60) == 0, script.errors


@pytest.mark.timeout(180)
def test_script_maps_ten_thousand_items_with_a_bar(own_url: str) -> None:
    command = [sys.executable, "collatz.py"]
    with (
        worker("collatz", url=own_url, folder=FOLDER),
        typist(command, FOLDER, own_url, columns=100, environment={"TERM": "xterm-256color"}) as terminal,
    ):
        assert "10000/10000" in terminal.sees("10,000 jobs: 6171 needs 261 steps")
        with started([*command, "20"], folder=FOLDER, url=own_url) as script:
            assert script.wait(60) == 0
            assert script.errors == "", "no bar without a terminal"
