"""The header of a job record. The server reads the header; only clients read the body."""

from __future__ import annotations

import re
from typing import NamedTuple

from lockwork.ids import enqueued_at

MAX_CRASHES = 3
"""A job without a delivery limit is dead after this number of crashes: deliveries that ended with a worker's death."""
_HEAD = re.compile(rb"\d,(\d+)(?:/(\d*))?(?:/(\d*))?(?:/(\d+))?/?,")
_LONGEST_MS = 366 * 86_400_000
"""Longest duration in ms; a larger number in a `retry_until` is a point in time."""
_LIMITED = re.compile(rb"(\d,\d+/\d*/\d*/)\d+")
_HIDDEN = re.compile(rb"\d,[\d/]*/,")


class JobLimits(NamedTuple):
    """Limits of a group: `at_once` running jobs, and `jobs` starts per `per_ms`; 0 is no limit."""

    at_once: int = 0
    jobs: int = 0
    per_ms: int = 0


class Budget(NamedTuple):
    """Limits of a job: it is dead after `attempts` failures, or after `deliveries` of any kind.

    Without a delivery limit (0), it is also dead after MAX_CRASHES deliveries that ended with the worker's death.
    """

    attempts: int
    deliveries: int = 0

    def left_after_failure(self, attempt: int, crashes: int) -> bool:
        """Return True if the job runs again when this attempt fails; `crashes` of the earlier attempts were crashes."""
        return attempt - crashes < self.attempts and (not self.deliveries or attempt < self.deliveries)

    def left_after_crash(self, attempt: int, crashes: int) -> bool:
        """Return True if the job runs again when the process of this attempt dies."""
        return attempt < self.deliveries if self.deliveries else crashes + 1 < MAX_CRASHES


def head(
    priority: int,
    attempts: int,
    key: str = "",
    group: str = "",
    limits: JobLimits | None = None,
    unique: str = "",
    deliveries: int = 0,
    *,
    hidden: bool = False,
    tracked_ms: int = 0,
    retry_until_ms: int = 0,
) -> bytes:
    """Return a record header: `priority,attempts[/deliveries[/tracked[/retry_until]]][/],key,group,limits,unique;`.

    Empty parts at the end are omitted.

    tracked_ms: time that the end of the job is kept for an integration, which reports it (queue/parts/tracked.lua); 0:
    the job is not tracked.
    retry_until_ms: no attempt begins later than this time after the job's enqueue; a negative value is a point in time
    (ms since 1970), and is stored without its sign; 0: no limit.
    The names are stored names (`names.stored`). The slash before the key marks a job whose arguments are `hidden`.
    """
    if unique:
        return b"%b,%b;" % (
            head(
                priority,
                attempts,
                key,
                group,
                limits,
                deliveries=deliveries,
                hidden=hidden,
                tracked_ms=tracked_ms,
                retry_until_ms=retry_until_ms,
            )[:-1]
            + (b"" if group else b","),
            unique.encode(),
        )
    budget = b"%d/%d" % (attempts, deliveries) if deliveries else b"%d" % attempts
    if tracked_ms or retry_until_ms:
        more = (deliveries, tracked_ms, abs(retry_until_ms))
        budget = b"/".join([b"%d" % attempts, *(b"%d" % each if each else b"" for each in more)]).rstrip(b"/")
    budget += b"/" if hidden else b""
    if not group:
        return b"%d,%b,%b,;" % (priority, budget, key.encode())
    return b"%d,%b,%b,%b,%d/%d/%d;" % (priority, budget, key.encode(), group.encode(), *(limits or JobLimits()))


def body(stored: bytes) -> bytes:
    """Return the body of a record."""
    return stored[stored.index(b";") + 1 :]


def key(stored: bytes) -> bytes:
    """Return the stored key of a record's job; empty if the job has no key."""
    return stored.split(b",", 3)[2]


def is_hidden(stored: bytes) -> bool:
    """Return True if pages and commands hide the arguments of a record's job."""
    return _HIDDEN.match(stored) is not None


def budget(stored: bytes) -> Budget:
    """Return the limits of a record's job; `Budget(0)`, which permits no run, if its header cannot be read."""
    match = _HEAD.match(stored)
    return Budget(int(match[1]), int(match[2] or 0)) if match else Budget(0)


def tracked_ms(stored: bytes) -> int:
    """Return for how long the end of a record's job is kept, in ms; 0 for a job that is not tracked."""
    match = _HEAD.match(stored)
    return int(match[3] or 0) if match else 0


def retry_until(stored: bytes, id: str) -> int | None:
    """Return when the last attempt of this job may begin, in ms since 1970; None without a limit.

    A duration counts from the time in the job's id: its enqueue, or that of its flow. The header of a job whose id has
    no time contains a point in time.
    """
    match = _HEAD.match(stored)
    if match is None or not match[4]:
        return None
    limit_ms = int(match[4])
    return limit_ms if limit_ms > _LONGEST_MS else (enqueued_at(id) or 0) + limit_ms


def without_retry_until(header: bytes) -> bytes:
    """Return a header without its `retry_until`, as the server drops it (queue/parts/retry_until.lua)."""
    match = _LIMITED.match(header)
    return match[1].rstrip(b"/") + header[match.end() :] if match else header


class Names(NamedTuple):
    """Stored names in a record's header; empty if the job has none."""

    key: str = ""
    group: str = ""
    unique: str = ""


def names(stored: bytes) -> Names:
    """Return the key, the group and the unique name of a record's job."""
    end = stored.find(b";")
    parts = stored[: end if end >= 0 else len(stored)].decode(errors="replace").split(",")
    if len(parts) < 4:
        return Names()
    # the unique name follows the task and a slash; the task contains no slash
    return Names(parts[2], parts[3], parts[5].partition("/")[2] if len(parts) > 5 else "")
