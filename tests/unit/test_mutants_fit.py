"""Every mutant of the simulator and the models fits the script that it breaks; no server is needed to see it."""

from __future__ import annotations

import gc
from importlib import import_module
from pathlib import Path

from simulation.server import Build

_TESTS = Path(__file__).parents[1]


def _builds() -> list[Build]:
    """Return every build that a module of the simulator or the models makes when it is imported."""
    for path in sorted([*_TESTS.glob("simulation/**/*.py"), *_TESTS.glob("model/**/*.py")]):
        import_module(".".join(path.relative_to(_TESTS).with_suffix("").parts))
    gc.unfreeze()  # another test of this process may have frozen what it found
    return [found for found in gc.get_objects() if issubclass(type(found), Build)]


def test_every_mutant_changes_its_scripts() -> None:
    builds, wrong = _builds(), set()
    for build in builds:
        try:
            build.edited()
        except LookupError as error:
            wrong.add(f"{build.name}: {error}")
    assert len(builds) > 200
    assert not wrong, "\n".join(sorted(wrong))
