"""Pydantic models as JSON values, without changing what Pydantic hides or rounds there; Pydantic is not imported."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, NamedTuple
from uuid import UUID

from lockwork.type_hints import classes_in, serialized_fields

_OPEN: tuple[Any, ...] = (Any, object)
_BOX = (list, tuple, set, frozenset)
_SAME = frozenset({str, int, float, bool, type(None), bytes, date, timedelta, Decimal, UUID})


def is_secret(value: Any) -> bool:
    """Return True for values and classes such as SecretStr."""
    return hasattr(value, "get_secret_value")


def is_secret_text(kind: Any) -> bool:
    """Return True for SecretStr, SecretBytes and their subclasses, which `secret` makes of text."""
    return is_secret(kind) and any(each.__name__ in ("SecretStr", "SecretBytes") for each in kind.__mro__)


def secret(kind: Any, text: str) -> Any:
    """Return a secret with the text, or with its bytes."""
    return kind(text.encode() if any(each.__name__ == "SecretBytes" for each in kind.__mro__) else text)


def revealed(secret: Any) -> Any:
    """Return the value of a secret; bytes as text, as Pydantic reads them."""
    value = secret.get_secret_value()
    return value.decode() if isinstance(value, bytes) else value


def refuse_secret(secret: Any) -> TypeError:
    """Make the error for a secret that may not be sent."""
    return TypeError(f"a {type(secret).__name__} is sent only by a task with hide_arguments=True, among its arguments")


def dumped(model: Any, *, reveal: bool = False) -> Any:
    """Return a model as JSON values; raises TypeError for a value that JSON cannot keep.

    `reveal`: secrets are sent.
    """
    values = model.model_dump(mode="json", by_alias=True, round_trip=True)
    care = _care_of(type(model))
    if care is None or not _changes_in(model, care):
        return values
    return _corrected(values, model.model_dump(mode="python", by_alias=True, round_trip=True), reveal=reveal)


def exact(value: datetime | time) -> datetime | time:
    """Return the same instant with an offset of whole minutes, as JSON needs; raises TypeError for a time of day."""
    if not has_odd_offset(value):
        return value
    if isinstance(value, time):
        raise TypeError(f"{value!r} has no offset in whole minutes")
    return value.astimezone(UTC)


def has_odd_offset(value: datetime | time) -> bool:
    """Return True if the offset has seconds, which JSON would round, or if a time of day has a zone without one."""
    if value.tzinfo is None or value.tzinfo is UTC:
        return False
    offset = value.utcoffset()
    if offset is None:
        return isinstance(value, time)  # its zone has another offset each day, so JSON would have none
    return (offset.seconds % 60 or offset.microseconds) != 0


def unrestorable(model: Any) -> str:
    """Return why a model's JSON cannot become the model again; empty if nothing is wrong."""
    config, decorators = model.model_config, getattr(model, "__pydantic_decorators__", None)
    if config.get("ser_json_bytes", "utf8") != config.get("val_json_bytes", "utf8"):
        return f"{model.__qualname__} has another ser_json_bytes than val_json_bytes"
    if getattr(decorators, "model_validators", None) or getattr(decorators, "model_serializers", None):
        return ""  # they may rename fields
    for name, field in model.model_fields.items():
        if field.exclude and field.is_required():
            return f"field {name!r} of {model.__qualname__} is excluded from JSON, but required"
        sent, read = field.serialization_alias or name, field.validation_alias or name
        accepted: list[Any] = [read] if isinstance(read, str) else list(getattr(read, "choices", [read]))
        accepted = [each.path[0] if len(getattr(each, "path", ())) == 1 else each for each in accepted]
        if config.get("validate_by_name") or config.get("populate_by_name"):
            accepted.append(name)
        if not field.exclude and sent not in accepted:
            return f"field {name!r} of {model.__qualname__} is sent as {sent!r}, but read as {accepted[0]!r}"
    return ""


