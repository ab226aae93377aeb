"""Arguments and results as bytes: JSON through msgspec, never pickle; sizes are capped before anything is sent."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from math import isfinite
from typing import Any

import msgspec
import msgspec.inspect

from lockwork.errors import ConfigError, PayloadTooLarge, ResultUnavailable
from lockwork.introspection import inside

_CHECKED = (int, str, float, bool, list, dict)
_NO_KEYS = (bool, type(None), tuple, frozenset)


def _sendable(value: Any) -> Any:
    """Turn a Pydantic model into JSON values; called for classes that msgspec does not know."""
    dump = getattr(value, "model_dump", None)
    if dump is None or isinstance(value, type):
        if type(value) in _NO_KEYS:  # msgspec supports them as values, not as keys
            raise TypeError("Only dicts with str-like or number-like keys are supported")
        raise TypeError(f"Encoding objects of type {type(value).__name__} is unsupported")
    return dump(mode="json", by_alias=True, round_trip=True)


def _restored(kind: Any, value: Any) -> Any:
    """Build a Pydantic model from JSON values."""
    if hasattr(kind, "model_validate_json"):
        return kind.model_validate_json(_encode(value))  # in a strict model, text is a date only if it comes from JSON
    if hasattr(kind, "model_validate"):
        return kind.model_validate(value)
    if isinstance(value, typing.get_origin(kind) or kind):
        return value
    raise TypeError(f"Expected `{getattr(kind, '__name__', kind)}`, got `{type(value).__name__}`")


_encode = msgspec.json.Encoder(enc_hook=_sendable).encode
_decode = msgspec.json.Decoder().decode
# JSON has only text as keys
_shaped = partial(msgspec.convert, str_keys=True, dec_hook=_restored)
# These survive JSON unchanged; any other annotation asks for a conversion.
_PLAIN = (int, str, float, bool, None, type(None), Any, object, list, dict, inspect.Parameter.empty)
_NATIVE = (str, int, float, bool, list, dict, type(None))
_BRACE = ord("{")
_BY_POSITION = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def encode(value: object, what: str, cap: int) -> bytes:
    """Encode `value`; raises ConfigError if JSON cannot hold it, PayloadTooLarge over `cap` bytes."""
    try:
        encoded = _encode(value)
        # the encoder writes NaN and infinity as null, and as keys by name
        odd = encoded.find(b"null") >= 0 or (
            _BRACE in encoded and (encoded.find(b'nan":') >= 0 or encoded.find(b'inf":') >= 0)
        )
        finite = not odd or _finite(msgspec.to_builtins(value, enc_hook=_sendable))
    except Exception as error:  # noqa: BLE001 - it may be nested too deeply, and its classes may fail in any way
        raise ConfigError(f"{what} cannot be sent as JSON: {error}") from None
    if not finite:
        raise ConfigError(f"{what} cannot be sent as JSON, which has no NaN and no infinity")
    if len(encoded) > cap:
        raise PayloadTooLarge(f"{what} would be {len(encoded)} bytes, and the limit is {cap}: send a reference instead")
    return encoded


def decode(encoded: bytes) -> Any:
    """Decode JSON; raises ValueError if it is malformed."""
    return _decode(encoded)


def convert(value: Any, wanted: Any) -> Any:
    """Convert decoded JSON to the annotated type; raises ValueError naming the path that does not fit."""
    if wanted in _PLAIN:
        return value
    return _shaped(value, wanted)


def result(encoded: bytes, wanted: Any, of: str) -> Any:
    """Decode a result as the function's annotation says; raises ResultUnavailable if it does not fit."""
    value = decode(encoded)
    try:
        if wanted in _CHECKED and not isinstance(value, wanted):
            return _shaped(value, wanted)  # it may be an int for a float
        return convert(value, wanted)
    except (ValueError, TypeError) as error:
        shown = wanted.__name__ if isinstance(wanted, type) else wanted
        raise ResultUnavailable(
            f"the result of {of} does not match its annotation {shown}: {error}; correct the annotation, or remove it"
        ) from None


