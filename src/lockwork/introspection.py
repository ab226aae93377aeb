"""Where in the code a function or a class was defined: what has one name in an app must come from one definition."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

_PARTS = ("__code__", "__defaults__", "__kwdefaults__", "__closure__", "__self__")
"""What two functions made by the same lines can differ in."""


def shown(thing: object) -> str:
    """What people call it."""
    return f"{getattr(thing, '__module__', '?')}.{getattr(thing, '__qualname__', thing)}"


def inside(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function itself, of which partials give some arguments."""
    while isinstance(function, partial):
        function = function.func
    return function


def same_place(one: object, other: object) -> bool:
    """Whether both have the same name in the same file; one that is run and also imported is one file."""
    return _place(one) == _place(other)


def wants_self(function: Callable[..., Any]) -> bool:
    """Whether it is a function in a class's body that is called with an object of it."""
    body = getattr(function, "__qualname__", "").rpartition(".")[0]
    if not inspect.isfunction(function) or not body or body.endswith("<locals>"):
        return False
    return next(iter(inspect.signature(function).parameters), "") == "self"


def loading(function: Callable[..., Any]) -> object:
    """What is another one after the function's module was loaded again: asked just after the function was defined."""
    inner = inspect.unwrap(function)
    spec: object = getattr(inner, "__globals__", {}).get("__spec__")
    # a script and an interactive session have none: there, other code was typed anew
    return getattr(inner, "__code__", None) if spec is None else spec


def alike(new: Callable[..., Any], old: Callable[..., Any]) -> bool:
    """Whether they do the same: one function, or two that the same lines made of the same values."""
    one, other = inspect.unwrap(new), inspect.unwrap(old)
    try:
        return one == other or (
            hasattr(one, "__code__") and all(getattr(one, part, None) == getattr(other, part, None) for part in _PARTS)
        )
    except Exception:  # noqa: BLE001 - what a function encloses may refuse to be compared
        return False


def _place(thing: object) -> tuple[str, str]:
    module = str(getattr(thing, "__module__", "?"))
    file = getattr(sys.modules.get(module), "__file__", None)
    return str(file or module), str(getattr(thing, "__qualname__", thing))
