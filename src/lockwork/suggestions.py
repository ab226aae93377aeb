"""The closest known name, for "did you mean"."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def closest(name: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """Return the known name most like `name`; None if none is as similar as `cutoff` (0 to 1)."""
    from difflib import get_close_matches  # noqa: PLC0415 - only for a mistake

    return next(iter(get_close_matches(name, list(known), 1, cutoff)), None)


def about_as_close(name: str, known: Sequence[str], cutoff: float) -> list[str]:
    """Return the closest known name and, if any, a second name about as close; sorted."""
    from difflib import SequenceMatcher, get_close_matches  # noqa: PLC0415 - only for a mistake

    close = closest(name, known, cutoff)
    if close is None:
        return []
    cutoff = max(cutoff, SequenceMatcher(None, close, name).ratio() - 0.15)
    return sorted({close, *get_close_matches(name, known, 2, cutoff)})
