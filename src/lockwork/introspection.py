"""Finds the definition of a function or class: one name in an app must come from one definition."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any

_PARTS = ("__code__", "__defaults__", "__kwdefaults__", "__closure__", "__self__")
"""Attributes that can differ between two functions from the same source lines."""


def calling_module(inside: str) -> str:
    """Return the name of the module that called into the modules whose names begin with `inside`."""
    frame = sys._getframe(1)  # noqa: SLF001 - as namedtuple does, for the same purpose
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(inside):
        frame = frame.f_back
    name: str = frame.f_globals.get("__name__", "")
    return name


def shown(thing: object) -> str:
    """Return the qualified name, for messages."""
    return f"{getattr(thing, '__module__', '?')}.{getattr(thing, '__qualname__', thing)}"


def inside(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function inside nested partials."""
    while isinstance(function, partial):
        function = function.func
    return function


def same_place(one: object, other: object) -> bool:
    """Return True for the same name in the same file; a file that runs as a script and is imported counts once."""
    return _place(one) == _place(other)


def wants_self(function: Callable[..., Any]) -> bool:
    """Return True for a method: a function in a class body whose first parameter is `self`."""
    body = getattr(function, "__qualname__", "").rpartition(".")[0]
    if not inspect.isfunction(function) or not body or body.endswith("<locals>"):
        return False
    return next(iter(inspect.signature(function).parameters), "") == "self"


def loading(function: Callable[..., Any]) -> object | None:
    """Return a token of the run of source code that defines a function; call it at the definition. None: unknown.

    A reloaded module, a script that runs again, a notebook cell and a line at a prompt each have a new token.
    """
    inner = inspect.unwrap(function)
    names: dict[str, Any] = getattr(inner, "__globals__", {})
    spec: object = names.get("__spec__")
    # a prompt may have the spec of the module that started it, as in `python -m asyncio`
    if spec is not None and getattr(spec, "origin", None) == inner.__code__.co_filename:
        return spec
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - as in `calling_module`
    while frame is not None:
        if frame.f_globals is names and frame.f_code.co_name == "<module>":
            return frame.f_code
        frame = frame.f_back
    return None


def alike(new: Callable[..., Any], old: Callable[..., Any]) -> bool:
    """Return True for the same function, and for two functions from the same source lines with the same values."""
    one, other = inspect.unwrap(new), inspect.unwrap(old)
    try:
        return one == other or (
            hasattr(one, "__code__") and all(getattr(one, part, None) == getattr(other, part, None) for part in _PARTS)
        )
    except Exception:  # noqa: BLE001 - values in closures may not be comparable
        return False


def _place(thing: object) -> tuple[str, str]:
    module = str(getattr(thing, "__module__", "?"))
    file = getattr(sys.modules.get(module), "__file__", None)
    return str(file or module), str(getattr(thing, "__qualname__", thing))


def during_import(package: str) -> bool:
    """Return True if the caller outside of `package` is the code of a module, or runs while a module is imported."""
    frame = sys._getframe(1)  # noqa: SLF001 - documented
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(package):
        frame = frame.f_back
    if frame.f_code.co_name == "<module>":
        return True
    caller: FrameType | None = frame
    while caller is not None:
        if caller.f_globals.get("__name__") == "importlib._bootstrap":
            return True
        caller = caller.f_back
    return False