class _Care(NamedTuple):
    """The fields of a class that need care: values that JSON may change, and fields that JSON may leave out."""

    fields: tuple[str, ...]
    excluded: tuple[tuple[str, Any], ...] = ()
    extra: bool = False
    """True if a model may have values that no field describes."""


_cares: dict[Any, _Care | None] = {}


def _care_of(kind: Any) -> _Care | None:
    """Return the care for a model or dataclass; None for other classes, and if no value needs any."""
    if kind in _cares:
        return _cares[kind]
    care = None
    if hasattr(kind, "model_fields"):
        own = serialized_fields(kind)
        care = _Care(
            tuple(
                n for n, f in kind.model_fields.items() if n not in own and any(map(_is_open, classes_in(f.annotation)))
            ),
            tuple((name, field) for name, field in kind.model_fields.items() if _may_be_excluded(field)),
            kind.model_config.get("extra") == "allow",
        )
    elif dataclasses.is_dataclass(kind):
        care = _Care(tuple(field.name for field in dataclasses.fields(kind)))
    if care == _Care(()):
        care = None
    if getattr(kind, "__pydantic_complete__", True):
        _cares[kind] = care
    return care


def _is_open(kind: Any) -> bool:
    """Return True if values of the class may need care."""
    if any(kind is each for each in _OPEN) or is_secret(kind) or issubclass(kind, datetime | time):
        return True
    if not hasattr(kind, "model_fields"):
        return False
    return kind.model_config.get("extra") == "allow" or any(map(_may_be_excluded, kind.model_fields.values()))


def _may_be_excluded(field: Any) -> bool:
    return bool(field.exclude) or getattr(field, "exclude_if", None) is not None


def _changes(value: Any) -> bool:
    """Return True if JSON changes the value or one in it; raises TypeError for an excluded field that has a value."""
    kind = type(value)
    if kind in _SAME:
        return False
    if kind is datetime:
        return has_odd_offset(value)
    care = _care_of(kind)
    if care is not None:
        return _changes_in(value, care)
    if isinstance(value, _BOX):
        return sum(map(_changes, value)) > 0  # not any(): an excluded field may come later
    if isinstance(value, Mapping):
        return sum(map(_changes, (*value, *value.values()))) > 0
    return has_odd_offset(value) if isinstance(value, datetime | time) else is_secret(value)


def _changes_in(holder: Any, care: _Care) -> bool:
    """Return True if JSON changes a value of a model or dataclass."""
    for name, field in care.excluded:
        if name in holder.model_fields_set:
            value = getattr(holder, name)
            if (field.exclude or field.exclude_if(value)) and not _is_default(field, value):
                raise TypeError(f"field {name!r} of {type(holder).__qualname__} is excluded from JSON, but has a value")
    values = [getattr(holder, name, None) for name in care.fields]
    if care.extra:
        values += (holder.__pydantic_extra__ or {}).values()
    return sum(map(_changes, values)) > 0


def _is_default(field: Any, value: Any) -> bool:
    return field.default_factory is None and bool(field.default == value)


def _corrected(json: Any, python: Any, *, reveal: bool) -> Any:
    """Put the values that JSON hides or rounds in their places, as `python` has them."""
    if is_secret(python):
        if json not in ("**********", "", str(python)):
            return json  # by a serializer of the model
        if not reveal:
            raise refuse_secret(python)
        return revealed(python)
    if isinstance(python, datetime | time):
        return exact(python).isoformat() if has_odd_offset(python) else json
    if isinstance(python, dict) and isinstance(json, dict) and len(json) == len(python):
        pairs = zip(json.items(), python.values(), strict=True)
        return {key: _corrected(one, other, reveal=reveal) for (key, one), other in pairs}
    if isinstance(python, _BOX) and isinstance(json, list) and len(json) == len(python):
        return [_corrected(one, other, reveal=reveal) for one, other in zip(json, python, strict=True)]
    return json
