"""Locks and their kin: whatever an owner acquires, holds for a while, and releases."""

from __future__ import annotations

from lockwork.locks.grant import Grant, OnLost
from lockwork.locks.lock import Lock

__all__ = ["Grant", "Lock", "OnLost"]
