"""Every mutant of the simulator and the models fits the script that it breaks; no server is needed to see it."""

from __future__ import annotations

import gc
import inspect
from importlib import import_module
from pathlib import Path

from models.table import MODELS
from simulator.server import Build
from simulator.table import RUNS

_TESTS = Path(__file__).parents[1]


def _builds() -> list[Build]:
    """Return every build that a module of the simulator or the models makes when it is imported."""
    for path in sorted([*_TESTS.glob("*/simulation/*.py"), *_TESTS.glob("*/model/*.py")]):
        import_module(".".join(path.relative_to(_TESTS).with_suffix("").parts))
    gc.unfreeze()  # another test of this process may have frozen its objects
    return [object for object in gc.get_objects() if issubclass(type(object), Build)]


def test_mutant_changes_its_scripts() -> None:
    builds, wrong = _builds(), set()
    for build in builds:
        try:
            build.edited()
        except LookupError as error:
            wrong.add(f"{build.name}: {error}")
    assert len(builds) > 200
    assert not wrong, "\n".join(sorted(wrong))


def test_mutant_is_in_a_model_or_in_a_run_but_not_in_both() -> None:
    """A run costs less than an example of a model, so that a mutant is best caught by a run."""
    in_models = {
        _edits(mutant.options["build"], model.build or Build()): mutant.name
        for model in MODELS.values()
        for mutant in model.mutants()
        if mutant.patch is None
    }
    in_runs = {
        _edits(mutant.options["build"], inspect.signature(run.play).parameters["build"].default): mutant.name
        for run in RUNS.values()
        for mutant in run.mutants()
        if "build" in mutant.options
    }
    in_runs.pop(frozenset(), None)  # mutants of the driver change no script
    both = {edits: (in_models[edits], in_runs[edits]) for edits in in_models.keys() & in_runs.keys()}
    assert not both


def _edits(build: Build, released: Build) -> frozenset[tuple[str, str, str]]:
    """Return the edits that make a mutant of a build."""
    return frozenset(build.edits) - frozenset(released.edits)
