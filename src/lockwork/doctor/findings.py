"""The one list of findings that `status`, `doctor`, `top` and the dashboard's Overview show."""

from __future__ import annotations

import time
from collections.abc import Sequence
from shlex import quote

from msgspec import Struct

from lockwork.app.lockwork import Lockwork
from lockwork.doctor.finding import Finding
from lockwork.doctor.rules import check
from lockwork.doctor.server import ServerFacts, check_servers, read_servers
from lockwork.doctor.unlisted import list_unlisted
from lockwork.inspection.lock_owners import OwnerNames
from lockwork.inspection.overview import MOST_DIAGNOSED, OverviewReader, Part, SystemOverview
from lockwork.protocol.locks.overview import Overview

CHECKED_PARTS = Part.QUEUES | Part.AGES | Part.DIAGNOSIS | Part.WORKERS | Part.APPS | Part.WAITED_LOCKS
"""The parts of an overview that the findings need; the locks may also be Part.ALL_LOCKS."""
_LEVELS = ("serious", "warning", "info")
_UNREAD = Finding(
    "info",
    "Deadlocks",
    "Locks not checked: this user may not read them.",
    "Use a user with the role `operator` or `viewer`: see `lockwork acl`.",
)


class Examination(Struct, frozen=True):
    """Findings, the most serious first, and the scope of the examination."""

    findings: list[Finding]
    servers: list[ServerFacts]
    queues: int
    """Queues and partitions."""
    workers: int
    apps: int


def findings(lw: Lockwork) -> list[Finding]:
    """Return the problems of queues, workers, apps and locks, the most serious first."""
    return findings_of(OverviewReader().read(lw.runtime, CHECKED_PARTS))


def findings_of(overview: SystemOverview) -> list[Finding]:
    """Return the problems in an overview that has CHECKED_PARTS, the most serious first."""
    deadlocks = [_UNREAD] if overview.locks is None else deadlock_findings(overview.locks)
    return _ranked([*deadlocks, *check(overview)])


def examine(lw: Lockwork, reader: OverviewReader | None = None, *, scan: bool = False) -> Examination:
    """Examine also the server, or each primary of a Cluster.

    Server rules: latency, clock, persistence, memory, permissions and slow scripts. scan: first walk through all keys
    of the server, and add missing names to the indexes.
    """
    unlisted = lw.runtime.run(list_unlisted(lw.config.prefix)) if scan else []
    overview = (reader or OverviewReader()).read(lw.runtime, CHECKED_PARTS, most=MOST_DIAGNOSED)
    servers = lw.runtime.run(read_servers())
    ranked = _ranked([*unlisted, *findings_of(overview), *check_servers(servers, time.time())])
    return Examination(ranked, servers, len(overview.partitions), len(overview.workers), len(overview.apps))


def deadlock_findings(locks: Overview) -> list[Finding]:
    """Return a finding for each deadlock."""
    names = OwnerNames(locks)
    findings: list[Finding] = []
    for deadlock in locks.deadlocks:
        lock = min(edge.resource for edge in deadlock.cycle).partition(" ")[2]
        jobs = sorted(filter(None, {names.holder(edge.waiter).job for edge in deadlock.cycle}))
        cancel = f"Cancel one of the jobs: `lockwork job cancel {quote(jobs[0])}`. Or release" if jobs else "Release"
        fix = f"{cancel} one of the locks: `lockwork locks release {quote(lock)}`."
        findings.append(Finding("serious", "Deadlock", f"{deadlock.named(names)}.", fix, "locks"))
    return findings


def _ranked(findings: Sequence[Finding]) -> list[Finding]:
    return sorted(findings, key=lambda finding: _LEVELS.index(finding.level))
