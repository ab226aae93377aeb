"""The helper that starts processes kills no process that it has not started."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from processes import alive, started


def test_process_with_the_id_of_an_ended_child_is_not_killed(tmp_path: Path) -> None:
    stranger = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        with started([sys.executable, "-c", "input()"], folder=tmp_path) as process:
            process._descendants[stranger.pid] = "the start of the ended child"
        assert alive(stranger.pid)
    finally:
        stranger.kill()
        stranger.communicate()
