"""Finds what is wrong on a server, and says what to change: for `lockwork doctor` and the dashboard's overview."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lockwork.app.lockwork import Lockwork
from lockwork.doctor.facts import read_facts
from lockwork.doctor.rules import Finding, check
from lockwork.doctor.server import ServerFacts, check_servers, read_servers
from lockwork.errors import ServerRefused
from lockwork.protocol.locks.deadlocks import Deadlock
from lockwork.protocol.locks.overview import read

__all__ = ["Examination", "Finding", "afindings", "examine", "findings"]


@dataclass(frozen=True, slots=True)
class Examination:
    """What is wrong, the most serious first, and what was looked at."""

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


def examine(lw: Lockwork) -> Examination:
    """Look for deadlocks and at the server, too, or at each primary of a Cluster; errors as `findings`.

    Of a server: latency, clock, persistence, memory, rights and slow scripts.
    """
    facts, servers = lw.runtime.run(read_facts(lw.config.prefix)), lw.runtime.run(read_servers())
    found = [*check(facts), *check_servers(servers, time.time()), *_deadlocks(lw)]
    return Examination(_ranked(found), servers, len(facts.queues), len(facts.workers), len(facts.apps))


def _deadlocks(lw: Lockwork) -> Iterator[Finding]:
    try:
        found: Sequence[Deadlock] = lw.locks().deadlocks
    except ServerRefused:  # this user may not read locks
        found = ()
    for deadlock in found:
        name = deadlock.cycle[0].resource.partition(" ")[2]
        fix = f"Release one of them: `lockwork locks release {name}`; and take locks in the same order everywhere."
        yield Finding("serious", "Deadlock", f"{deadlock.named(_owner)}.", fix, "locks")


def _owner(name: str) -> str:
    seen = read(name)
    return f"{seen.host}/{seen.pid} {seen.label}" if seen.host else name


def _ranked(found: Sequence[Finding]) -> list[Finding]:
    return sorted(found, key=lambda finding: ("serious", "warning", "info").index(finding.level))
