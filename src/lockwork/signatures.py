"""The signature of a task function: checks calls, and converts decoded arguments to their annotated types."""

from __future__ import annotations

import contextlib
import inspect
import typing
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from typing import Any

import msgspec
import msgspec.inspect

from lockwork import type_hints
from lockwork.bases import base_of
from lockwork.codecs import convert, exact, has_offset, is_plain, shaped
from lockwork.errors import ConfigError
from lockwork.models import is_secret, is_secret_text, unrestorable
from lockwork.type_hints import Unread, classes_in

_NATIVE = (str, int, float, bool, list, dict, type(None), datetime, date, time, timedelta)
_SCALARS = (str, int, float, bool, type(None))
_MOMENTS = (datetime, time)
_BY_POSITION = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


class Signature:
    """The parameters and the result of a task function, read at registration; `without`: injected parameters.

    An annotation may use names that the module defines later. `complete`, or the first call, reads it again.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        without: frozenset[str] = frozenset(),
        task: str = "",
        *,
        hides_arguments: bool = False,
    ) -> None:
        whole = inspect.signature(function)
        parameters = [parameter for parameter in whole.parameters.values() if parameter.name not in without]
        self._signature = whole.replace(parameters=parameters)
        self._called = getattr(function, "__name__", "")
        self._task = task or self._called
        self._without = without
        self._hides_arguments = hides_arguments
        positional = [p for p in parameters if p.kind in _BY_POSITION]
        self._all_positional = len(positional) == len(parameters)
        self._least = sum(p.default is inspect.Parameter.empty for p in positional)
        self._most = len(positional)
        hints = type_hints.of_function(function)
        self.returns: Any = hints.get("return", Any)
        """The type of the result; Unread if it cannot be read yet."""
        self.result_may_change: Callable[[bytes], bool] | None = _may_change(self.returns)
        """Returns True if `codecs.exact` must prepare the result with this JSON; None if it never must."""
        self._hints: dict[str, Any] = {p.name: hints.get(p.name, Any) for p in parameters}
        self._arrange()

    def complete(self) -> None:
        """Read the annotations that could not be read at registration.

        Raises ConfigError for a parameter whose annotation still cannot be read, or can never be converted.
        """
        if isinstance(self.returns, Unread):
            with contextlib.suppress(Exception):
                self.result_may_change = _may_change(self.returns.read())
        if not self.incomplete:
            return
        for name in self.incomplete:
            hint = self._hints[name]
            try:
                annotation = hint.read() if isinstance(hint, Unread) else hint
                _check_read(annotation)
            except Exception as error:  # noqa: BLE001 - an annotation may be any expression
                raise ConfigError(
                    f"task {self._task!r}: the annotation of {name!r}, {_shown(hint)}, cannot be read: {error}; its "
                    "names must be importable at run time, not only for type checkers"
                ) from None
            self._hints[name] = annotation
        self._arrange()
        self.check_types(result=False)

    def check_types(self, *, result: bool) -> None:
        """Raise ConfigError for a type that can never be converted, or whose values would change on the way.

        A type that can never be converted is allowed for an argument with a default. `result`: the result is sent.
        """
        for name, hint in self._hints.items():
            why = _never(hint) or _unknown(hint) if name in self._required else ""
            why = why or _changing(hint, hides=self._hides_arguments)
            if why:
                raise ConfigError(
                    f"task {self._task!r}: the annotation of {name!r} cannot be used: {why}; correct it, or remove it"
                )
        why = _unknown(self.returns) or _changing(self.returns, hides=False) if result else ""
        if why:
            raise ConfigError(f"task {self._task!r}: its result cannot be sent: {why}; or set keep_result=False")

    @property
    def names(self) -> Collection[str]:
        """The parameters' names."""
        return self._signature.parameters.keys()

    @property
    def takes_any_name(self) -> bool:
        """True if the function has `**kwargs`."""
        return any(each.kind is each.VAR_KEYWORD for each in self._signature.parameters.values())

    @property
    def positions(self) -> list[str]:
        """The names of the parameters that accept a positional argument."""
        return [name for name, each in self._signature.parameters.items() if each.kind in _BY_POSITION]

    def described(self) -> list[str]:
        """Return the parameters as `def` has them, without types and defaults: "user", "subject=", "*rest", "/"."""
        texts: list[str] = []
        by_position = [each for each, p in self._signature.parameters.items() if p.kind is p.POSITIONAL_ONLY]
        signs: dict[Any, str] = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
        for parameter in self._signature.parameters.values():
            by_name = parameter.kind is inspect.Parameter.KEYWORD_ONLY
            if by_name and not any(each.startswith("*") for each in texts):
                texts.append("*")
            default = "" if parameter.default is inspect.Parameter.empty else "="
            texts.append(f"{signs.get(parameter.kind, '')}{parameter.name}{default}")
            if parameter.name in by_position[-1:]:
                texts.append("/")
        return texts

    def plain_defaults(self) -> dict[str, Any]:
        """Return the default values that JSON has, too, except lists and dicts."""
        parameters = self._signature.parameters.values()
        return {each.name: each.default for each in parameters if type(each.default) in _SCALARS}

    def bound(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> inspect.BoundArguments:
        """Return the arguments of a call by parameter, with defaults; raises TypeError if they do not fit."""
        arguments = self._signature.bind(*args, **kwargs)
        arguments.apply_defaults()
        return arguments

    def check(self, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
        """Raise TypeError, as the call itself would, if the arguments do not fit the signature.

        Raises ConfigError for annotations that cannot be read, unless the call has no arguments.
        """
        if kwargs and not self._without.isdisjoint(kwargs):
            name = min(self._without & kwargs.keys())
            raise TypeError(f"{name!r} is injected by the worker, so callers must not pass it")
        if kwargs or not self._simple or not self._least <= len(args) <= self._most:
            try:
                self._signature.bind(*args, **kwargs)
            except TypeError as error:
                raise TypeError(f"{self._called}({', '.join(self._signature.parameters)}): {error}") from None
            if self.incomplete and (args or kwargs):
                self.complete()

    def exact(self, args: Sequence[Any], kwargs: dict[str, Any], what: str) -> tuple[list[Any], dict[str, Any]]:
        """Return the arguments with each `datetime` as JSON keeps it; raises ConfigError as `codecs.exact`."""
        prepared, named = list(args), dict(kwargs)
        for at, value in enumerate(args):
            if self._dated_positions[at] if at < self._most else self._dated_rest:
                prepared[at] = exact(value, what, reveal=self._hides_arguments)
        for name, value in kwargs.items():
            if self._dated_names.get(name, self._dated_others):
                named[name] = exact(value, what, reveal=self._hides_arguments)
        return prepared, named

    def convert(self, args: list[Any], kwargs: dict[str, Any]) -> None:
        """Convert decoded arguments in place to the annotated types; raises ValueError, or ConfigError as `check`."""
        if self._plain:
            return
        if self.incomplete and (args or kwargs):
            self.complete()
        for index, hint in self._positions:
            if index < len(args):
                try:
                    args[index] = shaped(args[index], hint)
                except ValueError as error:
                    raise self._misfit(repr(self.positions[index]), hint, error) from error
        for index in range(self._most, len(args)):
            try:
                args[index] = convert(args[index], self._rest)
            except ValueError as error:
                raise self._misfit(f"number {index + 1}", self._rest, error) from error
        for name, value in kwargs.items():
            hint = self._named.get(name, self._others)
            try:
                kwargs[name] = convert(value, hint)
            except ValueError as error:
                raise self._misfit(repr(name), hint, error) from error

    def _misfit(self, argument: str, hint: Any, error: ValueError) -> ValueError:
        return ValueError(
            f"argument {argument} of task {self._task!r} does not fit {_shown(hint)} ({error}): enqueue the job again "
            "with a value of that type, or deploy a worker whose annotation accepts it"
        )

    def _arrange(self) -> None:
        """Sort the types into positional, keyword, `*args` and `**kwargs` arguments."""
        parameters, hints = self._signature.parameters.values(), dict(self._hints)
        self.incomplete: list[str] = [name for name, hint in hints.items() if not _is_read(hint)]
        """The parameters whose annotations cannot be read yet."""
        self._simple = self._all_positional and not self.incomplete
        positional = [p.name for p in parameters if p.kind in _BY_POSITION]
        self._positions = [(at, hints[name]) for at, name in enumerate(positional) if not is_plain(hints[name])]
        self._named = {p.name: hints[p.name] for p in parameters if p.kind in _BY_NAME}
        self._required = [
            p.name for p in parameters if p.default is inspect.Parameter.empty and p.kind in (*_BY_POSITION, *_BY_NAME)
        ]
        last = {p.kind: hints[p.name] for p in parameters}
        others = last.get(inspect.Parameter.VAR_KEYWORD, Any)
        if typing.get_origin(others) is typing.Unpack:
            self._named |= {name: _usable(hint) for name, hint in _described(others).items()}
        self._others = _usable(others)
        self._rest = _usable(last.get(inspect.Parameter.VAR_POSITIONAL, Any))
        named = (*self._named.values(), self._others, self._rest)
        self._plain = not self._positions and all(map(is_plain, named))
        self._dated_positions = [_has(_MOMENTS, hints[name]) for name in positional]
        self._dated_names = {name: _has(_MOMENTS, hint) for name, hint in self._named.items()}
        self._dated_rest, self._dated_others = _has(_MOMENTS, self._rest), _has(_MOMENTS, self._others)
        self.may_change: Callable[[bytes], bool] | None = _may_change(*hints.values(), *named)
        """Returns True if `exact` must prepare the arguments with this JSON; None if it never must."""


def _described(others: Any) -> dict[str, Any]:
    """Return the types of `**kwargs: Unpack[...]` by name."""
    (described,) = typing.get_args(others)
    return type_hints.of_class(typing.get_origin(described) or described)


def _shown(hint: Any) -> str:
    return hint.__name__ if isinstance(hint, type) else str(hint)


def _is_read(hint: Any) -> bool:
    """Return True if all names in the annotation, and in the classes that it names, are defined."""
    if isinstance(hint, Unread):
        return False
    try:
        _check_read(hint)
    except Exception:  # noqa: BLE001 - a name that is not defined yet, or never
        return False
    return True


def _check_read(hint: Any) -> None:
    """Raise an error, such as a NameError, if a name in the annotation is not defined; accepts a wrong type."""
    if is_plain(hint):
        return
    if typing.get_origin(hint) is typing.Unpack:
        for each in _described(hint).values():
            if isinstance(each, Unread):
                each.read()
        return
    try:
        kinds = list(_classes(msgspec.inspect.type_info(hint)))
    except (TypeError, ValueError):
        return  # `check_types` says why
    for kind in kinds:
        if getattr(kind, "__pydantic_complete__", True) is False:
            kind.model_rebuild()


def _usable(hint: Any) -> Any:
    """Return the annotation of `*args` or `**kwargs`; Any if no value can be converted to it, as with P.args."""
    return hint if isinstance(hint, Unread) or not _never(hint) else Any


def _never(hint: Any) -> str:
    """Return why no value can ever be converted to the type; empty if one might."""
    try:
        msgspec.json.Decoder(hint)
    except TypeError as error:
        return "" if isinstance(hint, Unread) else str(error)
    except Exception:  # noqa: BLE001 - a forward reference may be defined later
        return ""
    return ""


def _unknown(hint: Any) -> str:
    """Return why values of the type cannot be sent as JSON; empty if that is not certain."""
    if is_plain(hint) or isinstance(hint, Unread):
        return ""
    try:
        kinds = list(_classes(msgspec.inspect.type_info(hint)))
    except Exception:  # noqa: BLE001 - a forward reference may be defined later
        return ""
    for kind in kinds:
        is_exempt = (
            hasattr(kind, "model_validate")
            or is_secret_text(kind)
            or inspect.isabstract(kind)
            or getattr(kind, "_is_protocol", False)
        )
        if isinstance(kind, type) and not is_exempt and not any(issubclass(each, kind) for each in _NATIVE):
            base = base_of(kind)
            if base is not None:
                return f"a {kind.__qualname__} arrives as {base.__qualname__}: use that as the annotation"
            return (
                f"{kind.__qualname__} cannot be sent as JSON: use a dataclass, a msgspec.Struct, an attrs class or a "
                "Pydantic model, or send an id"
            )
    return ""


def _has(wanted: tuple[type, ...], hint: Any) -> bool:
    """Return True if values of the type may contain a wanted class. Fields of Pydantic models do not count.

    `models` prepares them.
    """
    kinds = classes_in(hint, in_models=False)
    return any(isinstance(kind, type) and issubclass(kind, wanted) for kind in kinds)


def _may_change(*hints: Any) -> Callable[[bytes], bool] | None:
    if any(_has(_MOMENTS[1:], hint) for hint in hints):
        return bool  # a time may have a zone, and no offset
    return has_offset if any(_has(_MOMENTS, hint) for hint in hints) else None


def _changing(hint: Any, *, hides: bool) -> str:
    """Return why values of the type would change on the way; empty if none is known."""
    for kind in classes_in(hint):
        if is_secret(kind) and not hides:
            return f"{kind.__name__} is a secret: set hide_arguments=True, or send a reference"
        for each in getattr(kind, "__attrs_attrs__", ()):
            if each.init and each.name.startswith("_"):
                return f"the private attribute {each.name} of {kind.__qualname__} is not sent: rename it"
        why = unrestorable(kind) if hasattr(kind, "model_fields") else ""
        if why:
            return why
    with contextlib.suppress(Exception):  # other checks name a type that msgspec cannot read
        for node in _nodes(msgspec.inspect.type_info(hint)):
            if isinstance(node, msgspec.inspect.DictType) and isinstance(node.key_type, msgspec.inspect.UnionType):
                kinds = {type(each) for each in node.key_type.types}
                if msgspec.inspect.StrType in kinds and len(kinds) > 1:
                    return "as keys of a dict in JSON, str and the other types are the same"
    return ""


def _classes(seen: Any) -> Iterator[Any]:
    """Yield the classes in a type that msgspec does not know."""
    return (node.cls for node in _nodes(seen) if isinstance(node, msgspec.inspect.CustomType))


def _nodes(seen: Any) -> Iterator[Any]:
    """Yield the types in a type, as msgspec describes them."""
    waiting, done = [seen], set()
    while waiting:
        one = waiting.pop()
        if id(one) in done:
            continue
        done.add(id(one))
        if isinstance(one, msgspec.Struct):
            yield one
            waiting += [getattr(one, name) for name in one.__struct_fields__]
        elif isinstance(one, tuple):
            waiting += one
