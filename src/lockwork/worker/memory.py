"""How much memory a process has."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

_PS = "/bin/ps"


def resident(pid: int) -> int | None:
    """Return the bytes that a process has in memory, None when that cannot be told."""
    try:
        pages = Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError, ValueError):
        return None if Path("/proc/self/statm").exists() else _asked(pid)


def _asked(pid: int) -> int | None:
    """The same where the system has no /proc."""
    try:
        found = subprocess.run(  # noqa: S603 - a fixed program and a number
            [_PS, "-o", "rss=", "-p", str(pid)], capture_output=True, timeout=2, check=True
        )
        return int(found.stdout) * 1024
    except (OSError, subprocess.SubprocessError, ValueError):
        return None


def shown(size: int) -> str:
    """A size as people read it."""
    return f"{size / 1_000_000:.0f} MB"
