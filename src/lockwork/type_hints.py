"""The annotations of functions and classes as types. Each is read alone, so that one cannot hide the others."""

from __future__ import annotations

import inspect
import sys
import typing
from collections.abc import Callable, Collection, Iterable, Iterator
from enum import Enum
from types import SimpleNamespace
from typing import Any

from lockwork.introspection import inside
from lockwork.logs import Log

log: Log = Log("lockwork.tasks")

_EMPTY = inspect.Parameter.empty


class Unread:
    """An annotation with a name that is not defined yet: it may be later, or exist only for type checkers."""

    __slots__ = ("_read", "expression")

    def __init__(self, expression: str, read: Callable[[], Any]) -> None:
        self.expression: str = expression
        self._read = read

    def read(self) -> Any:
        """Return the type; raises the errors of its expression, such as a NameError."""
        return self._read()

    def then(self, change: Callable[[Any], Any]) -> Unread:
        """Return an annotation for a type that `change` derives from this one."""
        return Unread(self.expression, lambda: change(self._read()))

    def or_any(self, what: str) -> Any:
        """Return the type of `what`; if it cannot be read, Any, with one WARNING."""
        try:
            return self._read()
        except Exception as error:  # noqa: BLE001 - an annotation may be any expression
            warn_unread(what, self.expression, error)
            return Any

    def __repr__(self) -> str:
        return self.expression


_warned: set[tuple[str, str]] = set()


def warn_unread(what: str, expression: str, error: Exception) -> None:
    """Log that a value arrives as JSON, once for each annotation and reason."""
    reason = (expression, str(error))
    if reason not in _warned:
        _warned.add(reason)
        log.warning(
            "%s arrives as JSON: its annotation %s cannot be read (%s); its names must be importable at run time, not "
            "only for type checkers",
            what,
            *reason,
        )


def of_function(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the types of the annotated parameters and of "return"; Unread if a type cannot be read."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return {}  # some builtins have no signature that can be read
    hints = {name: each.annotation for name, each in signature.parameters.items()}
    hints["return"] = signature.return_annotation
    names, local = global_names(function), local_names(function)
    return {name: _read(each, names, local) for name, each in hints.items() if each is not _EMPTY}


def of_class(kind: type) -> dict[str, Any]:
    """Return the types of a class's annotated attributes; Unread if a type cannot be read."""
    hints: dict[str, Any] = {}
    for each in reversed(getattr(kind, "__mro__", (kind,))):
        names = vars(sys.modules.get(each.__module__, typing))
        for name, annotation in inspect.get_annotations(each).items():
            hints[name] = _read(annotation, names, dict(vars(each)))
    return hints


def evaluate(annotation: Any, names: dict[str, Any], local: dict[str, Any], *, extras: bool = False) -> Any:
    """Return an annotation's type, without Annotated unless `extras`; raises the errors of its expression."""
    if isinstance(annotation, Unread):
        return annotation.read()
    holder = SimpleNamespace(__annotations__={"it": annotation})
    return typing.get_type_hints(holder, globalns=names, localns=local, include_extras=extras)["it"]


def global_names(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the global names that a callable's annotations can use."""
    names: dict[str, Any] = getattr(_innermost(function), "__globals__", {})
    return names


def _read(annotation: Any, names: dict[str, Any], local: dict[str, Any]) -> Any:
    try:
        return evaluate(annotation, names, local)
    except Exception:  # noqa: BLE001 - an annotation may be any expression
        text = annotation if isinstance(annotation, str) else getattr(annotation, "__forward_arg__", repr(annotation))
        used = {name: value for name, value in local.items() if name in text}
        return Unread(text, lambda: evaluate(annotation, names, used))


def local_names(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the type parameters, and the names of the function that is running the definition of this one."""
    function = _innermost(function)
    type_parameters = {each.__name__: each for each in getattr(function, "__type_params__", ())}
    outer, separator, _ = getattr(function, "__qualname__", "").rpartition(".<locals>.")
    frame = inspect.currentframe() if separator else None
    while frame is not None:
        if frame.f_code.co_qualname == outer and frame.f_globals is getattr(function, "__globals__", None):
            return {**frame.f_locals, **type_parameters}
        frame = frame.f_back
    return type_parameters


def _innermost(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function inside nested partials, decorators and callable objects."""
    while True:
        inner: Callable[..., Any] = inspect.unwrap(inside(function))
        if inner is function:
            if inspect.isclass(inner):
                inner = inner.__init__
            elif not inspect.isroutine(inner):
                inner = type(inner).__call__
            if inner is function:
                return inner
        function = inner


def classes_in(hint: Any, *, in_models: bool = True) -> Iterator[Any]:
    """Yield the classes in a type, and in the fields of classes; Any and object, too, but nothing Unread.

    `in_models`: also the classes in the fields of Pydantic models.
    """
    waiting, done = [hint], set[Any]()
    while waiting:
        one = waiting.pop()
        if id(one) in done or isinstance(one, Unread):
            continue
        done.add(id(one))
        waiting += typing.get_args(one)
        waiting += [getattr(one, name) for name in ("__value__", "__supertype__", "__bound__") if hasattr(one, name)]
        kind = typing.get_origin(one) or one
        if kind is Any or isinstance(kind, type):
            yield kind
            waiting += _types_in(kind) if in_models or not hasattr(kind, "model_fields") else ()


def _types_in(kind: Any) -> Iterable[Any]:
    """Return the types of a class's fields."""
    fields = getattr(kind, "model_fields", None)
    if isinstance(fields, dict):
        own = serialized_fields(kind)
        return [field.annotation for name, field in fields.items() if name not in own]
    if kind.__module__ == "builtins" or issubclass(kind, Enum):
        return ()
    return of_class(kind).values()


def serialized_fields(model: Any) -> Collection[str]:
    """Return the fields of a Pydantic model that have a custom serializer."""
    decorators = getattr(model, "__pydantic_decorators__", None)
    if getattr(decorators, "model_serializers", None):
        return list(model.model_fields)
    names = {name for each in getattr(decorators, "field_serializers", {}).values() for name in each.info.fields}
    marked = (
        name
        for name, field in model.model_fields.items()
        if any(type(mark).__name__ in ("PlainSerializer", "WrapSerializer") for mark in field.metadata)
    )
    return {*names, *marked, *(model.model_fields if "*" in names else ())}
