"""Each page that is read, not looked up, ends with one next step."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
LOOKED_UP = ("reference", "decisions")
"""Folders whose pages are generated, or a list of entries."""
PAGES = [page for page in sorted(DOCS.rglob("*.md")) if page.relative_to(DOCS).parts[0] not in LOOKED_UP]


def fault(text: str) -> str | None:
    """Return the mistakes in the last line of a page, which names the next page."""
    *rest, last = text.rstrip().split("\n\n")
    steps = [paragraph for paragraph in rest if paragraph.startswith("Next:")]
    if not last.startswith("Next: "):
        return f"the last paragraph is no next step: {last[:60]!r}"
    if steps or len(re.findall(r"\]\(", last)) != 1:
        return f"not one next step: {[*steps, last]}"
    return None


@pytest.mark.parametrize("page", PAGES, ids=[page.relative_to(DOCS).as_posix() for page in PAGES])
def test_page_ends_with_one_next_step(page: Path) -> None:
    assert fault(page.read_text()) is None


@pytest.mark.parametrize(
    "text",
    ["# A\n\nThe end.\n", "# A\n\nNext: [B](b.md), or [C](c.md).\n", "# A\n\nNext: [B](b.md).\n\nNext: [C](c.md).\n"],
)
def test_page_without_one_next_step_is_reported(text: str) -> None:
    assert fault(text) is not None
