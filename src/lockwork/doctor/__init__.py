"""Finds what is wrong on a server, and says what to change: for `lockwork doctor` and the dashboard's overview."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from lockwork.app.lockwork import Lockwork
from lockwork.doctor.facts import read_facts
from lockwork.doctor.rules import Finding, check, check_locks
from lockwork.doctor.server import ServerFacts, check_servers, read_servers
from lockwork.errors import ServerRefused
from lockwork.protocol.locks.overview import look

__all__ = ["Examination", "Finding", "adeadlocks", "afindings", "examine", "findings"]


@dataclass(frozen=True, slots=True)
class Examination:
    """What is wrong, the most serious first, and what was checked."""

    findings: list[Finding]
    servers: list[ServerFacts]
    queues: int
    """Queues and partitions."""
    workers: int
    apps: int


def findings(lw: Lockwork) -> list[Finding]:
    """Return what is wrong with queues, workers and apps, the most serious first.

    Raises a LockworkError if the server does not answer.
    """
    return _ranked(check(lw.runtime.run(read_facts(lw.config.prefix))))


async def afindings(lw: Lockwork) -> list[Finding]:
    """Async version of `findings`."""
    return _ranked(check(await lw.runtime.arun(read_facts(lw.config.prefix))))


async def adeadlocks(lw: Lockwork) -> list[Finding]:
    """Return the deadlocks alone, none if this user may not read locks; this reads all locks."""
    try:
        return check_locks(await lw.runtime.arun(look(lw.config.prefix)))
    except ServerRefused:
        return []


def examine(lw: Lockwork) -> Examination:
    """Look for deadlocks and at the server, too, or at each primary of a Cluster; errors as `findings`.

    Of a server: latency, clock, persistence, memory, rights and slow scripts.
    """
    facts, servers = lw.runtime.run(read_facts(lw.config.prefix)), lw.runtime.run(read_servers())
    found = [*check(facts), *check_servers(servers, time.time())]
    with suppress(ServerRefused):  # this user may not read locks
        found += check_locks(lw.runtime.run(look(lw.config.prefix)))
    return Examination(_ranked(found), servers, len(facts.queues), len(facts.workers), len(facts.apps))


def _ranked(found: Sequence[Finding]) -> list[Finding]:
    return sorted(found, key=lambda finding: ("serious", "warning", "info").index(finding.level))
