"""Refuses phrases that a reader must read twice, and class names that mean two things."""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
BANNED = re.compile(
    r"\b(whoever|all the same|by itself|it is told|who has no|nobody knows|the same for a task"
    r"|(?:how|who|what) \w+ stands|broken twin)\b",
    re.IGNORECASE,
)
DIALECT = re.compile(
    r"\b(in (?:its|the|their|his) hands?|looks? again|giv(?:e|es|en) back|passes over|at most so (?:long|many)"
    r"|(?:is|are|was|were) told(?! apart)|(?:async|asyncio|coroutine) twins?|when the server is away)\b",
    re.IGNORECASE,
)
"""Refused in Python and in pages, but not in Lua, nor in the log of decisions."""
WIDTH = 100
"""Columns of a page, code and tables aside."""


def phrases() -> Iterator[str]:
    """Name every refused phrase in the source and the pages."""
    plain = [*ROOT.glob("src/**/*.py"), *ROOT.glob("docs/*.md"), ROOT / "README.md", ROOT / "CHANGELOG.md"]
    for path in sorted([*plain, *ROOT.glob("src/**/*.lua")]):
        refused = [BANNED, DIALECT] if path.suffix != ".lua" and path.name != "decisions.md" else [BANNED]
        for number, line in enumerate(path.read_text().splitlines(), 1):
            for found in (match for pattern in refused for match in pattern.finditer(line)):
                yield f"{path.relative_to(ROOT)}:{number}: {found[0]!r}: name the actor, say what happens"


def wide_lines() -> Iterator[str]:
    """Name every line of a page that is too long for prose."""
    for path in sorted([*ROOT.glob("docs/*.md"), ROOT / "README.md"]):
        code = False
        for number, line in enumerate(path.read_text().splitlines(), 1):
            code ^= line.startswith("```")
            if len(line) > WIDTH and not code and not line.startswith(("|", "[")) and "](http" not in line:
                yield f"{path.relative_to(ROOT)}:{number}: {len(line)} columns; pages wrap at {WIDTH}"


def double_classes() -> Iterator[str]:
    """Name every class name that stands for two classes."""
    places = defaultdict(list)
    for path in sorted(ROOT.glob("src/lockwork/**/*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(f"{path.relative_to(ROOT)}:{node.lineno}")
    for name, found in places.items():
        if len(found) > 1:
            yield f"class {name} has {len(found)} meanings: {', '.join(found)}"


if __name__ == "__main__":
    problems = [*phrases(), *wide_lines(), *double_classes()]
    print("\n".join(problems) or "no phrase to read twice, one class per name")
    sys.exit(1 if problems else 0)
