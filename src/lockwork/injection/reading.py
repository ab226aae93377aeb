"""Finds the injected parameters of functions."""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Callable
from typing import Annotated, Any

from lockwork.errors import ConfigError
from lockwork.injection.depends import Depends, named
from lockwork.type_hints import evaluate, global_names, local_names

_BY_KEYWORD = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def dependencies(function: Callable[..., Any]) -> dict[str, Depends]:
    """Return the injected parameters; raises ConfigError for a parameter that cannot be injected."""
    marks: dict[str, Depends] = {}
    bound_keywords = function.keywords if isinstance(function, functools.partial) else {}
    for parameter in _parameters(function):
        depends = _depends(function, parameter)
        if depends is None or parameter.name in bound_keywords:
            continue
        if parameter.kind not in _BY_KEYWORD:
            raise ConfigError(
                f"parameter {parameter.name!r} of {named(function)} cannot be injected: it takes no keyword"
            )
        marks[parameter.name] = depends
    return marks


def check_provider(provider: Callable[..., Any], injected: dict[str, Depends]) -> None:
    """Raise ConfigError for a provider with a parameter that is neither injected nor optional."""
    for parameter in _parameters(provider):
        optional = parameter.default is not inspect.Parameter.empty
        variable = parameter.kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        if parameter.name not in injected and not optional and not variable:
            raise ConfigError(
                f"provider {named(provider)} has a parameter {parameter.name!r} without a value: "
                "write it as Annotated[..., Depends(...)], or give it a default"
            )


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    try:
        return list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return []  # some builtins have no signature that can be read


def _depends(function: Callable[..., Any], parameter: inspect.Parameter) -> Depends | None:
    annotation = parameter.annotation
    if isinstance(annotation, str):
        try:
            annotation = evaluate(annotation, global_names(function), local_names(function), extras=True)
        except Exception as error:  # noqa: BLE001 - an annotation may be any expression
            if "Depends" in annotation or "Annotated" in annotation:
                raise ConfigError(
                    f"the annotation of parameter {parameter.name!r} of {named(function)}, {annotation}, cannot be "
                    f"read: {error}; its names must be importable at run time, not only for type checkers"
                ) from None
            return None  # a name for type checkers only
    annotation = getattr(annotation, "__value__", annotation)  # `type Alias = ...`
    if typing.get_origin(annotation) is Annotated:
        marks = [mark for mark in annotation.__metadata__ if _is_mark(mark)]
        if len(marks) == 1 and isinstance(marks[0], Depends):
            return marks[0]
        if marks:
            raise ConfigError(
                f"parameter {parameter.name!r} of {named(function)} needs one Depends(provider), not {marks!r}"
            )
    if _hidden(annotation):
        raise ConfigError(
            f"parameter {parameter.name!r} of {named(function)} has its Depends inside another type: write "
            "Annotated[TYPE, Depends(...)] around the whole type"
        )
    return None


def _is_mark(mark: object) -> bool:
    return mark is Depends or isinstance(mark, Depends)


def _hidden(annotation: Any) -> bool:
    if any(_is_mark(mark) for mark in getattr(annotation, "__metadata__", ())):
        return True
    return any(_hidden(part) for part in typing.get_args(annotation) if not isinstance(part, str))
