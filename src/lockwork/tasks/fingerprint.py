"""Fingerprints of tasks: two versions of a task that take different arguments have different ones."""

from __future__ import annotations

import dataclasses
import enum
import inspect
import re
import typing
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any

from lockwork.hashes import blake2b
from lockwork.type_hints import Unread, of_function

_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
_BUILT_IN = ("builtins", "typing", "datetime", "decimal", "uuid", "pathlib", "collections", "collections.abc")


def digest(text: str) -> str:
    """Return a short digest of a text, the same in every process."""
    return blake2b(text.encode(errors="surrogateescape"), digest_size=4).hexdigest()


def fingerprint(
    function: Callable[..., Any], described: Sequence[str], injected: Collection[str], keys: str = ""
) -> str:
    """Return the fingerprint of a task's parameters and their types, with the fields of classes among them.

    keys: the ids of the keys that decrypt its calls; empty without a codec.
    """
    hints = of_function(function)
    parameters = [each for each in inspect.signature(function).parameters.values() if each.name not in injected]
    kinds = [_read(hints.get(each.name, each.annotation), each.annotation) for each in parameters]
    described_classes: set[type] = set()
    shapes = [_shape(kind, described_classes) for kind in kinds]
    return digest("\n".join([*described, *shapes, *([keys] if keys else [])]))


def _read(hint: Any, annotation: Any) -> Any:
    """Return a type, or the text of an annotation that cannot be read."""
    try:
        return hint.read() if isinstance(hint, Unread) else hint
    except Exception:  # noqa: BLE001 - an annotation may be any expression
        return annotation


def _shape(kind: Any, described: set[type]) -> str:
    """Describe a type in text that is the same in every process with the same code.

    `described`: the classes whose fields the text names already; each class is described once.
    """
    origin = typing.get_origin(kind)
    if origin is not None:
        return f"{_name(origin)}[{','.join(_shape(each, described) for each in typing.get_args(kind))}]"
    if isinstance(kind, type) and kind.__module__ not in _BUILT_IN and kind not in described:
        described.add(kind)
        fields = ",".join(f"{name}:{_shape(each, described)}" for name, each in _fields(kind))
        return f"{_name(kind)}{{{fields}}}"
    return _name(kind)


def _fields(kind: type) -> Iterator[tuple[str, Any]]:
    """Yield the fields of a data class or model, or the values of an enum, sorted by name."""
    if issubclass(kind, enum.Enum):
        yield from sorted((each.name, repr(each.value)) for each in kind)
        return
    try:
        hints = typing.get_type_hints(kind)
    except Exception:  # noqa: BLE001 - as above
        hints = inspect.get_annotations(kind)
    names: Iterable[str] = (name for name in hints if not name.startswith("__"))
    if dataclasses.is_dataclass(kind):
        names = [each.name for each in dataclasses.fields(kind)]
    elif isinstance(fields := getattr(kind, "model_fields", None), dict):  # Pydantic's own attributes have hints, too
        names = fields
    yield from sorted((name, hints.get(name, "")) for name in names)


def _name(kind: Any) -> str:
    text = kind if isinstance(kind, str) else getattr(kind, "__qualname__", None) or repr(kind)
    return _ADDRESS.sub("", text)
