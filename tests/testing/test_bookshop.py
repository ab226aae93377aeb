"""The tests of the example `bookshop`: without a server, ten of them take less than a second."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RUN = """
import sys, time
import pytest

class Times:
    def pytest_sessionstart(self):
        self.began = time.process_time()
    def pytest_sessionfinish(self):
        print(f"\\nseconds: {time.process_time() - self.began:.2f}")

sys.exit(pytest.main(sys.argv[1:], plugins=[Times()]))
"""


@pytest.mark.parametrize(("file", "passed"), [("test_bookshop.py", 10), ("test_whole_shop.py", 4)])
def test_example_passes(file: str, passed: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", RUN, "-q", "-p", "no:cacheprovider", "-p", "lockwork.testing.plugin", "-c", os.devnull,
         "--rootdir", ".", file],
        cwd=ROOT / "examples" / "bookshop",
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:.", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    assert f"{passed} passed" in done.stdout, done.stdout + done.stderr
    seconds = float(done.stdout.partition("seconds: ")[2].split()[0])
    if file == "test_bookshop.py":
        # processor time, since the machine may be busy with something else
        assert seconds < 1
