"""Each drawing of the documentation was made from its source."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import pytest

SOURCES = sorted((Path(__file__).parents[2] / "docs" / "drawings").glob("*.mmd"))


@pytest.mark.parametrize("source", SOURCES, ids=[source.stem for source in SOURCES])
def test_drawing_was_made_from_its_source(source: Path) -> None:
    first_line = source.with_suffix(".svg").read_text().partition("\n")[0]
    assert first_line == f"<!-- {sha256(source.read_bytes()).hexdigest()} -->", "run scripts/drawings.py"


def test_drawings_exist() -> None:
    assert SOURCES
