"""Finds what is wrong on a server, and says what to change: for `lockwork doctor` and the dashboard's overview."""

from __future__ import annotations

import time

from lockwork.app.lockwork import Lockwork
from lockwork.doctor.facts import read_facts
from lockwork.doctor.rules import Finding, check
from lockwork.doctor.server import check_servers, read_servers

__all__ = ["Finding", "afindings", "findings"]


def findings(lw: Lockwork, *, deep: bool = False) -> list[Finding]:
    """Return what is wrong, the most serious first.

    `deep` also looks at the server itself, or at each primary of a Cluster: latency, clock, persistence, memory, rights
    and slow scripts. Raises a LockworkError if the server does not answer.
    """
    found = check(lw.runtime.run(read_facts(lw.config.prefix)))
    if deep:
        found += check_servers(lw.runtime.run(read_servers()), time.time())
    return sorted(found, key=_rank)


async def afindings(lw: Lockwork, *, deep: bool = False) -> list[Finding]:
    """Async version of `findings`."""
    found = check(await lw.runtime.arun(read_facts(lw.config.prefix)))
    if deep:
        found += check_servers(await lw.runtime.arun(read_servers()), time.time())
    return sorted(found, key=_rank)


def _rank(finding: Finding) -> int:
    return ("serious", "warning", "info").index(finding.level)
