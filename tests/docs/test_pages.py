"""Every page is in the site, its links lead somewhere, its code is code, and its commands are commands."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from inspect import get_annotations
from pathlib import Path
from typing import Any

import click
import pytest

import lockwork
import lockwork.errors
import lockwork.types
from docs.pages import problems
from lockwork.cli.run import run
from lockwork.cli.worker import worker
from lockwork.config import Settings
from lockwork.hooks import Hooks
from lockwork.queues.limits import LimitSettings
from lockwork.schedules.options import ScheduleSettings
from lockwork.tasks.batch import BatchSettings
from lockwork.tasks.options import CallSettings, TaskSettings

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
DOCS = ROOT / "docs"
PAGES = [README, ROOT / "README.zh-CN.md", ROOT / "CHANGELOG.md", *sorted(DOCS.rglob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=[page.relative_to(ROOT).as_posix() for page in PAGES])
def test_page_passes_all_checks(page: Path) -> None:
    assert problems(page) == []


def navigated(entries: list[Any]) -> Iterator[str]:
    """Yield the pages of the site's navigation."""
    for entry in entries:
        for page in entry.values() if isinstance(entry, dict) else [entry]:
            yield from navigated(page) if isinstance(page, list) else [page]


def test_pages_are_once_in_the_navigation_of_the_site() -> None:
    nav = tomllib.loads((ROOT / "zensical.toml").read_text())["project"]["nav"]
    pages = [page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")]
    assert sorted(navigated(nav)) == sorted([*pages, "changelog.md", "index.md", "zh-CN.md"])


REFERENCE = re.compile(r"^::: (lockwork\.\S+)$", re.MULTILINE)


def test_public_names_are_once_in_the_reference() -> None:
    pages = [page.read_text() for page in (DOCS / "reference").glob("*.md")]
    described = Counter(name for page in pages for name in REFERENCE.findall(page))
    names = [f"lockwork.{name}" for name in lockwork.__all__ if not hasattr(lockwork.errors, name)]
    names += [f"lockwork.types.{name}" for name in lockwork.types.__all__]
    assert [name for name in names if described[name] != 1] == []


@pytest.mark.parametrize(
    ("page", "names"),
    [
        ("quick-start.md", [*get_annotations(Settings), "client"]),
        ("jobs.md", [*get_annotations(TaskSettings), *get_annotations(CallSettings)]),
        ("jobs.md", [*get_annotations(BatchSettings), *get_annotations(ScheduleSettings)]),
        ("schedules.md", list(get_annotations(ScheduleSettings))),
        ("queues.md", list(get_annotations(LimitSettings))),
        ("hooks.md", [f"lw.hooks.{name}" for name in vars(Hooks) if not name.startswith("_") and name != "enqueued"]),
        ("worker.md", [option for each in worker.params if isinstance(each, click.Option) for option in each.opts]),
        ("locks.md", [option for each in run.params if isinstance(each, click.Option) for option in each.opts]),
    ],
)
def test_options_are_documented(page: str, names: list[str]) -> None:
    text = (ROOT / "docs" / page).read_text()
    documented = {
        word for code in text.split("`")[1::2] for word in (code, code.split("=")[0], *code.replace(",", " ").split())
    }
    assert [name for name in names if name not in documented] == []


def test_errors_are_documented_with_their_import_paths() -> None:
    page = (ROOT / "docs" / "errors.md").read_text()
    rows = [row.split("|")[1] for row in page.splitlines() if row.startswith("| `")]
    starred = {name: row.rstrip().endswith("*") for row in rows for name in row.split("`")[1::2]}
    known = {name for name, value in vars(lockwork.errors).items() if isinstance(value, type)} - {"LockworkError"}
    assert starred == {name: name not in lockwork.__all__ for name in known}


def test_packages_are_listed_in_the_house() -> None:
    shown = (ROOT / "docs" / "house.md").read_text().split("```")[1]
    rooms = [
        path for path in (ROOT / "src" / "lockwork").iterdir() if path.name[0] not in "_." and path.name != "py.typed"
    ]
    assert [path.name for path in rooms if path.name not in shown] == []


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[there](missing.md)", "no such file"),
        ("# A\n[there](#b)", "no such heading: page.md#b"),
        ("# A\n```python\nfor\n```\n", "no Python"),
        ("```python\nfrom lockwork.errors import NoSuchError\n```\n", "lockwork.errors has no NoSuchError"),
        ("```console\n$ lockwork worker a:b --consurrency 5\n```\n", "No such option"),
        ("say `lockwork wrker`", "no such command: wrker"),
        ("say `lockwork dead retry --everything`", "No such option"),
    ],
)
def test_wrong_page_is_reported(tmp_path: Path, text: str, problem: str) -> None:
    page = tmp_path / "page.md"
    page.write_text(text)
    (problem_text,) = problems(page)
    assert problem in problem_text


def test_correct_page_is_not_reported(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# See `and` steer\n[here](#see-and-steer), `lockwork worker`, `lockwork run --lock x -- ls --all`\n"
    )
    assert problems(page) == []
