"""`lockwork locks`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from difflib import get_close_matches
from typing import Any

import click
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from lockwork.app.lockwork import Lockwork
from lockwork.cli.completion import lock_names, words_of
from lockwork.cli.help import Command
from lockwork.cli.names import action_hint
from lockwork.cli.options import connected, names_the_app
from lockwork.cli.report import Output, Report, reports
from lockwork.cli.text import STYLES, lasting, printable, time_left
from lockwork.protocol.locks.deadlocks import Edge
from lockwork.protocol.locks.overview import Holder, LockSnapshot, Overview, literal, read
from lockwork.protocol.slots import queue_of

_WIDE = 100
"""Columns of a terminal from which on everything about a grant stands in one row."""
_Row = tuple[str, str, str, str, str]


def who(holder: Holder) -> str:
    """host/pid label [tags]: whom a person has to look for."""
    return _who(holder, _short(holder.owner))


def report(overview: Overview, pattern: str = "") -> Report:
    """Return the table, the waiters, and the deadlocks; `pattern` is what was asked for."""
    return Report(_document(overview), list(_body(overview, pattern)))


def _body(overview: Overview, pattern: str) -> Iterator[RenderableType]:
    if not overview.locks:
        yield f"no lock{f' matching {printable(pattern)}' if pattern else ''} is held or waited for"
        return
    names = _Names(overview)
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
    """The locks: one row each for what happens to them, or, on a narrow terminal, a few lines."""

    def __init__(self, overview: Overview, names: _Names) -> None:
        self._overview = overview
        self._names = names

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if options.max_width >= _WIDE:
            yield _wide(self._overview, self._names)
        else:
            yield from _narrow(self._overview, self._names)


class _Names:
    """What owners are called here: with their number only where it tells two apart."""

    def __init__(self, overview: Overview) -> None:
        self._alike: defaultdict[str, set[str]] = defaultdict(set)
        for lock in overview.locks:
            shown = [held.holder for held in lock.holders] + [waiter.holder for waiter in lock.line]
            for holder in shown:
                owner = holder.owner.partition("~")[0]
                self._alike[_short(owner)].add(owner)

    def __call__(self, owner: str) -> str:
        short = _short(owner)
        if len(self._alike[short]) < 2:
            return short
        return f"{short} #{owner.partition(':')[2].partition(':')[0]}"


def _wide(overview: Overview, names: _Names) -> Table:
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


def _narrow(overview: Overview, names: _Names) -> Iterator[RenderableType]:
    for lock in overview.locks:
        yield Text(_title(lock), style="bold")
        table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 1))
        table.add_column(min_width=9, overflow="fold")
        table.add_column(overflow="fold")
        for state, name, since, left, fence in _rows(lock, names):
            times = ", ".join(filter(None, (f"for {since}" if since else "", f"{left} left" if left else "")))
            details = [each for each in (name, times, f"fence {fence}" if fence else "") if each]
            table.add_row(f"  {state}", Text("\n".join(details)))
        yield table


def _rows(lock: LockSnapshot, names: _Names) -> Iterator[_Row]:
    """What is going on, who does it, since when, how long the lease lasts, and the fence."""
    for held in lock.holders:
        name = _who(held.holder, names(held.holder.owner))
        state = "holds" + _units(lock, held.units)
        yield state, name, lasting(held.held_for), time_left(held.expires_in), str(held.fence)
    if lock.kept_for:
        yield "kept", "free after its minimum time", "", time_left(lock.kept_for), ""
    if lock.more_holders:
        yield "", f"up to {lock.more_holders} more holders", "", "", ""
    for place, waiter in enumerate(lock.line, 1):
        name = _who(waiter.holder, names(waiter.holder.owner))
        yield f"{place}. waits" + _units(lock, waiter.units), name, lasting(waiter.waited), "", ""
    if lock.more_waiters:
        yield "", f"up to {lock.more_waiters} more waiters", "", "", ""


def _waits(edges: tuple[Edge, ...], names: _Names) -> Iterator[str]:
    """One line for each waiter and lock: whom it stands behind, and who holds it."""
    places: defaultdict[tuple[str, str], list[Edge]] = defaultdict(list)
    for edge in edges:
        places[edge.waiter, edge.resource].append(edge)
    for (waiter, resource), reasons in places.items():
        holders = [names(edge.blocker) for edge in reasons if not edge.ahead]
        shown = holders if len(holders) <= 3 else [*holders[:2], f"{len(holders) - 2} others"]
        why = [f"held by {', '.join(shown)}"] if shown else []
        why += [f"behind {names(edge.blocker)}" for edge in reasons if edge.ahead]
        yield printable(f"{names(waiter)} waits for {resource}, {', '.join(why)}")


def _title(lock: LockSnapshot) -> str:
    return printable(lock.name if lock.kind == "lock" else f"{lock.kind} {lock.name}")


def _units(lock: LockSnapshot, units: int) -> str:
    if lock.kind == "rwlock":
        return " (write)" if units > 1 else " (read)"
    return f" {units}/{lock.capacity}" if lock.kind == "semaphore" else ""


def _who(holder: Holder, name: str) -> str:
    return printable(f"{name} [{','.join(holder.tags)}]" if holder.tags else name)


def _short(owner: str) -> str:
    holder = read(owner)
    return f"{holder.host}/{holder.pid} {holder.label}" if holder.host else owner


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
    }


def _edge(edge: Edge) -> dict[str, Any]:
    kind, _, name = edge.resource.partition(" ")
    return {"waiter": edge.waiter, "blocker": edge.blocker, "kind": kind, "name": name, "ahead": edge.ahead}


@click.command(
    cls=Command,
    examples={
        "lockwork locks": "Every lock with its holders and waiters.",
        "lockwork locks 'order:*' --watch 1": "Locks whose names match, every second.",
        "lockwork locks release order:42": "Release a lock by force, after a question.",
    },
)
@reports
@names_the_app
@click.option("--yes", is_flag=True, help="Release without asking.")
@click.argument(
    "words", nargs=-1, metavar="[NAME-PATTERN | release NAME]", shell_complete=words_of(("release",), lock_names)
)
def locks(*, output: Output, url: str | None, prefix: str, yes: bool, words: tuple[str, ...]) -> None:
    """Show all locks that are held or waited for, which waiter waits for which holder, and every deadlock.

    `lockwork locks release NAME` takes a lock away from its holder; the next waiter gets it.
    """
    if output.watch is not None and words[:1] == ("release",):
        raise click.UsageError("--watch cannot be used with release")
    with connected(url, prefix) as lw:
        if words[:1] == ("release",) and len(words) == 2:
            _release(lw, words[1], yes=yes)
        elif len(words) > 1 or words == ("release",):
            hint = action_hint(words[:1], ("release",))
            raise click.UsageError(f"pass one pattern of names, or: release NAME{hint}")
        else:
            output.show(lambda: report(lw.locks(*words), next(iter(words), "")))


def _release(lw: Lockwork, name: str, *, yes: bool) -> None:
    held = _held(lw, name)
    if not held:
        close = get_close_matches(name, {lock.name for lock in lw.locks().locks if lock.holders}, 1)
        hint = f": did you mean {printable(close[0])}?" if close else ""
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
        return int(lw.lock(lock.name).force_release())
    if lock.kind == "queuelock":
        # its key says which slash is whose: that of a partition, one in the lock's name, or the one between them
        queue, _, name = lock.key.partition("{q:")[2].partition("}:lock:")
        return int(lw.queue(queue_of(queue)).lock(name).force_release())
    if lock.kind == "rwlock":
        return lw.rwlock(lock.name).force_release()
    return lw.semaphore(lock.name, max(1, lock.capacity)).force_release()
