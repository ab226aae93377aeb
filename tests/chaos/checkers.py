"""Checks of a history; each function returns the problems as sentences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from itertools import pairwise
from typing import Any

from lockwork.protocol.dead.dead import DeadJob
from lockwork.protocol.queue.record_header import MAX_CRASHES
from lockwork.protocol.queue.status import QueueStatus

Line = dict[str, Any]


def job_problems(
    lines: Sequence[Line],
    status: QueueStatus,
    count: int,
    dead: Sequence[DeadJob] = (),
    unconfirmed: Collection[tuple[int, int]] = (),
) -> list[str]:
    """Check that every job ran and ended once, and ran again only after a counted recovery (Q1, Q2, Q3, Q7, Q10).

    `dead` are jobs in the dead set, which must be there because of deaths of their worker. `unconfirmed` are attempts
    that may have run twice.
    """
    problems = []
    lost = set(range(count)) - {line["number"] for line in lines}
    if lost:
        problems.append(f"{len(lost)} jobs never ran, for instance {min(lost)}")
    if status.succeeded + len(dead) != count:
        problems.append(f"{status.succeeded} jobs were settled as succeeded, not {count - len(dead)}")
    if spared := [job for job in dead if (job.crashes, job.error.type) != (MAX_CRASHES, "WorkerDied")]:
        problems.append(f"{len(spared)} jobs are dead that had not used up their crashes, for instance {spared[0]}")
    if (status.ready, status.scheduled, status.running, status.dead) != (0, 0, 0, len(dead)):
        problems.append(f"jobs are left somewhere: {status}")
    attempts = Counter((line["number"], line["attempt"]) for line in lines)
    twice = [key for key, times in attempts.items() if times > 1 and key not in unconfirmed]
    if twice:
        problems.append(f"{len(twice)} attempts ran twice, for instance (job, attempt) {twice[0]}")
    again = len(lines) - len({line["number"] for line in lines})
    if again > status.recovered + status.retried:
        problems.append(f"jobs ran again {again} times, and only {status.recovered} recoveries were counted")
    newest: dict[int, int] = {}
    for line in sorted(lines, key=lambda line: (line["attempt"], line["fence"])):
        if line["fence"] <= newest.get(line["number"], 0):
            problems.append(f"the fence of job {line['number']} did not rise")
        newest[line["number"]] = line["fence"]
    return problems


def lock_problems(lines: Sequence[Line], accepted: Sequence[int], value: int) -> list[str]:
    """Check that holders never overlap, that fences are unique, and that the store lost no write (L1, L2, L5)."""
    problems = []
    enters = sorted((line["at"], line["fence"]) for line in lines if line["event"] == "enter")
    shared = [fence for fence, times in Counter(fence for _, fence in enters).items() if times > 1]
    if shared:
        problems.append(f"fence {shared[0]} was granted twice")
    # a "held" at a time must not follow a later grant
    moments = sorted(
        [(at, 0, fence) for at, fence in enters]
        + [(line["at"], 1, line["fence"]) for line in lines if line["event"] == "held"]
    )
    newest, overlaps = 0, 0
    for _, held, fence in moments:
        if held and fence < newest:
            overlaps += 1
        elif not held:
            newest = max(newest, fence)
    if overlaps:
        problems.append(f"{overlaps} times a holder believed in its lock when the next one had it")
    stale = sum(later < earlier for earlier, later in pairwise(accepted))
    if stale:
        problems.append(f"{stale} writes with an old fence were accepted")
    if value != len(accepted):
        problems.append(f"{len(accepted)} writes were accepted, and the count is {value}")
    return problems
