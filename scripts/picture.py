"""Take the picture of the dashboard in docs/dashboard.png, from the running demo: `python scripts/picture.py`.

Needs what `make test` installs, and Debian's chromium.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

_PICTURE = Path(__file__).parents[1] / "docs" / "dashboard.png"
_LATER = 240_000
"""Milliseconds after the audit, in which buyers go on coming."""


def main() -> None:
    """Play the demo, take the picture after its audit, and end the demo."""
    command = [sys.executable, "-m", "lockwork", "demo", "--dashboard"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, process_group=0) as demo:
        assert demo.stdout is not None
        try:
            address = ""
            for line in demo.stdout:
                print(line, end="")
                if found := re.search(r"dashboard at (http://\S+)", line):
                    address = found[1]
                if "Ctrl-C" in line:
                    _take(address)
                    break
        finally:
            os.killpg(demo.pid, signal.SIGINT)


def _take(address: str) -> None:
    sandbox = ["--no-sandbox"] if os.getuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=sandbox)
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        page.goto(f"{address}?range=15m")
        page.wait_for_timeout(_LATER)
        page.screenshot(path=_PICTURE)
        browser.close()


if __name__ == "__main__":
    main()
