"""Values of subclasses as their base, which JSON knows: safe texts, zoned or frozen times, numbers of NumPy."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

_MOMENT = ("year", "month", "day", "hour", "minute", "second", "microsecond", "tzinfo")


def _rebuilt(parts: Sequence[str], *named: str) -> Callable[[Any, Any], Any]:
    """Return a function that builds a value of a base class from a value's parts, without a subclass's overrides."""

    def made(base: Any, value: Any) -> Any:
        def part(name: str) -> Any:
            return getattr(base, name).__get__(value)

        return base(*map(part, parts), **{name: part(name) for name in named})

    return made


_BASES: dict[str, Callable[[Any, Any], Any]] = {
    "builtins.str": lambda base, value: base.__str__(value),
    "builtins.int": lambda base, value: base.__int__(value),
    "builtins.float": lambda base, value: base.__float__(value),
    "builtins.bytes": lambda base, value: base(memoryview(value)),
    "builtins.bytearray": lambda base, value: base(memoryview(value)),
    "datetime.datetime": _rebuilt(_MOMENT, "fold"),
    "datetime.date": _rebuilt(_MOMENT[:3]),
    "datetime.time": _rebuilt(_MOMENT[3:], "fold"),
    "datetime.timedelta": _rebuilt(("days", "seconds", "microseconds")),
    "decimal.Decimal": lambda base, value: base(base.__str__(value)),
    "uuid.UUID": lambda base, value: base(int=value.int),
}
"""By name, because libraries that freeze the time replace the classes of `datetime` in every module."""


def base_of(kind: type) -> type | None:
    """Return the base class that JSON can encode; None if there is none."""
    bases = (each for each in kind.__mro__[1:] if f"{each.__module__}.{each.__qualname__}" in _BASES)
    return next(bases, None)


def as_base(value: Any) -> Any:
    """Convert a value of a subclass to its base, and a NumPy number to Python's; raises TypeError for other values."""
    base = base_of(type(value))
    if base is not None:
        return _BASES[f"{base.__module__}.{base.__qualname__}"](base, value)
    if getattr(value, "shape", ()) == ():  # no array
        if hasattr(type(value), "__index__"):
            return operator.index(value)
        item = value.item() if getattr(getattr(value, "dtype", None), "kind", "") in ("b", "f") else None
        if type(item) in (bool, float):
            return item
    raise TypeError(f"Encoding objects of type {type(value).__name__} is unsupported")
