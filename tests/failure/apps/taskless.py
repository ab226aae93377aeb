"""An app without tasks."""

from __future__ import annotations

from lockwork import Lockwork

lw = Lockwork()
