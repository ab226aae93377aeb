"""A link to the dashboard among the apps of Django's admin."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.contrib.admin import site


class _Apps:
    """The list of apps, with the dashboard at its end."""

    def __init__(self, listed: Callable[..., list[Any]], url: str) -> None:
        self.listed = listed
        self._url = url

    def __call__(self, request: Any, app_label: str | None = None) -> list[Any]:
        apps = self.listed(request, app_label)
        if app_label is None and site.has_permission(request):
            apps.append(self._entry())
        return apps

    def _entry(self) -> dict[str, Any]:
        model = {
            "model": None,
            "name": "Dashboard",
            "object_name": "Dashboard",
            "perms": {"add": False, "change": False, "delete": False, "view": True},
            "admin_url": self._url,
            "add_url": None,
            "view_only": True,
        }
        return {
            "name": "Lockwork",
            "app_label": "lockwork",
            "app_url": self._url,
            "has_module_perms": True,
            "models": [model],
        }


def link_dashboard(url: str) -> None:
    """Show a link on the pages of the default admin site; a later call replaces it."""
    listed: Any = site.get_app_list
    site.get_app_list = _Apps(listed.listed if isinstance(listed, _Apps) else listed, url)  # type: ignore[method-assign]
