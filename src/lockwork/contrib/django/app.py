"""Makes the project's app at its first use."""

from __future__ import annotations

import threading

import django
from django.apps import apps

from lockwork.app.lockwork import Lockwork
from lockwork.contrib.django.call_contexts import as_request, as_request_on_loop
from lockwork.contrib.django.settings import ProjectSettings
from lockwork.contrib.django.transactions import DjangoTransactions
from lockwork.errors import ConfigError

APP = "lockwork.contrib.django:lw"
"""The app as `lockwork worker` takes it."""
_NAME = "lockwork.contrib.django"
_making = threading.RLock()
_made: list[Lockwork] = []


def project_app() -> Lockwork:
    """Return the app of the project's settings; sets Django up first if no other code has. Raises ConfigError."""
    if not (apps.ready or apps.loading):
        django.setup()  # in a worker process; the models that this imports may use the app already
    if apps.ready and not apps.is_installed(_NAME):
        raise ConfigError(f"{_NAME!r} is missing in INSTALLED_APPS")
    with _making:
        if not _made:
            _made.append(_make(ProjectSettings.read()))
        return _made[0]


def _make(project: ProjectSettings) -> Lockwork:
    app = Lockwork(project.url, client=project.client, **project.app)
    context = app.registry.context
    context.call_contexts.add(as_request, as_request_on_loop)
    context.commits.register(DjangoTransactions(), project.on_commit or False)
    return app
