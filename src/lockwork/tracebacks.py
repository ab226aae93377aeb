"""Tracebacks as text of a bounded length: long texts of errors are cut, and so are frames in the middle."""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Sequence
from types import TracebackType

LOGGED_TEXT = 10_000
"""Characters of one error's text in the log."""
LOGGED = 100_000
"""Characters of one traceback in the log."""
_HEAD = 4
"""The first frames of a cut traceback get 1/4 of its characters."""


def bounded(error: BaseException, first: TracebackType | None, *, text: int, total: int) -> str:
    """Format an error with its causes and its frames from `first` on.

    Cuts each text to about `text` characters, and the traceback to about `total`: it keeps the first and last frames.
    Raises the errors of the error's own code, such as of its `__str__`.
    """
    pieces = [_cut(piece, text) for piece in traceback.format_exception(type(error), error, first)]
    if sum(map(len, pieces)) <= total:
        return "".join(pieces)
    head = _fitting(pieces, total // _HEAD)
    tail = _fitting(pieces[:head:-1], total - total // _HEAD)
    omitted = "".join(pieces[head : len(pieces) - tail]).count("\n")
    return "".join([*pieces[:head], f"  ... {omitted} lines omitted ...\n", *pieces[len(pieces) - tail :]])


def is_long(error: BaseException, most: int) -> bool:
    """Return True if a text of the error, or of an error in its traceback, has more characters than `most`."""
    return any(len(each) > most for each in _texts(error))


def _cut(piece: str, most: int) -> str:
    if len(piece) <= most:
        return piece
    return f"{piece[:most]} ... {len(piece) - most} more characters\n"


def _fitting(pieces: Sequence[str], total: int) -> int:
    """Return the number of pieces, from the first on, that fit."""
    for number, piece in enumerate(pieces):
        total -= len(piece)
        if total < 0:
            return number
    return len(pieces)


def _texts(error: BaseException) -> Iterator[str]:
    waiting: list[BaseException | None] = [error]
    done: set[int] = set()
    while waiting:
        one = waiting.pop()
        if one is None or id(one) in done:
            continue
        done.add(id(one))
        yield str(one)
        yield "\n".join(map(str, getattr(one, "__notes__", ())))
        yield str(getattr(one, "text", ""))  # the line of a SyntaxError
        waiting += [one.__cause__, one.__context__]
        if isinstance(one, BaseExceptionGroup):
            waiting += one.exceptions
