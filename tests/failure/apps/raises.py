"""A module that cannot be imported."""

from __future__ import annotations

from lockwork import Lockwork

lw = Lockwork()
raise RuntimeError("the database of the app is away")
