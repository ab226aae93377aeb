"""How leases are made to last longer: the server is asked, and the engine told what it says."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import replace

from lockwork.errors import LockworkError
from lockwork.protocol.effects import Protocol
from lockwork.protocol.locks import grants
from lockwork.protocol.locks.leases import Lease
from lockwork.runtime.engine import Engine


def extend(engine: Engine, leases: Sequence[Lease], lease_ms: int) -> Protocol[bool]:
    """Let these leases last for so long from now on; False when one was over.

    Interrupted, it is sent once more: whoever goes on must know for how long the server keeps it.
    """
    renewals = [replace(lease.renewal, lease_ms=lease_ms) for lease in leases]
    try:
        deadlines = yield from grants.renew(renewals, None)
    except (GeneratorExit, LockworkError):
        raise
    except BaseException:
        with contextlib.suppress(LockworkError):
            _note(engine, leases, (yield from grants.renew(renewals, 1)))
        raise
    return _note(engine, leases, deadlines)


def _note(engine: Engine, leases: Sequence[Lease], deadlines: Sequence[float | None]) -> bool:
    kept = True
    for lease, deadline in zip(leases, deadlines, strict=True):
        if deadline is None:
            engine.lost(lease)
        kept = deadline is not None and engine.prolong(lease, deadline) and kept
    return kept
