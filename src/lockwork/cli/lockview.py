"""Locks as people and as scripts read them."""

from __future__ import annotations

import json
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from lockwork.protocol.deadlocks import Deadlock, Edge
from lockwork.protocol.holders import Holder
from lockwork.protocol.overview import LockSnapshot, Overview


def who(holder: Holder) -> str:
    """host/pid label [tags]: whom a person has to look for."""
    tags = f" [{','.join(holder.tags)}]" if holder.tags else ""
    return f"{holder.host}/{holder.pid} {holder.label}{tags}" if holder.host else f"{holder.owner}{tags}"


def show(overview: Overview, console: Console | None = None) -> None:
    """Print the table, who waits for whom, and the deadlocks."""
    out = console or Console(highlight=False)
    if not overview.locks:
        out.print("nobody holds or waits for a lock")
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("lock", "", "who", "since", "left", "fence"):
        table.add_column(title, overflow="fold", justify="right" if title in {"since", "left"} else "left")
    for lock in overview.locks:
        _rows(table, lock)
    out.print(table)
    if overview.waits:
        out.print("\nwho waits for whom", style="bold")
        for edge in overview.waits:
            reason = "is ahead in line for" if edge.ahead else "holds"
            out.print(Text(f"{_short(edge.waiter)} waits for {_short(edge.blocker)}, which {reason} {edge.resource}"))
    for deadlock in overview.deadlocks:
        out.print("\nDEADLOCK", style="bold red")
        out.print(Text(_named(deadlock)))


def _rows(table: Table, lock: LockSnapshot) -> None:
    title = Text(f"{lock.name}" if lock.kind == "lock" else f"{lock.kind} {lock.name}")
    for held in lock.holders:
        table.add_row(
            title, "holds" + _units(lock, held.units), Text(who(held.holder)), _time(held.held_for),
            _time(held.expires_in), str(held.fence),
        )  # fmt: skip
        title = Text("")
    if lock.kept_for:
        table.add_row(title, "kept", "", "", _time(lock.kept_for), "")
        title = Text("")
    for place, waiter in enumerate(lock.line, 1):
        table.add_row(
            title,
            f"{place}. waits" + _units(lock, waiter.units),
            Text(who(waiter.holder)),
            _time(waiter.waited),
            "",
            "",
        )
        title = Text("")
    for count, what in ((lock.more_holders, "holders"), (lock.more_waiters, "waiters")):
        if count:
            table.add_row("", "", f"up to {count} more {what}", "", "", "")


def _units(lock: LockSnapshot, units: int) -> str:
    if lock.kind == "rw":
        return " (write)" if units > 1 else " (read)"
    return f" {units}/{lock.capacity}" if lock.kind == "sem" else ""


def _time(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes} m {rest:02} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02} m"


def _short(owner: str) -> str:
    process, _, rest = owner.partition(":")
    return f"{process.rpartition('/')[0] or process} {rest.partition(':')[2] or rest}"


def _named(deadlock: Deadlock) -> str:
    text = str(deadlock)
    for owner in deadlock.members:
        text = text.replace(owner, _short(owner))
    return text


def as_json(overview: Overview) -> str:
    """One document, whose names are stable: locks, waits, deadlocks; times are in seconds."""
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
        "capacity": lock.capacity,
        "kept_for": lock.kept_for,
        "holders": [
            {
                **_holder(held.holder),
                "fence": held.fence,
                "units": held.units,
                "expires_in": held.expires_in,
                "held_for": held.held_for,
            }
            for held in lock.holders
        ],
        "waiters": [{**_holder(waiter.holder), "units": waiter.units, "waited": waiter.waited} for waiter in lock.line],
        "more_holders": lock.more_holders,
        "more_waiters": lock.more_waiters,
    }


def _holder(holder: Holder) -> dict[str, Any]:
    return {
        "owner": holder.owner,
        "host": holder.host,
        "pid": holder.pid,
        "label": holder.label,
        "tags": list(holder.tags),
    }


def _edge(edge: Edge) -> dict[str, Any]:
    return {"waiter": edge.waiter, "blocker": edge.blocker, "resource": edge.resource, "ahead": edge.ahead}
