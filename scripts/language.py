"""Refuses phrases that a reader must read twice, names of missing files, and class names that mean two things.

`language.py --list` also lists each phrase that it counts; `language.py --list src/lockwork/worker` lists a folder's.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import prose

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
"""Refused in Python and in pages, but not in Lua."""
WIDTH = 100
"""Columns of a page, code and tables aside."""
AREAS = {
    "src": "src/**/*.py",
    "Lua": "src/**/*.lua",
    "docs": "docs/**/*.md",
    "templates": "src/**/*.html",
    "JavaScript": "src/**/*.js",
    "tests": "tests/**/*.py",
}
MOST = 40
"""Hits of prose.py per 1,000 sentences that are allowed in each area."""
MOST_NAMES = 30
"""Test names per 1,000 that may begin with an article or a pronoun."""
_FILE = re.compile(r"(?<![\w/.{*])((?:[a-z_]+/)*[a-z_0-9]+\.(?:py|lua))\b")


def phrases() -> Iterator[str]:
    """Name every refused phrase in the source and the pages."""
    plain = [*ROOT.glob("src/**/*.py"), *ROOT.glob("docs/**/*.md"), ROOT / "README.md", ROOT / "CHANGELOG.md"]
    for path in sorted([*plain, *ROOT.glob("src/**/*.lua")]):
        refused = [BANNED, DIALECT] if path.suffix != ".lua" else [BANNED]
        for number, line in enumerate(path.read_text().splitlines(), 1):
            for found in (match for pattern in refused for match in pattern.finditer(line)):
                yield f"{path.relative_to(ROOT)}:{number}: {found[0]!r}: name the actor, say what happens"


def rates(listed: str | None) -> Iterator[str]:
    """Print the rate of each part, and name the parts whose rate has risen; with `listed`, list its hits."""
    counts = {name: (prose.count(sorted(ROOT.glob(files))), MOST) for name, files in AREAS.items()}
    counts["test names"] = prose.test_names(sorted(ROOT.glob("tests/**/*.py"))), MOST_NAMES
    for name, ((count, hits), most) in counts.items():
        print(f"{name}: {count.rate:.0f} of 1,000 sentences (at most {most})")
        if listed is not None:
            shown = [hit.removeprefix(f"{ROOT}/") for hit in hits]
            print(*(hit for hit in shown if hit.startswith(listed)), sep="\n")
        if count.rate > most:
            yield f"{name}: {count.rate:.0f} phrases to read twice per 1,000 sentences; at most {most} are allowed"


def missing_files() -> Iterator[str]:
    """Name every comment, docstring and page that names a file which does not exist."""
    paths = [path.relative_to(ROOT).as_posix() for pattern in ("**/*.py", "**/*.lua") for path in ROOT.glob(pattern)]
    own = tuple(f"/{path}" for path in paths if not path.startswith("."))
    names = {tail for path in own for tail in _tails(path)}
    for path in sorted([*ROOT.glob("src/**/*.py"), *ROOT.glob("src/**/*.lua"), ROOT / "docs/house.md"]):
        for number, text, _ in prose.texts(path, code=True):
            for match in _FILE.finditer(text):
                if match[1] not in names:
                    yield f"{path.relative_to(ROOT)}:{number}: there is no {match[1]}"


def _tails(path: str) -> Iterator[str]:
    """Return the ends of a path that begin at a folder: c.py, b/c.py, a/b/c.py."""
    parts = path.split("/")
    yield from ("/".join(parts[at:]) for at in range(len(parts)))


def wide_lines() -> Iterator[str]:
    """Name every line of a page that is too long for prose."""
    for path in sorted([*ROOT.glob("docs/**/*.md"), ROOT / "README.md"]):
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
    listed = None if "--list" not in sys.argv else (sys.argv[sys.argv.index("--list") + 1 :] or [""])[0]
    problems = [*rates(listed), *phrases(), *missing_files(), *wide_lines(), *double_classes()]
    print("\n".join(problems) or "no phrase to read twice, no missing file, one class per name")
    sys.exit(1 if problems else 0)
