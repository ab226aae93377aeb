"""The server scripts: read from lua/, shared parts included by name, addressed by SHA-1."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha1
from importlib.resources import files

_INCLUDE = re.compile(r"^-- include: (\w+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Script:
    """One operation on the server: `name` is its file's, `source` is what the server runs."""

    name: str
    source: str
    sha: str = field(init=False)

    def __post_init__(self) -> None:
        digest = sha1(self.source.encode(), usedforsecurity=False).hexdigest()
        object.__setattr__(self, "sha", digest)


def read(path: str) -> str:
    """Return the text of a file below lua/."""
    return files("lockwork.protocol").joinpath("lua", path).read_text(encoding="utf-8")


def assemble(name: str, parts: dict[str, str] | None = None) -> Script:
    """Build script `name`; `parts` replaces included parts by name, which is how the simulator brings its own clock."""
    replaced = parts or {}

    def include(match: re.Match[str]) -> str:
        part = match[1]
        text = replaced[part] if part in replaced else read(f"parts/{part}.lua")
        return _INCLUDE.sub(include, text)

    return Script(name, _INCLUDE.sub(include, read(f"{name}.lua")))


@cache
def script(name: str) -> Script:
    """Return script `name` as it runs in production."""
    return assemble(name)
