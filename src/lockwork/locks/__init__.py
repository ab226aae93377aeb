"""Locks and similar objects that an owner acquires, holds and releases."""

from __future__ import annotations

from lockwork.locks.grant import Grant, OnLost
from lockwork.locks.lock import Lock

__all__ = ["Grant", "Lock", "OnLost"]
