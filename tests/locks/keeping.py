"""Time limit of the tests of sticky locks."""

from __future__ import annotations

SOON = 5.0
"""Seconds within which a requested sticky lock is released; the leases in these tests are much longer."""
