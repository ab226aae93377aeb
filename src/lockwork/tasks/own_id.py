"""The caller's own id of a job, as an option: text, or a template that is filled from a call's arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lockwork.errors import ConfigError
from lockwork.ids import own_id
from lockwork.naming import template

_WHAT = "a job's own id"


def own_id_option(text: object) -> str:
    """Check the option; raises ConfigError."""
    if template(text, _WHAT) is None:
        own_id(text)
    return str(text)


def own_ids(
    task: str, text: str, function: Callable[..., Any], injected: frozenset[str], *, unique: bool, replicas: int
) -> Callable[..., str]:
    """Return a function that makes the id of a call's job; raises ConfigError for options that exclude each other.

    injected: parameters that no call has. The function raises ConfigError if an argument cannot be part of an id.
    """
    if unique:
        raise ConfigError(
            f"task {task!r}: a unique job cannot have its own id: remove id=, or call task.options(unique=None, id=...)"
        )
    if replicas:
        raise ConfigError(f"task {task!r}: a job with its own id cannot wait for replicas: remove one of the options")
    parsed = template(text, _WHAT)
    if parsed is None:
        always = own_id(text)
        return lambda *_, **__: always
    builder = parsed.bind(function, injected)
    return lambda *args, **kwargs: own_id(builder(*args, **kwargs))
