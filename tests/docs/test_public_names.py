"""Users need only the public modules: docs and examples import no others, and these have every type of a signature."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest

import lockwork
from lockwork import errors, testing, types

ROOT = Path(__file__).parents[2]
PUBLIC = re.compile(r"lockwork(\.(types|errors|dashboard|testing|telemetry\.prometheus|(contrib|compat)\.\w+))?")
PROGRAMS = {
    "examples/flashsale/play/main.py": {"lockwork.version"},
    "examples/flashsale/play/stage.py": {"lockwork.runtime.embedded"},
}
"""Other modules that examples import: the demo names its extra, and stops and kills a private server."""
INTERNAL = {
    "Config", "Interruptible", "LockScripts", "Leased", "Lease", "NewJob", "QueueContext", "QueueRules", "QuorumApp",
    "Registry", "ResultWait", "Runtime", "StockKeys",
}  # fmt: skip
"""Types of attributes without an underscore that other parts of Lockwork use, and the docs do not mention."""


def sources() -> Iterator[tuple[str, str]]:
    for page in (*ROOT.glob("docs/**/*.md"), ROOT / "README.md"):
        for block in re.findall(r"^ *```python\n(.*?)^ *```", page.read_text(), re.MULTILINE | re.DOTALL):
            yield page.relative_to(ROOT).as_posix(), textwrap.dedent(block)
    for program in ROOT.glob("examples/**/*.py"):
        yield program.relative_to(ROOT).as_posix(), program.read_text()


def modules(code: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def test_docs_and_examples_import_only_public_modules() -> None:
    used = [
        (name, module) for name, code in sources() for module in modules(code) if module.split(".")[0] == "lockwork"
    ]
    assert len(used) > 50
    private = [use for use in used if not PUBLIC.fullmatch(use[1]) and use[1] not in PROGRAMS.get(use[0], ())]
    assert private == []


def classes(hint: Any) -> Iterator[type]:
    if isinstance(hint, type) and hint.__module__.startswith("lockwork."):
        yield hint
    for part in get_args(hint):
        yield from classes(part)


def signatures(owner: type) -> Iterator[Any]:
    for name, member in inspect.getmembers(owner):
        function = member.fget if isinstance(member, property) else member
        if inspect.isfunction(function) and (not name.startswith("_") or name in ("__call__", "__enter__", "__iter__")):
            yield function


def hints(value: Any) -> dict[str, Any]:
    # some modules import a few names for type checkers only
    return get_type_hints(value, localns={name: getattr(lockwork, name) for name in lockwork.__all__})


@cache
def exported() -> dict[type, str]:
    values = {getattr(module, name): name for module in (lockwork, types, testing) for name in module.__all__}
    return {value: name for value, name in values.items() if isinstance(value, type)} | {
        error: name for name, error in vars(errors).items() if isinstance(error, type)
    }


@pytest.mark.parametrize("owner", exported(), ids=exported().values())
def test_types_of_public_signatures_are_public(owner: type) -> None:
    fields = {name: hint for name, hint in hints(owner).items() if not name.startswith("_")}
    used = [*fields.values(), *(hint for function in signatures(owner) for hint in hints(function).values())]
    names = {cls.__name__ for hint in used for cls in classes(hint) if cls not in exported()}
    assert names <= INTERNAL