class Signature:
    """The parameters and the result of a task function, read once at registration; `without`: injected parameters."""

    def __init__(self, function: Callable[..., Any], without: frozenset[str] = frozenset()) -> None:
        whole = inspect.signature(function)
        parameters = [parameter for parameter in whole.parameters.values() if parameter.name not in without]
        self._signature = whole.replace(parameters=parameters)
        self._called = getattr(function, "__name__", "")
        self._without = without
        positional = [p for p in parameters if p.kind in _BY_POSITION]
        self._simple = len(positional) == len(parameters)
        self._least = sum(p.default is inspect.Parameter.empty for p in positional)
        self._most = len(positional)
        hints = type_hints(function)
        self.returns: Any = hints.get("return", Any)
        self._positions = [
            (index, hints[p.name]) for index, p in enumerate(positional) if not _is_plain(hints.get(p.name, Any))
        ]
        self._named = {p.name: hints.get(p.name, Any) for p in parameters if p.kind in _BY_NAME}
        self._required = {
            p.name: hints.get(p.name, Any)
            for p in parameters
            if p.default is inspect.Parameter.empty and p.kind in (*_BY_POSITION, *_BY_NAME)
        }
        last = {p.kind: hints.get(p.name, Any) for p in parameters}
        others = last.get(inspect.Parameter.VAR_KEYWORD, Any)
        if typing.get_origin(others) is typing.Unpack:
            (described,) = typing.get_args(others)
            self._named |= {name: _usable(hint) for name, hint in type_hints(described).items()}
        self._others = _usable(others)
        self._rest = _usable(last.get(inspect.Parameter.VAR_POSITIONAL, Any))
        named = (*self._named.values(), self._others, self._rest)
        self._plain = not self._positions and all(map(_is_plain, named))

    def check_types(self, task: str, *, result: bool) -> None:
        """Raise ConfigError if a required argument, or the `result`, has a type that can never be converted."""
        for name, hint in self._required.items():
            why = _never(hint) or _unknown(hint)
            if why:
                raise ConfigError(
                    f"task {task!r}: the annotation of {name!r} cannot be used: {why}; correct it, or remove it"
                )
        why = _unknown(self.returns) if result else ""
        if why:
            raise ConfigError(f"task {task!r}: its result cannot be sent: {why}; or set keep_result=False")

    @property
    def names(self) -> Collection[str]:
        """The parameters' names."""
        return self._signature.parameters.keys()

    @property
    def positions(self) -> list[str]:
        """The names of the parameters that may be given by position."""
        return [name for name, each in self._signature.parameters.items() if each.kind in _BY_POSITION]

    def described(self) -> list[str]:
        """Return the parameters as `def` has them, without types and defaults: "user", "subject=", "*rest"."""
        found: list[str] = []
        signs: dict[Any, str] = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
        for parameter in self._signature.parameters.values():
            by_name = parameter.kind is inspect.Parameter.KEYWORD_ONLY
            if by_name and not any(each.startswith("*") for each in found):
                found.append("*")
            default = "" if parameter.default is inspect.Parameter.empty else "="
            found.append(f"{signs.get(parameter.kind, '')}{parameter.name}{default}")
        return found

    def check(self, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
        """Raise TypeError, as the call itself would, if the arguments do not fit the signature."""
        if kwargs and not self._without.isdisjoint(kwargs):
            name = min(self._without & kwargs.keys())
            raise TypeError(f"{name!r} is injected by the worker, so callers must not pass it")
        if kwargs or not self._simple or not self._least <= len(args) <= self._most:
            try:
                self._signature.bind(*args, **kwargs)
            except TypeError as error:
                raise TypeError(f"{self._called}({', '.join(self._signature.parameters)}): {error}") from None

    def convert(self, args: list[Any], kwargs: dict[str, Any]) -> None:
        """Convert decoded arguments in place to the annotated types; raises ValueError."""
        if self._plain:
            return
        for index, hint in self._positions:
            if index < len(args):
                args[index] = _shaped(args[index], hint)
        for index in range(self._most, len(args)):
            args[index] = convert(args[index], self._rest)
        for name, value in kwargs.items():
            kwargs[name] = convert(value, self._named.get(name, self._others))


def _finite(value: Any) -> bool:
    if isinstance(value, float):
        return isfinite(value)
    if isinstance(value, dict):
        return all(map(_finite, value)) and all(map(_finite, value.values()))
    if isinstance(value, list | tuple):
        return all(map(_finite, value))
    return True


def _is_plain(hint: Any) -> bool:
    return any(hint is plain for plain in _PLAIN)


def _usable(hint: Any) -> Any:
    """The annotation of `*args` or `**kwargs`; Any if nothing can be converted to it, as with P.args."""
    return Any if _never(hint) else hint


def _never(hint: Any) -> str:
    """Return why no value can ever be converted to the type; empty if one might."""
    try:
        msgspec.json.Decoder(hint)
    except TypeError as error:
        return str(error)
    except Exception:  # noqa: BLE001 - a forward reference may be defined later
        return ""
    return ""


def _unknown(hint: Any) -> str:
    """Return why values of the type cannot be sent as JSON; empty if that is not certain."""
    if _is_plain(hint):
        return ""
    try:
        kinds = list(_classes(msgspec.inspect.type_info(hint)))
    except Exception:  # noqa: BLE001 - a forward reference may be defined later
        return ""
    for kind in kinds:
        known = hasattr(kind, "model_validate") or inspect.isabstract(kind) or getattr(kind, "_is_protocol", False)
        if isinstance(kind, type) and not known and not any(issubclass(each, kind) for each in _NATIVE):
            return (
                f"{kind.__qualname__} cannot be sent as JSON: use a dataclass, a msgspec.Struct, an attrs class or a "
                "Pydantic model, or send an id"
            )
    return ""


def _classes(seen: Any) -> Iterator[Any]:
    """Yield the classes in a type that msgspec does not know."""
    waiting, done = [seen], set()
    while waiting:
        one = waiting.pop()
        if id(one) in done:
            continue
        done.add(id(one))
        if isinstance(one, msgspec.inspect.CustomType):
            yield one.cls
        elif isinstance(one, msgspec.Struct):
            waiting += [getattr(one, name) for name in one.__struct_fields__]
        elif isinstance(one, tuple):
            waiting += one


def type_hints(thing: Callable[..., Any]) -> dict[str, Any]:
    """The annotations of a function's parameters and result, or of a class's attributes."""
    try:
        return typing.get_type_hints(inside(thing))
    except Exception:  # noqa: BLE001 - names that only type checkers see: nothing is converted
        return {}
