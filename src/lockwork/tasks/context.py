"""What an app provides to all of its tasks: hooks, error types, overrides."""

from __future__ import annotations

from dataclasses import dataclass, field

from lockwork.failures import Errors
from lockwork.hooks import Hooks
from lockwork.injection import Overrides


@dataclass(frozen=True, slots=True)
class AppContext:
    """What the app has for all of its tasks."""

    hooks: Hooks = field(default_factory=Hooks)
    errors: Errors = field(default_factory=Errors)
    overrides: Overrides = field(default_factory=Overrides)
