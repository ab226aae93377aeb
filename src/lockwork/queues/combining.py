"""Combines the figures of partitions into figures of their queue."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from math import lcm
from typing import Any

from msgspec.structs import fields, replace

from lockwork.protocol.queue.limits import QueueRules
from lockwork.protocol.queue.status import QueueStatus, WorkerInfo


def combined_status(statuses: Sequence[QueueStatus]) -> QueueStatus:
    """Add up jobs and counters; the queue is paused if all partitions are."""
    counts: Any = {
        field.name: sum(getattr(status, field.name) for status in statuses)
        for field in fields(QueueStatus)
        if field.name != "paused"
    }
    return QueueStatus(**counts, paused=all(status.paused for status in statuses))


def combined_workers(workers: Sequence[WorkerInfo]) -> list[WorkerInfo]:
    """Merge the entries of each session, whose jobs are of several partitions."""
    by_session: defaultdict[str, list[WorkerInfo]] = defaultdict(list)
    for worker in workers:
        by_session[worker.session].append(worker)
    return [
        replace(
            entries[0],
            running=sum(entry.running for entry in entries),
            expires_in=min(entry.expires_in for entry in entries),
        )
        for entries in by_session.values()
    ]


def combined_rules(rules: Sequence[QueueRules]) -> QueueRules:
    """Add up the limits of all partitions; no limit if a partition has none."""
    pauses = [each.paused for each in rules if each.paused is not None]
    rates = [each.rate for each in rules if each.rate is not None]
    concurrencies = [each.concurrency for each in rules if each.concurrency is not None]
    sizes = [each.size for each in rules if each.size is not None]
    return QueueRules(
        max(pauses) if len(pauses) == len(rules) else None,
        _combined_rate(rates) if len(rates) == len(rules) else None,
        sum(concurrencies) if len(concurrencies) == len(rules) else None,
        sum(sizes) if len(sizes) == len(rules) else None,
    )


def _combined_rate(rates: Sequence[tuple[int, int]]) -> tuple[int, int]:
    period = lcm(*(per_ms for _, per_ms in rates))
    return sum(jobs * (period // per_ms) for jobs, per_ms in rates), period
