"""Each xdist worker begins with long tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from ordering import SECONDS, long_first

_TESTS = Path(__file__).parent.parent


class _Item:
    def __init__(self, name: str, *fixtures: str) -> None:
        self.nodeid = f"tests/{name}"
        self.fixturenames = fixtures


def ordered(items: list[_Item], workers: int) -> list[_Item]:
    return cast("list[_Item]", long_first(cast("list[Any]", items), workers))


@pytest.mark.parametrize("place", SECONDS)
def test_long_test_exists(place: str) -> None:
    file, _, name = place.partition("::")
    assert (_TESTS / file).exists()
    assert f"def {name.partition('[')[0]}" in (_TESTS / file).read_text()


@pytest.mark.parametrize(("tests", "workers"), [(100, 1), (100, 3), (101, 6), (30, 6), (3, 6), (0, 2)])
def test_workers_begin_with_long_tests(tests: int, workers: int) -> None:
    long = [_Item(f"examples/test_sale.py::test_{number}") for number in range(min(tests, 13))]
    browser = [_Item(f"x.py::test_{number}", "chromium") for number in range(min(tests - len(long), 9))]
    short = [_Item(f"x.py::test_{number}") for number in range(tests - len(long) - len(browser))]
    items = [*short, *long, *browser]
    listed = ordered(items, workers)
    assert sorted(map(id, listed)) == sorted(map(id, items))
    remaining = listed
    for waiting in range(workers, 0, -1):
        size = len(remaining) // waiting
        begun, remaining = remaining[:size], remaining[size:]
        is_short = [item in short for item in begun]
        if tests >= 100:  # else a worker's share of the long tests may be larger than its part
            assert is_short == sorted(is_short)
            assert not is_short[0]


def test_tests_with_a_browser_follow_each_other() -> None:
    browser = [_Item(f"x.py::test_{number}", "chromium") for number in range(4)]
    others = [_Item(f"examples/test_sale.py::test_{number}") for number in range(4)]
    listed = ordered([item for pair in zip(others, browser, strict=True) for item in pair], 2)
    assert listed[:4] == browser
