"""The report of chaos runs: two tables in docs/reliability.md, whose rows the runs write.

A row has the name of its run, or of its negative control, in the first column; a newer run replaces it.
"""

from __future__ import annotations

import os
import platform
import re
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from chaos import tiers
from lockwork.runtime.embedded import folder as embedded_folder

RUNS = "| run |"
CONTROLS = "| negative control |"
_MOST = 3
"""Problems of one run that its row names."""


@dataclass
class Report:
    """Writes the row of one run to the page of LOCKWORK_CHAOS_REPORT. Without this variable, it writes nothing."""

    piece: str
    name: str
    table: str
    page: Path | None = field(default_factory=lambda: _page())
    written: bool = False
    _began: float = field(default_factory=time.monotonic)

    def run(self, work: str, faults: str, found: str, problems: Sequence[str]) -> None:
        """Write the row of a run: its work and faults, what the check counted, and the violations."""
        more = f"; {len(problems)} in all" if len(problems) > _MOST else ""
        violations = "; ".join(problems[:_MOST]) + more if problems else "none"
        print(f"seed {tiers.SEED}: {self.name}: {work}; {faults}; {found}; violations: {violations}")
        machine = f"{time.monotonic() - self._began:.0f} s; {conditions()}"
        self._write(_day(), work, faults, found, violations, machine, f"`{tiers.command(self.piece)}`")

    def control(self, defect: str, problems: Sequence[str]) -> None:
        """Write the row of a negative control: its defect, and what the check reported."""
        self._write(_day(), defect, problems[0] if problems else "**nothing**")

    def unfinished(self) -> None:
        """Write the row of a run that ended before its check."""
        if self.table == CONTROLS:
            self.control("it did not end: see its log", [])
        else:
            self.run("", "", "", ["it did not end: see its log"])

    def _write(self, *cells: str) -> None:
        self.written = True
        if self.page is not None:
            self.page.write_text(with_row(self.page.read_text(), self.table, (self.name, *cells)))


def name_of(test: str) -> str:
    """Return the name of a test's row: `test_jobs_survive[always]` becomes `jobs survive (always)`."""
    return test.removeprefix("test_").replace("_", " ").replace("[", " (").replace("]", ")")


def with_row(text: str, table: str, cells: Sequence[str]) -> str:
    """Return the page with this row in the table that begins with `table`, instead of a row of the same name."""
    row = f"| {' | '.join(cell.replace('|', '/').replace(chr(10), ' ') for cell in cells)} |"
    before, header, after = text.partition(f"\n{table}")
    if not header:
        raise ValueError(f"the page has no table that begins with {table!r}")
    rows, _, rest = after.partition("\n\n")
    lines = rows.rstrip("\n").split("\n")
    name = f"| {cells[0]} |"
    places = [number for number, line in enumerate(lines) if line.startswith(name)]
    if places:
        lines[places[0]] = row
    else:
        lines.append(row)
    return before + header + "\n".join(lines) + "\n\n" + rest if rest else before + header + "\n".join(lines) + "\n"


def conditions() -> str:
    """Return the server, the Python and the size of this machine."""
    version = subprocess.run(
        [embedded_folder.program(), "--version"], capture_output=True, text=True, check=True, timeout=30
    ).stdout
    found = re.match(r"(\w+) server v=([\d.]+)", version)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
    server = f"{found[1]} {found[2]}" if found else version.strip()
    return f"{server}, Python {platform.python_version()}, {os.cpu_count()} cores, {memory:.0f} GB"


def _day() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%d")


def _page() -> Path | None:
    name = os.environ.get("LOCKWORK_CHAOS_REPORT")
    return Path(name).absolute() if name else None
