"""Typed dependency injection for task functions: `Annotated[Db, Depends(get_db)]`."""

from __future__ import annotations

from lockwork.injection.depends import INJECTED, Depends, Overrides
from lockwork.injection.plan import Injection
from lockwork.injection.scopes import WorkerScope

__all__ = ["INJECTED", "Depends", "Injection", "Overrides", "WorkerScope"]
