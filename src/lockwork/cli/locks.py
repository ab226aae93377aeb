"""`lockwork locks`."""

from __future__ import annotations

import click

from lockwork.app.lockwork import Lockwork
from lockwork.cli.options import connected, names_the_app
from lockwork.cli.lockjson import as_json
from lockwork.cli.lockview import show, who
from lockwork.protocol.locks.overview import LockSnapshot, literal


@click.command()
@click.option("--json", "as_object", is_flag=True, help="Print one JSON document.")
@names_the_app
@click.option("--yes", is_flag=True, help="Release without asking.")
@click.argument("words", nargs=-1, metavar="[NAME-PATTERN | release NAME]")
def locks(*, as_object: bool, url: str | None, prefix: str, yes: bool, words: tuple[str, ...]) -> None:
    """Show all locks that somebody holds or waits for, who waits for whom, and every deadlock.

    `lockwork locks release NAME` takes a lock away from whoever holds it; the next in line gets it.
    """
    with connected(url, prefix) as lw:
        if words[:1] == ("release",) and len(words) == 2:
            _release(lw, words[1], yes=yes)
        elif len(words) > 1 or words == ("release",):
            raise click.UsageError("give one pattern of names, or: release NAME")
        elif as_object:
            click.echo(as_json(lw.locks(*words)))
        else:
            show(lw.locks(*words), pattern=next(iter(words), ""))


def _release(lw: Lockwork, name: str, *, yes: bool) -> None:
    held = _held(lw, name)
    if not held:
        click.echo(f"nobody holds {name!r}")
    for kind, lock in held.items():
        if kind == "quorum":
            click.echo(
                f"quorum {name!r}: only its holder can release it, on all its servers; this is one of them", err=True
            )
            continue
        holders = ", ".join(who(each.holder) for each in lock.holders)
        if lock.more_holders:
            holders += f" and up to {lock.more_holders} more"
        if not yes and not click.confirm(f"{kind} {name!r} is held by {holders}. Take it away?", err=True):
            continue
        if not yes and not _fences(_held(lw, name).get(kind)) <= _fences(lock):
            raise click.ClickException(f"{kind} {name!r} has got another holder meanwhile: nothing was released")
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
        return int(lw.queue(queue).lock(name).force_release())
    if lock.kind == "rwlock":
        return lw.rwlock(lock.name).force_release()
    return lw.semaphore(lock.name, max(1, lock.capacity)).force_release()
