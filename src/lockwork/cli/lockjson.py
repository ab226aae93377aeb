"""Locks as scripts read them: one document, whose names and meanings are stable; times are in seconds."""

from __future__ import annotations

import json
from typing import Any

from lockwork.protocol.locks.deadlocks import Edge
from lockwork.protocol.locks.holders import Holder
from lockwork.protocol.locks.overview import LockSnapshot, Overview


def as_json(overview: Overview) -> str:
    """Locks, waits and deadlocks."""
    document = {
        "locks": [_lock(lock) for lock in overview.locks],
        "waits": [_edge(edge) for edge in overview.waits],
        "deadlocks": [
            {
                "members": list(deadlock.members),
                "cycle": [_edge(edge) for edge in deadlock.cycle],
                "text": str(deadlock),
            }
            for deadlock in overview.deadlocks
        ],
    }
    return json.dumps(document, indent=2)


def _lock(lock: LockSnapshot) -> dict[str, Any]:
    return {
        "kind": lock.kind,
        "name": lock.name,
        "capacity": None if lock.kind == "rwlock" else lock.capacity,
        "kept_for": lock.kept_for,
        "holders": [
            {
                **_who(held.holder),
                **_share(lock, held.units),
                "fence": held.fence,
                "expires_in": held.expires_in,
                "held_for": held.held_for,
            }
            for held in lock.holders
        ],
        "waiters": [
            {**_who(waiter.holder), **_share(lock, waiter.units), "waited": waiter.waited} for waiter in lock.line
        ],
        "more_holders": lock.more_holders,
        "more_waiters": lock.more_waiters,
    }


def _share(lock: LockSnapshot, units: int) -> dict[str, Any]:
    if lock.kind == "rwlock":
        return {"units": 1, "mode": "write" if units > 1 else "read"}
    return {"units": units, "mode": None}


def _who(holder: Holder) -> dict[str, Any]:
    return {
        "owner": holder.owner,
        "host": holder.host,
        "pid": holder.pid,
        "label": holder.label,
        "tags": list(holder.tags),
    }


def _edge(edge: Edge) -> dict[str, Any]:
    kind, _, name = edge.resource.partition(" ")
    return {"waiter": edge.waiter, "blocker": edge.blocker, "kind": kind, "name": name, "ahead": edge.ahead}
