"""The embedded server: a real Valkey without set-up, private to a process or shared by all processes of a user."""

from __future__ import annotations

from lockwork.runtime.embedded.places import Embedded, open_shared, start_private

__all__ = ["Embedded", "open_shared", "start_private"]
