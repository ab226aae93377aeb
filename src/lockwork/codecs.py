"""Arguments and results as bytes: JSON through msgspec, never pickle; sizes are capped before anything is sent."""

from __future__ import annotations

import inspect
import re
import typing
from collections.abc import Callable
from datetime import datetime, time
from functools import partial
from math import isfinite
from typing import Any

import msgspec

from lockwork import models
from lockwork.bases import as_base, base_of
from lockwork.errors import ConfigError, PayloadTooLarge, ResultUnavailable
from lockwork.type_hints import Unread, warn_unread

_CHECKED = (int, str, float, bool, list, dict)
_NO_KEYS = (bool, type(None), tuple, frozenset)


def sendable(value: Any, *, reveal: bool = False) -> Any:
    """Turn a Pydantic model into JSON values; called for classes that msgspec does not know. `reveal`: also secrets."""
    if isinstance(value, type):
        raise TypeError(f"Encoding objects of type {type(value).__name__} is unsupported")
    if hasattr(value, "model_dump"):
        return models.dumped(value, reveal=reveal)
    if models.is_secret(value):
        if reveal:
            return models.revealed(value)
        raise models.refuse_secret(value)
    if type(value) in _NO_KEYS:  # msgspec supports them as values, not as keys
        raise TypeError("Only dicts with str-like or number-like keys are supported")
    return as_base(value)


def _restored(kind: Any, value: Any) -> Any:
    """Build a Pydantic model from JSON values."""
    if hasattr(kind, "model_validate_json"):
        return kind.model_validate_json(_encode(value))  # in a strict model, text is a date only if it comes from JSON
    if hasattr(kind, "model_validate"):
        return kind.model_validate(value)
    if models.is_secret_text(kind) and isinstance(value, str):
        return models.secret(kind, value)
    base = base_of(kind) if isinstance(kind, type) else None
    if base is not None:  # a subclass of a JSON type, such as the datetime of a library that freezes the time
        value = shaped(value, base)
    if isinstance(value, typing.get_origin(kind) or kind):
        return value
    raise TypeError(f"Expected `{getattr(kind, '__name__', kind)}`, got `{type(value).__name__}`")


revealing: Callable[[Any], Any] = partial(sendable, reveal=True)
_encode = msgspec.json.Encoder(enc_hook=sendable).encode
_encode_revealing = msgspec.json.Encoder(enc_hook=revealing).encode
_decode = msgspec.json.Decoder().decode
# JSON has only text as keys
shaped: Callable[[Any, Any], Any] = partial(msgspec.convert, str_keys=True, dec_hook=_restored)
# These survive JSON unchanged; any other annotation asks for a conversion.
_PLAIN = (int, str, float, bool, None, type(None), Any, object, list, dict, inspect.Parameter.empty)
_OFFSET = re.compile(rb":\d\d(?:\.\d+)?[+-]\d").search
_MOMENTS = (datetime, time)  # a tuple, because libraries that freeze the time replace module attributes
_BRACE = ord("{")


def encode(value: object, what: str, cap: int, *, reveal: bool = False) -> bytes:
    """Encode `value`; raises ConfigError if JSON cannot hold it, PayloadTooLarge over `cap` bytes.

    `reveal`: secrets such as SecretStr are sent, too.
    """
    try:
        encoded = _encode_revealing(value) if reveal else _encode(value)
        # the encoder writes NaN and infinity as null, and as keys by name
        odd = encoded.find(b"null") >= 0 or (
            _BRACE in encoded and (encoded.find(b'nan":') >= 0 or encoded.find(b'inf":') >= 0)
        )
        finite = not odd or _finite(msgspec.to_builtins(value, enc_hook=revealing if reveal else sendable))
    except Exception as error:  # noqa: BLE001 - it may be nested too deeply, and its classes may fail in any way
        raise ConfigError(f"{what} cannot be sent as JSON: {error}") from None
    if not finite:
        raise ConfigError(f"{what} cannot be sent as JSON, which has no NaN and no infinity")
    if len(encoded) > cap:
        raise PayloadTooLarge(f"{what} would be {len(encoded)} bytes, and the limit is {cap}: send a reference instead")
    return encoded


def has_offset(encoded: bytes) -> bool:
    """Return True if a `datetime` or `time` in JSON may have an offset other than UTC: then `exact` prepares it."""
    return _OFFSET(encoded) is not None


def exact(value: Any, what: str, *, reveal: bool = False) -> Any:
    """Return a value that JSON keeps: each `datetime` is the same instant, with an offset of whole minutes.

    For types that contain a `datetime` or `time`. Raises ConfigError for a time of day with another offset, and for a
    dict if two of its keys have the same text.
    """
    if value is None or value.__class__ is str:
        return value
    try:
        if isinstance(value, datetime | time):
            return models.exact(value)
        hook = revealing if reveal else sendable
        return _exact(msgspec.to_builtins(value, builtin_types=_MOMENTS, enc_hook=hook))
    except Exception as error:  # noqa: BLE001 - as in `encode`
        raise ConfigError(f"{what} cannot be sent as JSON: {error}") from None


def decode(encoded: bytes) -> Any:
    """Decode JSON; raises ValueError if it is malformed."""
    return _decode(encoded)


def is_plain(hint: Any) -> bool:
    """Return True if JSON keeps values of the type, so that nothing is converted."""
    return any(hint is plain for plain in _PLAIN)


def convert(value: Any, wanted: Any) -> Any:
    """Convert decoded JSON to the annotated type; raises ValueError naming the path that does not fit."""
    if wanted in _PLAIN:
        return value
    return shaped(value, wanted)


def result(encoded: bytes, wanted: Any, of: str) -> Any:
    """Decode a result as the function's annotation says; raises ResultUnavailable if it does not fit."""
    value = decode(encoded)
    if isinstance(wanted, Unread):
        wanted = wanted.or_any(f"the result of {of}")
    try:
        if wanted in _CHECKED and not isinstance(value, wanted):
            return shaped(value, wanted)  # it may be an int for a float
        return convert(value, wanted)
    except NameError as error:  # in a class that the annotation names
        warn_unread(f"the result of {of}", getattr(wanted, "__name__", str(wanted)), error)
        return value
    except Exception as error:  # noqa: BLE001 - classes of the app may raise anything
        label = wanted.__name__ if isinstance(wanted, type) else wanted
        raise ResultUnavailable(
            f"the result of {of} does not match its annotation {label}: {error}; correct the annotation, or remove it"
        ) from None


def _exact(value: Any) -> Any:
    if isinstance(value, datetime | time):
        return models.exact(value)
    if isinstance(value, dict):
        _check_keys(value)
        return {_exact(key): _exact(one) for key, one in value.items()}
    return [_exact(one) for one in value] if isinstance(value, list) else value


def _check_keys(value: dict[Any, Any]) -> None:
    """Raise TypeError if two keys have the same text."""
    if len(value) > 1 and len(set(map(str, value))) < len(value):
        raise TypeError("two keys of a dict have the same text, such as 1 and '1'")


def _finite(value: Any) -> bool:
    if isinstance(value, float):
        return isfinite(value)
    if isinstance(value, dict):
        _check_keys(value)
        return all(map(_finite, value)) and all(map(_finite, value.values()))
    if isinstance(value, list | tuple):
        return all(map(_finite, value))
    return True
