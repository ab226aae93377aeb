"""Names in the conformance list exist."""

from __future__ import annotations

from pathlib import Path

import pytest

from conformance import CORE, FOLDERS, ONE_SERVER

_TESTS = Path(__file__).parent.parent


@pytest.mark.parametrize("place", [*FOLDERS, *CORE, *(each for places in ONE_SERVER.values() for each in places)])
def test_named_place_is_there(place: str) -> None:
    file, _, name = place.partition("::")
    assert (_TESTS / file).exists()
    if name:
        assert f"def {name}(" in (_TESTS / file).read_text()
