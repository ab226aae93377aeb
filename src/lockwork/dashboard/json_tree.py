"""A value as a JSON tree: short parts are one line, longer ones unfold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct

from lockwork.dashboard.formats import Prose, value
from lockwork.words import several

_LINE = 100
"""Maximum characters of one line."""
_TEXT = 20_000
"""Maximum characters of an opened text."""
_PARTS = 100
"""Maximum parts of an object or a list."""
_NODES = 1000
"""Maximum parts of a whole value."""
_DEPTH = 12
"""Maximum depth; deeper parts are one line."""


class Json(Struct, frozen=True):
    """One part of a value, with the parts in it."""

    line: str
    """The whole part in one line, as far as it fits."""
    name: str = ""
    """Key as JSON; empty in a list."""
    size: str = ""
    """Size, if the line does not show the whole part."""
    ends: str = ""
    """Brackets around its parts: `{}` or `[]`."""
    parts: tuple[Json, ...] = ()
    left_out: str = ""
    """Description of the parts that are left out."""
    text: str = ""
    """Full text of a long string, up to a limit."""


def json_tree(thing: object) -> Json:
    """Fold a value that may be shown."""
    return _Folding().fold(thing, "", 0)


class _Folding:
    def __init__(self) -> None:
        self._left = _NODES

    def fold(self, thing: object, name: str, depth: int) -> Json:
        self._left -= 1
        whole = value(thing)
        if len(whole) <= _LINE:
            return Json(Prose(whole), name)
        line = Prose(f"{whole[: _LINE - 1]}…")
        if depth < _DEPTH and isinstance(thing, Mapping) and thing:
            pairs = [(value(str(key)), each) for key, each in thing.items()]
            return self._opened(line, name, "{}", pairs, several(len(pairs), "key"), depth)
        if depth < _DEPTH and isinstance(thing, list | tuple | set | frozenset) and thing:
            items = [("", each) for each in thing]
            return self._opened(line, name, "[]", items, several(len(items), "item"), depth)
        text = thing if isinstance(thing, str) else whole
        more = f"The first {_TEXT:,} characters." if len(text) > _TEXT else ""
        return Json(line, name, several(len(text), "character"), "", (), more, Prose(text[:_TEXT]))

    def _opened(self, line: str, name: str, ends: str, pairs: list[tuple[str, object]], size: str, depth: int) -> Json:
        parts = tuple(self._some(pairs, depth))
        left_out = f"{len(pairs) - len(parts):,} more" if len(parts) < len(pairs) else ""
        return Json(line, name, size, ends, parts, left_out)

    def _some(self, pairs: list[tuple[str, object]], depth: int) -> Iterable[Json]:
        for name, each in pairs[:_PARTS]:
            if self._left <= 0:
                return
            yield self.fold(each, name, depth + 1)
