"""The names in the Lockwork column of the comparisons exist, and each line of the daily features has a row."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import get_type_hints

import click
import pytest

import lockwork
import lockwork.testing
import lockwork.types
from lockwork.cli.commands import cli
from lockwork.config import Settings
from lockwork.locks.options import ExclusiveSettings, LeaseSettings, LockSettings
from lockwork.schedules.options import ScheduleSettings
from lockwork.tasks.batch import BatchSettings
from lockwork.tasks.options import CallSettings, TaskSettings

PAGES = sorted((Path(__file__).parents[2] / "docs" / "compare").glob("*.md"))
FEATURES = [
    "run time", "across queues", "own ids", "task", "priorities", "encrypted", "signed", "by name", "another queue",
    "deadline for all attempts", "circuit breaker", "many results", "times out", "last friday", "two versions",
    "one by one", "end the worker", "words of other systems",
]  # fmt: skip
"""Words of the rows that the comparison of queues has to have."""
SETTINGS = (
    Settings, TaskSettings, CallSettings, BatchSettings, ScheduleSettings, LockSettings, LeaseSettings,
    ExclusiveSettings,
)  # fmt: skip


def rows(page: Path) -> Iterator[list[str]]:
    """Yield the cells of each row of the tables that have a column for Lockwork."""
    ours = False
    for line in page.read_text().splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if not cells:
            ours = False
        elif len(cells) > 1 and cells[1] == "Lockwork":
            ours = True
        elif ours and not line.startswith("|-"):
            yield cells


@cache
def words() -> set[str]:
    """Return the names of public options, functions, methods and fields, and the options of commands."""
    names = {name for settings in SETTINGS for name in get_type_hints(settings)}
    for module in (lockwork, lockwork.types, lockwork.errors, lockwork.testing):
        for name in getattr(module, "__all__", None) or vars(module):
            names.add(name)
            value = getattr(module, name)  # may be imported by this access
            if inspect.isclass(value) and value.__module__.startswith("lockwork."):
                names |= {member for member in dir(value) if member[0] != "_"} | set(get_type_hints(value))
    assert isinstance(cli, click.Group)
    context = click.Context(cli)
    commands = [command for name in cli.list_commands(context) if (command := cli.get_command(context, name))]
    return names | {option for command in commands for parameter in command.params for option in parameter.opts}


def exists(code: str) -> bool:
    """Return whether a name in a cell exists: `lw.lock`, `retries=`, `gather`, `--lease` or `lockwork.compat`."""
    if code.startswith("lockwork "):
        return True  # test_pages.py checks commands
    if code.startswith("lockwork."):
        return find_spec(code) is not None
    if code.startswith("lw."):
        return hasattr(lockwork.Lockwork, code[3:])
    return all(part in words() for part in code.rstrip("=").split("."))


def unknown(page: Path) -> list[str]:
    """Return the names in the Lockwork column that do not exist."""
    return [
        code
        for cells in rows(page)
        for code in re.findall(r"`([^`]+)`", cells[1])
        if not exists(code) and not SYNTAX.fullmatch(code)
    ]


SYNTAX = re.compile(r"(async )?(def|with)|\d*[LW]+|\d+[LW]|fri#2|grant\.lost")
"""Code that names nothing: Python's keywords, and signs of a cron line."""


@pytest.mark.parametrize("page", PAGES, ids=[page.stem for page in PAGES])
def test_names_of_lockwork_exist(page: Path) -> None:
    assert len(list(rows(page))) > 15
    assert unknown(page) == []


def test_misspelled_name_is_reported(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "| | Lockwork | other |\n|---|---|---|\n| Retries | `retires=`, `lw.lokc`, `retries=` | `nothing` |\n"
    )
    assert unknown(page) == ["retires=", "lw.lokc"]


def test_daily_features_have_rows() -> None:
    features = " ".join(cells[0].lower() for cells in rows(PAGES[-1]))
    assert PAGES[-1].name == "queues.md"
    assert [feature for feature in FEATURES if feature not in features] == []
