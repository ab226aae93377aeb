"""The scripts match each model, and each model notices its mutants."""

from __future__ import annotations

import hiredis
import pytest
from hypothesis import seed
from hypothesis.stateful import run_state_machine_as_test

import mutants
from models.bench import EXAMPLES, ONE_EXAMPLE
from models.table import MODELS, Model
from mutants import Mutant
from simulator.server import Build, Server


@pytest.mark.parametrize(
    ("model", "build"),
    [pytest.param(model, model.build, id=name) for name, model in MODELS.items() if model.build],
)
def test_scripts_match_model(simulated: Server, model: Model, build: Build) -> None:
    run_state_machine_as_test(model.machine_with(simulated, build), settings=EXAMPLES)


@pytest.mark.parametrize(
    ("model", "mutant"),
    [
        pytest.param(model, mutant, id=f"{name}: {mutant.name}")
        for name, model in MODELS.items()
        for mutant in model.mutants()
    ],
)
def test_mutant_is_caught(simulated: Server, monkeypatch: pytest.MonkeyPatch, model: Model, mutant: Mutant) -> None:
    mutant.apply(monkeypatch)

    def caught(number: int) -> bool:
        machine = model.machine_with(simulated, **mutant.options)
        try:
            run_state_machine_as_test(seed(number)(machine), settings=ONE_EXAMPLE)
        except AssertionError:
            return True
        except hiredis.ReplyError as error:
            if "compiling" in str(error):
                raise
            return True  # the server itself has noticed
        return False

    mutants.check_caught(caught, 3000)
