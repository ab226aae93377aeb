"""Compares the values of a job search with the arguments of stored calls."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from lockwork.protocol import names
from lockwork.protocol.queue import record_header, records
from lockwork.protocol.queue.envelope import without_data

_FLOAT = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?", re.ASCII | re.IGNORECASE)
_INTEGER = re.compile(r"[-+]?\d+", re.ASCII)
_NAMED = re.compile(r"([^\W\d]\w*)=(.*)", re.DOTALL)
Parameters = Mapping[str, Sequence[str]]
"""The names of the parameters of known tasks."""


def named_value(arg: str) -> tuple[str | None, str]:
    """Return the name of the argument, None for any, and its value."""
    named = _NAMED.fullmatch(arg)
    return (named[1], named[2]) if named else (None, arg)


def is_in(text: str, record: bytes) -> bool:
    """Return whether a call or one of its names contains a text; of encrypted arguments, the id of their key."""
    return text in without_data(record.partition(b";")[2]).decode(errors="replace") or any(
        text in names.shown(name) for name in record_header.names(record)
    )


def has_argument(call: records.StoredCall, record: bytes, arg: str, parameters: Parameters) -> bool | None:
    """Return whether a call has an argument; None if the kept part of its record does not decide it."""
    if call.encrypted:
        return False
    name, text = named_value(arg)
    args = records.beginning_args(record) if call.cut else call.args or []
    kwargs = call.kwargs or {}
    if _equal_any((*args, *kwargs.values()), arg):
        return True
    if name is not None and name in kwargs:
        return _equal_any((kwargs[name],), text)
    names = parameters.get(call.task or "", ())
    place = names.index(name) if name in names else len(args)
    if place < len(args):
        return _equal_any((args[place],), text)
    return None if call.cut else False


def argument_in(arguments: Sequence[tuple[str, Any]], arg: str) -> bool:
    """Return whether one of these arguments is searched for; each has its name, or its position."""
    name, text = named_value(arg)
    named = [each for label, each in arguments if label == name]
    return _equal_any([each for _, each in arguments], arg) or _equal_any(named, text)


def _equal_any(values: Sequence[Any], text: str) -> bool:
    number = as_float(text)
    return any(
        text == value
        or text == str(value)
        or text == json.dumps(value)
        or (number is not None and isinstance(value, float) and value == number)
        for value in values
    )


def as_float(text: str) -> float | None:
    """Return the float that a text writes, in any form; None for an integer and for other texts."""
    return float(text) if _FLOAT.fullmatch(text) and not _INTEGER.fullmatch(text) else None
