"""The dashboard: an ASGI app that shows and controls queues, jobs, workers and locks. Needs `lockwork[dashboard]`."""

from __future__ import annotations

from lockwork.dashboard.access import User
from lockwork.dashboard.application import app
from lockwork.dashboard.redaction import Hidden

__all__ = ["Hidden", "User", "app"]
