"""The server scripts: read from the folders of their features, parts included by path, addressed by SHA-1."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import SimpleNamespace

from lockwork.hashes import sha1
from lockwork.protocol import declarations
from lockwork.protocol.declarations import Declaration

_FOLDER = Path(__file__).parent
_INCLUDE = re.compile(r"^-- include: ([\w/]+)\n", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Script:
    """One operation on the server: `name` is from its file name, `source` is its Lua text, `declared` its header."""

    name: str
    source: str
    declared: Declaration = field(default_factory=Declaration, compare=False)
    sha: str = field(init=False)

    def __post_init__(self) -> None:
        digest = sha1(self.source.encode(), usedforsecurity=False).hexdigest()
        object.__setattr__(self, "sha", digest)


def part_path(name: str) -> str:
    """Return the file of a part without its suffix: parts/now for now, queue/parts/groups for queue/groups."""
    folder, slash, part = name.rpartition("/")
    return f"{folder}{slash}parts/{part}"


def names() -> list[str]:
    """Return the names of all scripts, sorted."""
    features = [entry for entry in _FOLDER.iterdir() if entry.is_dir() and entry.name != "parts"]
    return sorted(
        f"{feature.name}/{file.name.removesuffix('.lua')}"
        for feature in features
        for file in feature.iterdir()
        if file.name.endswith(".lua")
    )


@cache
def read(path: str) -> str:
    """Return the text of a Lua file of the protocol."""
    return _FOLDER.joinpath(path).read_text(encoding="utf-8")


def assemble(name: str, replaced: Mapping[str, str] | None = None) -> Script:
    """Build script `name`, with each part once; raises DeclarationError when a name that a part needs is missing.

    `replaced` has other texts of files by name, such as "parts/now"; the simulator replaces the clock this way.
    """
    texts = replaced or {}

    def text_of(path: str) -> str:
        return texts[path] if path in texts else read(f"{path}.lua")

    def part(name: str) -> str:
        return text_of(part_path(name))

    included: set[str] = set()
    done: list[str] = []

    def put(text: str) -> None:
        at = 0
        for match in _INCLUDE.finditer(text):
            done.append(text[at : match.start()])
            at = match.end()
            if match[1] in included:
                continue
            included.add(match[1])
            put(part(match[1]))
            declarations.check_part(declared, match[1], part(match[1]), "".join(done), part)
        done.append(text[at:])

    text = text_of(name)
    declared = declarations.read(name, text, part)
    put(declarations.expand(declared, text))
    return Script(name, "".join(done), declared)


_replaced: dict[str, str] = {}


def replace_parts(texts: Mapping[str, str]) -> None:
    """Let `script` use other texts of parts from now on, such as "parts/now" with a test's clock; {} for none."""
    _replaced.clear()
    _replaced.update(texts)
    script.cache_clear()
    on_cluster.cache_clear()


@cache
def script(name: str) -> Script:
    """Return script `name` as it runs in production, unless a test has replaced parts."""
    return assemble(name, _replaced)


@cache
def codes(name: str) -> SimpleNamespace:
    """Return the codes in the reply of script `name`, as its header declares them."""
    return SimpleNamespace(**dict(script(name).declared.codes))


@cache
def on_cluster(name: str) -> Script:
    """Return script `name` for a node of a Cluster; it counts only the subscribers of that node."""
    return assemble(name, {**_replaced, "parts/publish": read("parts/publish_on_cluster.lua")})
