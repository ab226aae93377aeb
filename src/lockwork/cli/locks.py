"""`lockwork locks`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import click
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from lockwork import words
from lockwork.app.lockwork import Lockwork
from lockwork.cli.action_group import ActionGroup
from lockwork.cli.completion import lock_names
from lockwork.cli.options import connected, names_the_app, yes_option
from lockwork.cli.report import Output, Report, reports
from lockwork.cli.text import EMPTY, STYLES, printable
from lockwork.inspection.lock_owners import OwnerNames, owner_name
from lockwork.protocol.locks.deadlocks import Edge
from lockwork.protocol.locks.overview import Holder, LockSnapshot, Overview, literal
from lockwork.protocol.names import display, shown, typed
from lockwork.protocol.slots import queue_of
from lockwork.suggestions import closest

_WIDE = 100
"""The least width of a terminal that shows a grant in one row."""
_Row = tuple[str, str, str, str, str]


def who(holder: Holder) -> str:
    """Return the name of a holder or waiter with its tags."""
    return _who(holder, owner_name(holder))


def report(overview: Overview, pattern: str = "") -> Report:
    """Return the table, the waiters, and the deadlocks; `pattern` selects the locks."""
    return Report(_document(overview), list(_body(overview, pattern)))


def _body(overview: Overview, pattern: str) -> Iterator[RenderableType]:
    if not overview.locks:
        yield f"no lock{f' matching {printable(pattern)}' if pattern else ''} is held or waited for"
        return
    names = OwnerNames(overview)
    yield _Table(overview, names)
    if overview.waits:
        yield Text("\nwho waits for whom", style="bold")
        yield from map(Text, _waits(overview.waits, names))
    for deadlock in overview.deadlocks:
        yield Text("\nDEADLOCK", style=f"bold {STYLES['dead']}")
        yield Text(printable(deadlock.named(names)))
        if others := sorted(set(deadlock.members) - {edge.waiter for edge in deadlock.cycle}):
            yield Text(f"also involved: {', '.join(map(names, others))}")


class _Table:
    """The locks: a row for each holder and waiter, or a few lines on a narrow terminal."""

    def __init__(self, overview: Overview, names: OwnerNames) -> None:
        self._overview = overview
        self._names = names

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if options.max_width >= _WIDE:
            yield _wide(self._overview, self._names)
        else:
            yield from _narrow(self._overview, self._names)


def _wide(overview: Overview, names: OwnerNames) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("lock", overflow="fold")
    table.add_column("", no_wrap=True)
    table.add_column("who", overflow="fold")
    for title in ("since", "left"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("fence", no_wrap=True)
    for lock in overview.locks:
        title = _title(lock)
        for state, *rest in _rows(lock, names):
            table.add_row(Text(title), state, *map(Text, rest))
            title = ""
    return table


def _narrow(overview: Overview, names: OwnerNames) -> Iterator[RenderableType]:
    for lock in overview.locks:
        yield Text(_title(lock), style="bold")
        table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 1))
        table.add_column(min_width=9, overflow="fold")
        table.add_column(overflow="fold")
        for state, name, since, remaining, fence in _rows(lock, names):
            times = ", ".join(filter(None, (f"for {since}" if since else "", f"{remaining} left" if remaining else "")))
            details = [each for each in (name, times, f"fence {fence}" if fence else "") if each]
            table.add_row(f"  {state}", Text("\n".join(details)))
        yield table


def _rows(lock: LockSnapshot, names: OwnerNames) -> Iterator[_Row]:
    """Return a row for each holder and waiter: state, name, age, remaining lease, fence."""
    for held in lock.holders:
        name = _who(held.holder, names(held.holder.owner))
        state = "holds" + _units(lock, held.units)
        yield state, name, words.age(held.held_for), words.time_left(held.expires_in), str(held.fence)
    if lock.kept_for:
        yield "kept", "free after its minimum time", "", words.time_left(lock.kept_for), ""
    if lock.more_holders:
        yield "", f"up to {lock.more_holders} more holders", "", "", ""
    for place, waiter in enumerate(lock.line, 1):
        name = _who(waiter.holder, names(waiter.holder.owner))
        yield f"{place}. waits" + _units(lock, waiter.units), name, words.age(waiter.waited), "", ""
    if lock.more_waiters:
        yield "", f"up to {lock.more_waiters} more waiters", "", "", ""


def _waits(edges: tuple[Edge, ...], names: OwnerNames) -> Iterator[str]:
    """Return a line for each waiter and lock: the waiters before it, and the holders."""
    places: defaultdict[tuple[str, str], list[Edge]] = defaultdict(list)
    for edge in edges:
        places[edge.waiter, edge.resource].append(edge)
    for (waiter, resource), reasons in places.items():
        holders = [names(edge.blocker) for edge in reasons if not edge.ahead]
        visible = holders if len(holders) <= 3 else [*holders[:2], f"{len(holders) - 2} others"]
        why = [f"held by {', '.join(visible)}"] if visible else []
        why += [f"behind {names(edge.blocker)}" for edge in reasons if edge.ahead]
        yield printable(f"{names(waiter)} waits for {resource}, {', '.join(why)}")


def _title(lock: LockSnapshot) -> str:
    return printable(lock.name or EMPTY if lock.kind == "lock" else f"{lock.kind} {lock.name}")


def _units(lock: LockSnapshot, units: int) -> str:
    if lock.kind == "rwlock":
        return " (write)" if units > 1 else " (read)"
    return f" {units}/{lock.capacity}" if lock.kind == "semaphore" else ""


def _who(holder: Holder, name: str) -> str:
    return printable(f"{name} [{','.join(holder.tags)}]" if holder.tags else name)


def _document(overview: Overview) -> dict[str, Any]:
    return {
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


def _lock(lock: LockSnapshot) -> dict[str, Any]:
    return {
        "kind": lock.kind,
        "name": lock.name,
        "capacity": None if lock.kind == "rwlock" else lock.capacity,
        "kept_for": lock.kept_for,
        "holders": [
            {
                **_holder_json(held.holder),
                **_share(lock, held.units),
                "fence": held.fence,
                "expires_in": held.expires_in,
                "held_for": held.held_for,
            }
            for held in lock.holders
        ],
        "waiters": [
            {**_holder_json(waiter.holder), **_share(lock, waiter.units), "waited": waiter.waited}
            for waiter in lock.line
        ],
        "more_holders": lock.more_holders,
        "more_waiters": lock.more_waiters,
    }


def _share(lock: LockSnapshot, units: int) -> dict[str, Any]:
    if lock.kind == "rwlock":
        return {"units": 1, "mode": "write" if units > 1 else "read"}
    return {"units": units, "mode": None}


def _holder_json(holder: Holder) -> dict[str, Any]:
    return {
        "owner": holder.owner,
        "host": holder.host,
        "pid": holder.pid,
        "label": holder.label,
        "tags": list(holder.tags),
        "job": holder.job,
        "task": holder.task,
    }


def _edge(edge: Edge) -> dict[str, Any]:
    kind, _, name = edge.resource.partition(" ")
    return {"waiter": edge.waiter, "blocker": edge.blocker, "kind": kind, "name": name, "ahead": edge.ahead}


locks: ActionGroup = ActionGroup(
    "locks",
    default="show",
    help="""Show all locks that are held or waited for, with their holders, waiters and deadlocks; release a lock.

    A lock appears once it has been held or waited for longer than a second; with its whole name, at once.
    """,
)


@locks.command(
    "show",
    examples={
        "lockwork locks": "Every lock with its holders and waiters.",
        "lockwork locks 'order:*' --watch 1": "Locks whose names match, every second.",
    },
)
@click.argument("pattern", required=False, metavar="[NAME-PATTERN]", shell_complete=lock_names)
@reports
@names_the_app
def _show(*, pattern: str | None, output: Output, url: str | None, prefix: str) -> None:
    """Show all locks, or the locks whose names match."""
    with connected(url, prefix) as lw:
        output.show(lambda: report(lw.locks() if pattern is None else lw.locks(pattern), pattern or ""))


@locks.command("release", examples={"lockwork locks release order:42": "Release a lock by force, after a question."})
@click.argument("name", shell_complete=lock_names)
@yes_option
@names_the_app
def _release(*, name: str, yes: bool, url: str | None, prefix: str) -> None:
    """Release a lock by force; the next waiter gets it."""
    with connected(url, prefix) as lw:
        _release_all(lw, name, yes=yes)


def _release_all(lw: Lockwork, name: str, *, yes: bool) -> None:
    name = display(typed(name))
    held = _held(lw, name)
    if not held:
        close = closest(name, {lock.name for lock in lw.locks().locks if lock.holders})
        hint = f": did you mean {printable(close)}?" if close else ""
        click.echo(f"nobody holds {name!r}{hint}")
    for kind, lock in held.items():
        if kind == "quorum":
            click.echo(f"quorum {name!r}: only its holder can release it, on all its servers", err=True)
            continue
        holders = ", ".join(who(each.holder) for each in lock.holders)
        if lock.more_holders:
            holders += f" and up to {lock.more_holders} more"
        if not yes and not click.confirm(f"{kind} {name!r} is held by {holders}. Release it?", err=True):
            continue
        if not yes and not _fences(_held(lw, name).get(kind)) <= _fences(lock):
            raise click.ClickException(f"{kind} {name!r} has another holder now: nothing was released")
        click.echo(f"{kind} {name!r}: {_force(lw, lock)} released")


def _held(lw: Lockwork, name: str) -> dict[str, LockSnapshot]:
    return {lock.kind: lock for lock in lw.locks(literal(name)).locks if lock.holders}


def _fences(lock: LockSnapshot | None) -> set[int]:
    return set() if lock is None else {held.fence for held in lock.holders}


def _force(lw: Lockwork, lock: LockSnapshot) -> int:
    if lock.kind == "lock":
        return int(lw.lock(typed(lock.name)).force_release())
    if lock.kind == "queuelock":
        # the name is ambiguous: a slash may belong to a partition, or to the lock's name, or separate the two
        queue, _, name = lock.key.partition("{q:")[2].partition("}:lock:")
        return int(lw.queue(queue_of(queue)).lock(typed(shown(name))).force_release())
    if lock.kind == "rwlock":
        return lw.rwlock(typed(lock.name)).force_release()
    return lw.semaphore(typed(lock.name), max(1, lock.capacity)).force_release()
