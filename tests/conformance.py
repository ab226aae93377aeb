"""The conformance suite: tests that must hold on every topology, and on every server.

LOCKWORK_TEST_TOPOLOGY=cluster (or sentinel) runs these and no others. What is about one server's own machinery is
listed here with the reason, and is left out then.
"""

from __future__ import annotations

from pathlib import Path

import pytest

_TESTS = Path(__file__).parent
FOLDERS = ("flows", "hooks", "jobs", "locks", "queues", "schedules", "synchronizers", "tasks", "together", "worker")

CORE = ()
"""What `-m core` selects: some of each, for runs that must be short."""

ONE_SERVER_FIXTURES = {
    "proxy": "loses requests and replies of one connection",
    "simulated": "plays one server in virtual time",
}
ONE_SERVER: dict[str, tuple[str, ...]] = {}
"""By reason: files, and tests of a file."""


def select(config: pytest.Config, items: list[pytest.Item], topology: str) -> None:
    """Mark the core, and take out of `items` what is not part of the suite if there is more than one server."""
    for item in items:
        if _listed(item, CORE):
            item.add_marker("core")
    if topology == "single":
        return
    chosen = [item for item in items if _conforms(item)]
    config.hook.pytest_deselected(items=[item for item in items if item not in set(chosen)])
    items[:] = chosen


def _conforms(item: pytest.Item) -> bool:
    if not any(item.path.is_relative_to(_TESTS / folder) for folder in FOLDERS):
        return False
    if set(ONE_SERVER_FIXTURES) & set(getattr(item, "fixturenames", ())):
        return False
    return not any(_listed(item, places) for places in ONE_SERVER.values())


def _listed(item: pytest.Item, places: tuple[str, ...]) -> bool:
    name = f"{item.path.relative_to(_TESTS)}::{getattr(item, 'originalname', item.name)}"
    return any(name == place or name.startswith((f"{place}::", f"{place}/")) for place in places)
