"""Mutants of a lock's options, and of the cache of sticky locks. The checker must catch each, or it proves nothing."""

from __future__ import annotations

from locks.simulation.lock_options import DoublingKeeper, SharingKeeper, UnsubscribedKeeper
from simulator.server import Build

_TELL = "publish(channels .. string.match(holder, '^[^:]*'), '! look ' .. lock)"
_HELD = "if holder and deadline > now then"
_BY_SOMEBODY = "if holder and holder ~= '' and deadline > now then"

MUTANTS = (
    Build("force release notifies no holder", (("locks/force", _TELL, ""),)),
    Build("a lock is granted before its minimum ends", (("locks/parts/ask", _HELD, _BY_SOMEBODY),)),
    Build(
        "waiters are not notified of a minimum", (("locks/release", "if tail then notify_next_waiters(ends) end", ""),)
    ),
    Build("no holder is asked to release", (("locks/parts/ask", "if process then", "if false then"),)),
)
KEEPERS = (UnsubscribedKeeper, SharingKeeper, DoublingKeeper)
