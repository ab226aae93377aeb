"""Each decision has a date, and the list of topics names every page and section."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
PAGES = sorted((DOCS / "decisions").glob("*.md"))
_DATED = re.compile(r"\(20\d\d-\d\d-\d\d\)$")


def undated(text: str) -> list[str]:
    """Return the beginning of each decision without a date.

    A decision is a paragraph that begins in bold, with the paragraphs and lists below it, or an item of a list in a
    section without such paragraphs.
    """
    missing = []
    for section in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        bold = re.findall(r"^\*\*.*?(?=\n\n|\n- |\Z)", section, re.MULTILINE | re.DOTALL)
        items = [] if bold else re.findall(r"^- .*?(?=\n\n|\n- |\Z)", section, re.MULTILINE | re.DOTALL)
        missing += [decision[:60].rstrip() for decision in (*bold, *items) if not _DATED.search(decision.rstrip())]
    return missing


@pytest.mark.parametrize("page", PAGES, ids=[page.stem for page in PAGES])
def test_decisions_have_dates(page: Path) -> None:
    assert undated(page.read_text()) == []


def test_decision_without_date_is_reported() -> None:
    text = "# Decisions\n\n## One\n\n**A.** Yes.\n- a list\n\n**B.** No. (2026-11-28)\n\n## Two\n\n- C\n"
    assert undated(text) == ["**A.** Yes.", "- C"]


def test_topics_list_each_page_with_its_sections() -> None:
    rows = re.findall(r"^\| \[.*?\]\(decisions/(.*?)\) \| (.*?) \|$", (DOCS / "decisions.md").read_text(), re.MULTILINE)
    listed = {name: topics.lower() for name, topics in rows}
    sections = {page.name: ", ".join(re.findall(r"^## (.*)$", page.read_text(), re.MULTILINE)) for page in PAGES}
    assert listed == {name: titles.lower() for name, titles in sections.items()}
