"""How soon a sticky lock is given back: what its tests share."""

from __future__ import annotations

SOON = 5.0
"""Seconds within which a kept lock is given back, asked once or twice; the leases here are much longer."""
