"""Draw docs/drawings/*.mmd as SVG, with mermaid in Chromium: `python scripts/drawings.py path/to/mermaid.min.js`.

Mermaid comes from npm (`npm pack mermaid`). Pages show the SVG, so that readers load no script of another host. The
first line of each SVG is a digest of its source; a test compares the two.
"""

from __future__ import annotations

import hashlib
import shutil
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

DRAWINGS = Path(__file__).parents[1] / "docs" / "drawings"
_OPTIONS = {
    "startOnLoad": False,
    "htmlLabels": False,
    "flowchart": {"htmlLabels": False, "wrappingWidth": 400},
    "theme": "neutral",
    "fontFamily": "sans-serif",
    "deterministicIds": True,
}
_DRAW = """async ([options, source]) => {
  mermaid.initialize(options);
  const {svg} = await mermaid.render("drawing", source);
  return svg;
}"""


def digest(source: str) -> str:
    """Return the first line of the SVG of this source."""
    return f"<!-- {hashlib.sha256(source.encode()).hexdigest()} -->"


def main() -> None:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page()
        page.add_script_tag(path=sys.argv[1])
        for drawing in sorted(DRAWINGS.glob("*.mmd")):
            source = drawing.read_text()
            svg = page.evaluate(_DRAW, [_OPTIONS, source])
            svg = svg.replace('style="', 'style="background-color: white; ', 1)
            drawing.with_suffix(".svg").write_text(f"{digest(source)}\n{svg}\n")
        browser.close()


if __name__ == "__main__":
    main()
