"""The seeds that catch mutants (builds with one fault) in the simulator and against the models.

`mutants.json` pins a seed for each mutant, so that a test plays one run instead of a search. If that run no longer
catches the mutant, because a script or a check has changed, the test searches, and pytest's summary lists it.
`make mutants` searches for every mutant, and pins the fastest seed that catches it.
"""

from __future__ import annotations

import itertools
import json
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

_FILE = Path(__file__).with_suffix(".json")
_PINS: dict[str, int] = json.loads(_FILE.read_text()) if _FILE.exists() else {}
_PINNING = "LOCKWORK_PIN_MUTANTS" in os.environ
_TIMES, _ENOUGH = 20, 60.0
"""Limits of a search for the fastest seed: multiple of the fastest catch's CPU time, and CPU seconds."""
_PATIENCE = 60.0
"""Maximum seconds of a search that replaces a missing or failed pin."""
_PROPERTY = "mutant caught by seed"
_running: list[pytest.Item] = []
Patch = tuple[Any, str, Any]
"""An object, the name of its attribute, and another value for it."""


@dataclass(frozen=True)
class Mutant:
    """A mutant of a run or a model: other options for it, or a patch of Python code."""

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)
    patch: Patch | None = None

    def apply(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Apply the patch, if there is one."""
        if self.patch:
            monkeypatch.setattr(*self.patch)


def pins(tests: str) -> list[int]:
    """Return the pinned seeds of the tests whose ids begin with `tests`."""
    return [seed for test, seed in _PINS.items() if test.startswith(tests)]


def check_caught(caught: Callable[[int], bool], seeds: int) -> None:
    """Fail unless a seed catches this test's mutant: the pinned seed, or else a seed below `seeds`."""
    (test,) = _running
    pinned = _PINS.get(test.nodeid)
    if pinned is not None and not _PINNING and caught(pinned):
        return
    found = _quickest(caught, seeds) if _PINNING else _first(caught, seeds)
    if found is None:
        longer = "" if _PINNING else "; `make mutants` searches for longer and pins one"
        pytest.fail(f"no run caught it in up to {seeds} seeds{longer}")
    test.user_properties.append((_PROPERTY, found))


def _first(caught: Callable[[int], bool], seeds: int) -> int | None:
    end = time.monotonic() + _PATIENCE
    in_time = itertools.takewhile(lambda _: time.monotonic() < end, range(seeds))
    return next(filter(caught, in_time), None)


def _quickest(caught: Callable[[int], bool], seeds: int) -> int | None:
    best: tuple[float, int] | None = None
    failure: Exception | None = None
    began = before = time.process_time()
    for seed in range(seeds):
        try:
            found = caught(seed)
        except Exception as error:  # noqa: BLE001 - a mutant may also break the run itself; other seeds prove more
            found, failure = False, error
        now = time.process_time()
        if found:
            best = min(best or (now - before, seed), (now - before, seed))
        if best and now - began > min(_TIMES * best[0], _ENOUGH):
            break
        before = now
    if best is None and failure:
        raise failure
    return best[1] if best else None


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Store the running test, whose id selects the pin."""
    _running[:] = [item]


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, exitstatus: pytest.ExitCode, config: pytest.Config
) -> None:
    """Pin the found seeds, or list the mutants that needed a search. xdist's workers report to the main process."""
    found = {
        report.nodeid: seed
        for report in itertools.chain(*terminalreporter.stats.values())
        if isinstance(report, pytest.TestReport) and report.when == "call"
        for name, seed in report.user_properties
        if name == _PROPERTY and isinstance(seed, int)
    }
    if _PINNING:
        some = config.option.keyword or any("::" in place for place in config.args)
        _pin(found, whole_files=not some and exitstatus != pytest.ExitCode.INTERRUPTED)
        terminalreporter.write_line(f"{len(found)} mutants pinned in {_FILE}")
    elif found:
        terminalreporter.section("mutants without a seed that catches them: `make mutants` pins one")
        for test in sorted(found):
            terminalreporter.write_line(test)


def _pin(found: dict[str, int], *, whole_files: bool) -> None:
    """Replace the pins of these tests, or all pins of their files, and drop the pins of deleted files."""
    played = {_file(test) for test in found} if whole_files else set()
    root = _FILE.parents[1]
    kept = {test: seed for test, seed in _PINS.items() if _file(test) not in played and (root / _file(test)).exists()}
    _FILE.write_text(json.dumps(kept | found, indent=0, sort_keys=True) + "\n")


def _file(test: str) -> str:
    return test.partition("::")[0]
