"""System checks of the project's settings; none of them calls the server."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from django.apps import AppConfig
from django.core.checks import CheckMessage, Error
from django.core.checks import Warning as CheckWarning
from django.db import connections

from lockwork.contrib.django.app import project_app
from lockwork.contrib.django.settings import ProjectSettings
from lockwork.errors import ConfigError
from lockwork.runtime.connect import embedded_setting

TAG = "lockwork"
_BACKENDS_WITH_POOL = ("django.db.backends.postgresql", "django.db.backends.oracle")


def check_settings(app_configs: Sequence[AppConfig] | None, **options: Any) -> list[CheckMessage]:  # noqa: ARG001 - Django's signature
    """Check LOCKWORK, and the settings of DATABASES that its jobs depend on."""
    try:
        settings = ProjectSettings.read()
        tasks = project_app().registry
    except ConfigError as error:
        return [Error(str(error), id="lockwork.E001")]
    in_threads = any(not task.options_in_force.in_process for task in tasks.of(tasks.queues()))
    return [
        *(_persistent_connections() if in_threads else ()),
        *(_atomic_requests() if settings.on_commit is None else ()),
    ]


def check_server(app_configs: Sequence[AppConfig] | None, **options: Any) -> list[CheckMessage]:  # noqa: ARG001 - Django's signature
    """Check that a server is configured; part of `check --deploy`."""
    try:
        configured = ProjectSettings.read().has_server or embedded_setting()
    except ConfigError:
        return []  # `check_settings` or the first use of the app reports it
    if configured:
        return []
    return [
        CheckWarning(
            "No server is configured: each machine, container and user would start an embedded server, and never "
            "receive the jobs of the others.",
            hint='Set LOCKWORK_URL or "url" in LOCKWORK, and LOCKWORK_EMBEDDED=off; or LOCKWORK_EMBEDDED=on if one '
            "embedded server is intended.",
            id="lockwork.W004",
        )
    ]


def _persistent_connections() -> Iterator[CheckMessage]:
    for alias, database in connections.settings.items():
        pool = (database.get("OPTIONS") or {}).get("pool")
        if pool and database["CONN_MAX_AGE"] != 0:
            yield Error(
                f"The database {alias!r} has a pool and CONN_MAX_AGE: Django refuses to connect.",
                hint=f"Remove CONN_MAX_AGE of DATABASES[{alias!r}].",
                id="lockwork.E002",
            )
        elif pool and not database["CONN_HEALTH_CHECKS"]:
            yield CheckWarning(
                f"The database {alias!r} has a pool without CONN_HEALTH_CHECKS: after a restart of the database, jobs "
                "fail once for each connection of the pool.",
                hint=f"Set CONN_HEALTH_CHECKS of DATABASES[{alias!r}] to True.",
                id="lockwork.W003",
            )
        elif database["CONN_MAX_AGE"] != 0:
            can_pool = database["ENGINE"].startswith(_BACKENDS_WITH_POOL)
            instead = ' and use its OPTIONS={"pool": True}' if can_pool else ""
            yield CheckWarning(
                f"The database {alias!r} has CONN_MAX_AGE: each thread of a worker keeps its own connection, so a "
                "worker process may keep as many as its --concurrency.",
                hint=f"Set CONN_MAX_AGE of DATABASES[{alias!r}] to 0{instead}, at least for workers.",
                id="lockwork.W001",
            )


def _atomic_requests() -> Iterator[CheckMessage]:
    for alias, database in connections.settings.items():
        if database["ATOMIC_REQUESTS"]:
            yield CheckWarning(
                f"The database {alias!r} has ATOMIC_REQUESTS, and jobs that a view enqueues may run before its commit, "
                "or although it is rolled back.",
                hint='Set "on_commit" in LOCKWORK: True lets each enqueue wait for the commit; False hides this '
                "warning.",
                id="lockwork.W002",
            )
