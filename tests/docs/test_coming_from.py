"""Runs the pages for people who come from other systems: each line of their tables, and each ported program."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
import redis

from docs.snippets import Reader, Step, steps
from lockwork import Lockwork
from processes import started, until, worker

ROOT = Path(__file__).parents[2]
ENGLISH = sorted((ROOT / "docs" / "coming-from").glob("*.md"))
PAGES = [*ENGLISH, ROOT / "README.zh-CN.md"]
_CONSOLE = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_BEFORE = re.compile(r"^```(py|php|ruby|java|sh)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Program:
    """A program in a terminal of a page, with the workers that run beside it and the lines that it prints."""

    workers: list[str]
    name: str
    prints: list[str]


def programs(page: Path) -> Iterator[Program]:
    """Yield the programs that a page runs in a terminal."""
    for block in _CONSOLE.findall(page.read_text()):
        workers: list[str] = []
        for command in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            line, *output = command.splitlines()
            words = line.split()
            if words[:2] == ["lockwork", "worker"]:
                workers.append(words[2])
            elif words[0] == "python":
                yield Program(workers, words[1], output)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder whose modules can be imported during the test."""
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    imported = [name for name, module in sys.modules.items() if _is_in(module, tmp_path)]
    for name in imported:
        del sys.modules[name]


def _is_in(module: object, folder: Path) -> bool:
    return str(getattr(module, "__file__", None)).startswith(str(folder))


@pytest.mark.timeout(600)
@pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])
def test_page_lines_run_as_printed(own_url: str, folder: Path, monkeypatch: pytest.MonkeyPatch, page: Path) -> None:
    monkeypatch.setenv("LOCKWORK_URL", own_url)
    with redis.Redis.from_url(own_url) as client:

        def announced() -> list[bytes]:
            return list(client.scan_iter("lw:{q:*}:workers"))

        reader = Reader(folder, lambda _: until(announced, "the worker works"))
        apps: set[Lockwork] = set()
        try:
            for step in steps(page):
                if step.command and (last := announced()):
                    client.delete(*last)
                try:
                    reader.run(step)
                finally:
                    apps |= {value for value in reader.names.values() if isinstance(value, Lockwork)}
        finally:
            for app in apps:
                app.close()


@pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])
def test_program_prints_what_the_page_shows(own_url: str, tmp_path: Path, page: Path) -> None:
    for step in steps(page):
        if step.file is not None:
            (tmp_path / step.file).write_text(step.code)
    (program, *_) = found = list(programs(page))
    assert program.prints
    for program in found:
        with ExitStack() as running:
            for app in program.workers:
                running.enter_context(worker(app, url=own_url, folder=tmp_path))
            process = running.enter_context(started([sys.executable, program.name], folder=tmp_path, url=own_url))
            assert [process.line() for _ in program.prints] == program.prints, process.errors
            assert process.wait(60) == 0, process.errors


@pytest.mark.parametrize("page", ENGLISH, ids=[page.name for page in ENGLISH])
def test_page_has_a_port_and_one_next_step(page: Path) -> None:
    text = page.read_text()
    before = _BEFORE.findall(text)
    assert before
    for language, code in before:
        if language == "py":
            compile(code, page.name, "exec")
    assert [step.file for step in steps(page) if step.file]
    last = text.rstrip().rpartition("\n\n")[2].replace("\n", " ")
    assert re.fullmatch(r"Next: \[[^]]+\]\([^)]+\).*", last)


def test_pages_are_read_completely() -> None:
    rows = {page.stem: sum(step.file is None for step in steps(page)) for page in PAGES}
    assert {name: count for name, count in rows.items() if count < 12} == {}
    assert sum(step.command for page in PAGES for step in steps(page)) > 15


@pytest.mark.parametrize(
    "lie",
    [
        Step(1, "1 + 1", "3"),
        Step(1, "@str.no_such_option"),
        Step(1, "lockwork worker nothing.here:lw --burst"),
        Step(1, "lockwork no-such-command"),
    ],
)
def test_wrong_line_is_noticed(lie: Step, tmp_path: Path) -> None:
    with pytest.raises((AssertionError, AttributeError), match="line 1|no_such_option"):
        Reader(tmp_path, lambda _: None).run(lie)


def test_decorator_of_a_row_gets_a_function_with_the_names_in_its_braces(tmp_path: Path) -> None:
    reader = Reader(tmp_path, lambda _: None)
    reader.names["name_of"] = lambda text: lambda function: function.__code__.co_varnames
    reader.run(Step(7, '@name_of("{user}:{order}:{user}")'))
    assert reader.names["line_7"] == ("user", "order")


def test_row_that_cannot_be_run_is_noticed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("| there | here | gives | note |\n|---|---|---|---|\n| a | not code | | |\n")
    with pytest.raises(ValueError, match="not code"):
        steps(page)
