"""The Django app: finds the tasks of all other apps, and registers the system checks."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from django.apps import AppConfig, apps
from django.conf import settings as django_settings
from django.core import checks
from django.utils.module_loading import import_string

from lockwork.contrib.django.settings import ProjectSettings
from lockwork.errors import ConfigError
from lockwork.failures import is_own
from lockwork.logs import Log

log: Log = Log("lockwork")

_TASKS = "tasks"


class LockworkConfig(AppConfig):
    """Imports the module `tasks` of each app."""

    name = "lockwork.contrib.django"
    label = "lockwork"

    def ready(self) -> None:
        """Import the tasks, so that every process of the project knows all of them."""
        from lockwork.contrib.django.checks import (  # noqa: PLC0415 - it needs the database backends
            TAG,
            check_server,
            check_settings,
        )

        checks.register(check_settings, TAG)
        checks.register(check_server, TAG, deploy=True)
        try:
            settings = ProjectSettings.read()
        except ConfigError:
            return  # the system check reports it, and so does the first use of the app
        if settings.dashboard_url is not None and apps.is_installed("django.contrib.admin"):
            from lockwork.contrib.django.admin_link import link_dashboard  # noqa: PLC0415 - the admin may be missing

            link_dashboard(settings.dashboard_url)
        for app in apps.get_app_configs():
            if app is not self:
                _import_tasks(app)
        if any(map(_is_ours, getattr(django_settings, "TASKS", {}).values())):
            from lockwork.contrib.django.tasks.registered import register_imported  # noqa: PLC0415 - needs Django 6

            register_imported()


def _is_ours(backend: Any) -> bool:
    """Return True for a backend of TASKS that is LockworkBackend, or a subclass."""
    try:
        kinds = import_string(backend["BACKEND"]).__mro__
    except (ImportError, LookupError, TypeError, AttributeError):
        return False  # Django says so at the first use
    return any(kind.__module__ == f"{LockworkConfig.name}.tasks.backend" for kind in kinds)


def _import_tasks(app: AppConfig) -> None:
    name = f"{app.name}.{_TASKS}"
    spec = find_spec(name) if getattr(app.module, "__path__", None) else None
    if spec is None:
        return
    try:
        import_module(name)
    except ImportError as error:
        if spec.origin is not None and is_own(spec.origin):
            raise
        # an app's module `tasks` may be written for another task queue, whose package is not installed
        log.info("%s has no tasks here: %s", name, error)
