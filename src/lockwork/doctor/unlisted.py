"""Names that no list shows, because an older version, or a user without permission, added them to no index."""

from __future__ import annotations

from lockwork.doctor.finding import Finding
from lockwork.errors import ServerRefused
from lockwork.protocol import slots
from lockwork.protocol.effects import Protocol
from lockwork.protocol.index import index
from lockwork.protocol.index.index import LOCKS, QUEUES, STOCKS, IndexedKind
from lockwork.protocol.names import shown
from lockwork.words import several

_NAMED = 10


def list_unlisted(prefix: str) -> Protocol[list[Finding]]:
    """Walk once through all keys of the server, and add missing names to the indexes.

    Returns a finding for each kind, except locks: many locks are held too briefly for the index.
    """
    names_by_kind = yield from index.scan(prefix)
    findings: list[Finding] = []
    for kind, names in names_by_kind.items():
        listed = set((yield from index.read(prefix, kind)))
        missing = [name for name in names if name not in listed]
        if not missing:
            continue
        fix = "They are listed from now on."
        try:
            yield from index.put(prefix, kind, missing)
        except ServerRefused:
            fix = "This user may not list them: run `lockwork doctor --scan` as a user with the role `operator`."
        if kind is not LOCKS:
            what = several(len(missing), kind.word[:-1], kind.word)
            named = ", ".join(_shown(kind, name) for name in missing[:_NAMED])
            more = f" and {len(missing) - _NAMED} more" if len(missing) > _NAMED else ""
            was = "was" if len(missing) == 1 else "were"
            findings.append(Finding("info", kind.word, f"{what} {was} in no list: {named}{more}", fix))
    return findings


def _shown(kind: IndexedKind, name: str) -> str:
    if kind is QUEUES:
        return slots.queue_of(name)
    if kind is STOCKS:
        tag, _, stock = name.partition(" ")
        return f"{shown(stock)} of queue {slots.queue_of(tag)}"
    return shown(name)
