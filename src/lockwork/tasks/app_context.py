"""Objects that an app provides to all its tasks."""

from __future__ import annotations

from msgspec import Struct, field

from lockwork.call_contexts import CallContexts
from lockwork.failures import Errors
from lockwork.hooks import Hooks
from lockwork.injection import Overrides
from lockwork.tasks.announcing import Announcing
from lockwork.tasks.middleware import Middlewares
from lockwork.tasks.on_commit import Commits


class AppContext(Struct, frozen=True):
    """Hooks, classes of errors, overridden dependencies, middlewares, and the announcements of producers.

    Integrations add context managers around calls, and transactions that jobs wait for.
    """

    hooks: Hooks = field(default_factory=Hooks)
    errors: Errors = field(default_factory=Errors)
    overrides: Overrides = field(default_factory=Overrides)
    middlewares: Middlewares = field(default_factory=Middlewares)
    announcing: Announcing = field(default_factory=Announcing)
    call_contexts: CallContexts = field(default_factory=CallContexts)
    commits: Commits = field(default_factory=Commits)
