"""A value as JSON that can be folded: short parts are one line, longer ones open and close."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from lockwork.dashboard.formats import several, value

_LINE = 100
"""Characters that are shown in one line."""
_TEXT = 20_000
"""Characters of a text that are shown when it is opened."""
_PARTS = 100
"""Parts of an object or a list that are shown."""
_NODES = 1000
"""Parts that are shown of a whole value."""
_DEPTH = 12
"""How deep parts lie in each other; what lies deeper is one line."""


@dataclass(frozen=True, slots=True)
class Json:
    """One part of a value, with the parts in it."""

    line: str
    """All of it in one line, as far as it fits."""
    name: str = ""
    """Its key, as JSON; empty in a list."""
    size: str = ""
    """How large it is, if the line does not show all of it."""
    ends: str = ""
    """What encloses its parts: `{}` or `[]`."""
    parts: tuple[Json, ...] = ()
    left_out: str = ""
    """What is in it and not among the parts."""
    text: str = ""
    """More of a long text."""


def json_tree(thing: object) -> Json:
    """Fold a value, which may be shown."""
    return _Folding().fold(thing, "", 0)


class _Folding:
    def __init__(self) -> None:
        self._left = _NODES

    def fold(self, thing: object, name: str, depth: int) -> Json:
        self._left -= 1
        whole = value(thing)
        if len(whole) <= _LINE:
            return Json(whole, name)
        line = f"{whole[: _LINE - 1]}…"
        if depth < _DEPTH and isinstance(thing, Mapping) and thing:
            pairs = [(value(str(key)), each) for key, each in thing.items()]
            return self._opened(line, name, "{}", pairs, several(len(pairs), "key"), depth)
        if depth < _DEPTH and isinstance(thing, list | tuple | set | frozenset) and thing:
            items = [("", each) for each in thing]
            return self._opened(line, name, "[]", items, several(len(items), "item"), depth)
        text = thing if isinstance(thing, str) else whole
        more = f"The first {_TEXT:,} characters." if len(text) > _TEXT else ""
        return Json(line, name, several(len(text), "character"), "", (), more, text[:_TEXT])

    def _opened(self, line: str, name: str, ends: str, pairs: list[tuple[str, object]], size: str, depth: int) -> Json:
        parts = tuple(self._some(pairs, depth))
        left_out = f"{len(pairs) - len(parts):,} more" if len(parts) < len(pairs) else ""
        return Json(line, name, size, ends, parts, left_out)

    def _some(self, pairs: list[tuple[str, object]], depth: int) -> Iterable[Json]:
        for name, each in pairs[:_PARTS]:
            if self._left <= 0:
                return
            yield self.fold(each, name, depth + 1)
