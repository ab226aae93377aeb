"""Stores that check the fence of a grant, and refuse a holder whose lease has ended."""

from __future__ import annotations

from lockwork.fencing.register import Register, Written
from lockwork.fencing.sql import FencedTable

__all__ = ["FencedTable", "Register", "Written"]
