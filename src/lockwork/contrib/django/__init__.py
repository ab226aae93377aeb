"""Django: jobs of a project, its database connections and transactions, and `manage.py lockwork`.

Needs lockwork[django] and "lockwork.contrib.django" in INSTALLED_APPS. See docs/django.md.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lockwork.app.lockwork import Lockwork
    from lockwork.contrib.django.dashboard import with_dashboard
    from lockwork.contrib.django.rate_limits import limited

    lw: Lockwork
    """The project's app, made of the setting LOCKWORK at the first access; it connects on first use."""

__all__ = ["limited", "lw", "with_dashboard"]

_ELSEWHERE = {"limited": "rate_limits", "with_dashboard": "dashboard"}


def __getattr__(name: str) -> Any:
    # loaded when first used: Django imports this package before its settings are complete
    if name in _ELSEWHERE:
        return getattr(import_module(f"{__name__}.{_ELSEWHERE[name]}"), name)
    if name != "lw":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from lockwork.contrib.django.app import project_app  # noqa: PLC0415 - it reads the project's settings

    return project_app()
