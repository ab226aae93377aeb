"""Let the pages install Lockwork from where it is: a checkout until the first release, the package index from then on.

`RELEASED` in src/lockwork/version.py decides; run this after a change of it. With --check it changes nothing, and fails
if a page would change.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from lockwork.version import RELEASED

ROOT = Path(__file__).parents[1]
PAGES = [*sorted(ROOT.glob("README*.md")), *sorted(ROOT.glob("docs/**/*.md")), *sorted(ROOT.glob("examples/**/*.md"))]
_COMMENT = "in a checkout, until the first release"
_COMMAND = re.compile(r"(pip install [^\n`]*?)([\"'])(?:lockwork|\.)(\[[\w,]+\])\2")


def current(text: str) -> str:
    """Return the text of a page with the right install commands."""
    source = "lockwork" if RELEASED else "."
    if RELEASED:
        text = text.replace(f"    # {_COMMENT}\n", "\n").replace(f"# {_COMMENT}; ", "# ")
    return _COMMAND.sub(rf"\g<1>\g<2>{source}\g<3>\g<2>", text)


def main() -> None:
    check = "--check" in sys.argv
    old = [page for page in PAGES if current(page.read_text()) != page.read_text()]
    for page in old:
        print(page.relative_to(ROOT))
        if not check:
            page.write_text(current(page.read_text()))
    if check and old:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
