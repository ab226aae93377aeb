"""The setting LOCKWORK of a project: a dict with the arguments of `Lockwork`, and options of this integration."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from django.conf import ENVIRONMENT_VARIABLE, settings
from msgspec import Struct

from lockwork.config import Config, Settings, check_names
from lockwork.contrib.django.transactions import DjangoTransactions
from lockwork.errors import ConfigError
from lockwork.runtime.connect import opener


class LockworkSetting(Settings, total=False):
    """The keys of LOCKWORK."""

    url: str | None
    client: object
    on_commit: bool | str
    """Whether an enqueue inside `transaction.atomic()` waits for the commit, or the alias of a database."""
    dashboard_url: str
    """Where the admin links to the dashboard."""


_OWN = ("url", "client", "on_commit", "dashboard_url")


class ProjectSettings(Struct, frozen=True):
    """Checked settings of a project."""

    url: str | None
    client: object
    on_commit: bool | str | None
    """None: not set."""
    dashboard_url: str | None
    app: Settings
    """The other arguments of `Lockwork`."""

    @classmethod
    def read(cls) -> ProjectSettings:
        """Read the setting; raises ConfigError."""
        setting: Any = getattr(settings, "LOCKWORK", {})
        try:
            if not isinstance(setting, Mapping):
                raise ConfigError(f"it must be a dict, not {setting!r:.60}")
            check_names(setting, LockworkSetting, "there is no key")
            return cls._checked(setting)
        except ConfigError as error:
            raise ConfigError(f"the setting LOCKWORK is wrong: {error}") from None

    @classmethod
    def _checked(cls, given: Mapping[str, Any]) -> ProjectSettings:
        on_commit = given.get("on_commit")
        if not (on_commit is None or isinstance(on_commit, bool) or (isinstance(on_commit, str) and on_commit)):
            raise ConfigError(f"on_commit must be True, False or the alias of a database, not {on_commit!r:.60}")
        if on_commit:
            DjangoTransactions().check(on_commit)
        dashboard_url = given.get("dashboard_url")
        if not (dashboard_url is None or isinstance(dashboard_url, str)):
            raise ConfigError(f"dashboard_url must be text, not {dashboard_url!r:.60}")
        app: Any = {name: value for name, value in given.items() if name not in _OWN}
        app.setdefault("app_name", _project_name())
        Config.read(app)
        opener(given.get("url"), given.get("client"))
        return cls(given.get("url"), given.get("client"), on_commit, dashboard_url, app)

    @property
    def has_server(self) -> bool:
        """True if the setting or LOCKWORK_URL names a server."""
        return self.url is not None or self.client is not None or bool(os.environ.get("LOCKWORK_URL"))

    @property
    def prefix(self) -> str:
        """The first part of the app's keys."""
        return Config.read(self.app).prefix


def _project_name() -> str | None:
    """Return the package of the project's settings: two projects on one server need different names."""
    module = os.environ.get(ENVIRONMENT_VARIABLE)
    return module.partition(".")[0] if module else None
