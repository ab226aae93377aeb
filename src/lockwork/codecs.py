"""Arguments and results as bytes: JSON through msgspec, never pickle; sizes are capped before anything is sent."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Collection, Sequence
from math import isfinite
from typing import Any

import msgspec

from lockwork.errors import ConfigError, PayloadTooLarge, ResultUnavailable

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode
# What JSON gives back as it was; any other annotation asks for a conversion.
_PLAIN = (int, str, float, bool, None, type(None), Any, object, list, dict, inspect.Parameter.empty)


def encode(value: object, what: str, cap: int) -> bytes:
    """Encode `value`; raises ConfigError if JSON cannot hold it, PayloadTooLarge over `cap` bytes."""
    try:
        encoded = _encode(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigError(f"{what} cannot be sent as JSON: {error}") from None
    # the encoder writes null for them
    if b"null" in encoded and not _finite(msgspec.to_builtins(value)):
        raise ConfigError(f"{what} cannot be sent as JSON: it has no NaN and no infinity")
    if len(encoded) > cap:
        raise PayloadTooLarge(f"{what} would be {len(encoded)} bytes, and the cap is {cap}: send a reference instead")
    return encoded


def decode(encoded: bytes) -> Any:
    """Decode; raises ValueError for what is not JSON."""
    return _decode(encoded)


def convert(value: Any, wanted: Any) -> Any:
    """Turn decoded JSON into the annotated type; raises ValueError with the place that does not fit."""
    if wanted in _PLAIN:
        return value
    return msgspec.convert(value, wanted)


def result(encoded: bytes, wanted: Any, of: str) -> Any:
    """Read what a function returned, as its annotation says; raises ResultUnavailable when it is something else."""
    value = decode(encoded)
    try:
        return convert(value, wanted)
    except (ValueError, TypeError) as error:
        shown = wanted.__name__ if isinstance(wanted, type) else wanted
        raise ResultUnavailable(
            f"{of} returned what does not fit its annotation, {shown}: {error}; correct that, or leave it out"
        ) from None


class Signature:
    """What a task function takes and returns, read once when it is registered; `without` these parameters."""

    def __init__(self, function: Callable[..., Any], without: frozenset[str] = frozenset()) -> None:
        whole = inspect.signature(function)
        parameters = [parameter for parameter in whole.parameters.values() if parameter.name not in without]
        self._signature = whole.replace(parameters=parameters)
        self._called = getattr(function, "__name__", "")
        self._without = without
        positional = [
            p
            for p in parameters
            if p.kind in (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        ]
        self._simple = len(positional) == len(parameters)
        self._least = sum(p.default is inspect.Parameter.empty for p in positional)
        self._most = len(positional)
        hints = type_hints(function)
        self.returns: Any = hints.get("return", Any)
        skipped = without | {"return"}
        self._wanted = {name: hint for name, hint in hints.items() if name not in skipped and not _is_plain(hint)}
        self._names = [p.name for p in positional]
        self._positions = [
            (index, self._wanted[p.name]) for index, p in enumerate(positional) if p.name in self._wanted
        ]

    @property
    def names(self) -> Collection[str]:
        """The parameters' names."""
        return self._signature.parameters.keys()

    def check(self, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
        """Raise TypeError, as the call itself would, if the arguments do not fit."""
        if kwargs and not self._without.isdisjoint(kwargs):
            name = min(self._without & kwargs.keys())
            raise TypeError(f"{name!r} is injected by the worker, and is no argument of the job")
        if kwargs or not self._simple or not self._least <= len(args) <= self._most:
            try:
                self._signature.bind(*args, **kwargs)
            except TypeError as error:
                raise TypeError(f"{self._called}({', '.join(self._signature.parameters)}): {error}") from None

    def convert(self, args: list[Any], kwargs: dict[str, Any]) -> None:
        """Convert decoded arguments in place to what their annotations say; raises ValueError."""
        if not self._wanted:
            return
        for index, hint in self._positions:
            if index < len(args):
                args[index] = msgspec.convert(args[index], hint)
        for name in kwargs.keys() & self._wanted.keys():
            kwargs[name] = msgspec.convert(kwargs[name], self._wanted[name])


def _finite(value: Any) -> bool:
    if isinstance(value, float):
        return isfinite(value)
    if isinstance(value, dict):
        return all(map(_finite, value.values()))
    if isinstance(value, list | tuple):
        return all(map(_finite, value))
    return True


def _is_plain(hint: Any) -> bool:
    return any(hint is plain for plain in _PLAIN)


def type_hints(thing: Callable[..., Any]) -> dict[str, Any]:
    """What the parameters and the result of a function, or the attributes of a class, are annotated as."""
    try:
        return typing.get_type_hints(thing)
    except Exception:  # noqa: BLE001 - names that exist for type checkers only: then nothing is converted
        return {}
