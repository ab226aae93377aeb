"""Stores that check the fence of a grant, and refuse a holder whose lease has ended."""

from __future__ import annotations

from lockwork.locks.fenced_register import Register, Written
from lockwork.contrib.fenced_sql import FencedTable

__all__ = ["FencedTable", "Register", "Written"]
