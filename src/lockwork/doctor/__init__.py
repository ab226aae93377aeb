"""Finds what is wrong on a server, and says what to change: for `lockwork doctor` and the dashboard's overview."""

from __future__ import annotations

import time

from lockwork.app.lockwork import Lockwork
from lockwork.doctor.facts import read_facts
from lockwork.doctor.rules import Finding, check, check_locks
from lockwork.doctor.server import check_servers, read_servers
from lockwork.protocol.locks.overview import look

__all__ = ["Finding", "adeadlocks", "afindings", "findings"]


def findings(lw: Lockwork, *, deep: bool = False) -> list[Finding]:
    """Return what is wrong, the most serious first.

    `deep` also looks at all locks, for deadlocks, and at the server itself, or at each primary of a Cluster: latency,
    clock, persistence, memory, rights and slow scripts. Raises a LockworkError if the server does not answer.
    """
    found = check(lw.runtime.run(read_facts(lw.config.prefix)))
    if deep:
        found += check_locks(lw.runtime.run(look(lw.config.prefix)))
        found += check_servers(lw.runtime.run(read_servers()), time.time())
    return sorted(found, key=_rank)


async def afindings(lw: Lockwork, *, deep: bool = False) -> list[Finding]:
    """Async version of `findings`."""
    found = check(await lw.runtime.arun(read_facts(lw.config.prefix)))
    if deep:
        found += await adeadlocks(lw)
        found += check_servers(await lw.runtime.arun(read_servers()), time.time())
    return sorted(found, key=_rank)


async def adeadlocks(lw: Lockwork) -> list[Finding]:
    """Return the deadlocks alone; this reads all locks."""
    return check_locks(await lw.runtime.arun(look(lw.config.prefix)))


def _rank(finding: Finding) -> int:
    return ("serious", "warning", "info").index(finding.level)
