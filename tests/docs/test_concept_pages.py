"""The programs of the pages about guarantees, leases, hand-overs and failovers print what the pages say."""

from __future__ import annotations

import contextlib
import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from docs.test_running_pages import program, run
from processes import Started, started

DOCS = Path(__file__).parents[2] / "docs"
LOST = "the lease of lock '{}' has ended: another process may hold it now"


@pytest.mark.parametrize(
    ("page", "printed"),
    [
        ("guarantees.md", ["1"]),
        ("leases.md", ["True", LOST.format("import")]),
        ("hand-over.md", ["True 4"]),
        ("failover.md", ["lock 'ledger' was released: only 0 of 1 replicas had it in time"]),
    ],
)
def test_program_prints_what_the_page_says(own_url: str, tmp_path: Path, page: str, printed: list[str]) -> None:
    text = DOCS.joinpath(page).read_text()
    assert [line for line in printed if line not in text] == []
    (tmp_path / "concept.py").write_text(program(f"docs/{page}", 0))
    ran = run(tmp_path, own_url, "concept.py")
    assert ran.stdout.splitlines() == printed
    assert ran.returncode == 0, ran.stderr


def fence(process: Started) -> int:
    """Wait until the process holds the lock, and return its fence."""
    line = process.line()
    held = re.fullmatch(rf"process {process.pid} holds it, fence (\d+)", line)
    assert held is not None, line
    return int(held[1])


@contextlib.contextmanager
def reporting(folder: Path, url: str) -> Iterator[Started]:
    """Run the program until it waits for the lock."""
    with started([sys.executable, "report.py"], folder=folder, url=url) as process:
        assert process.line() == f"process {process.pid} waits for the lock"
        yield process


def test_first_lock_goes_to_the_next_of_interrupted_killed_and_paused_holders(own_url: str, tmp_path: Path) -> None:
    # a shorter lease only makes the test shorter
    code = program("docs/first-lock.md", 0).replace("lw = Lockwork()", "lw = Lockwork(lock_lease=3)")
    (tmp_path / "report.py").write_text(code)
    with reporting(tmp_path, own_url) as first:
        fences = [fence(first)]
        with reporting(tmp_path, own_url) as second:
            first.send(signal.SIGINT)
            fences.append(fence(second))
            assert first.wait() == -signal.SIGINT
            assert "KeyboardInterrupt" in first.errors
            with reporting(tmp_path, own_url) as third:
                second.send(signal.SIGKILL)
                fences.append(fence(third))
                with reporting(tmp_path, own_url) as fourth:
                    third.send(signal.SIGSTOP)
                    fences.append(fence(fourth))
                    third.send(signal.SIGCONT)
                    assert third.wait() == 1
                    assert f"LockLost: {LOST.format('report')}" in third.errors
    assert fences == sorted(set(fences))
