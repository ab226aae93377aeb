"""The header of a job record. The server reads the header; only clients read the body."""

from __future__ import annotations

import re
from typing import NamedTuple

MAX_CRASHES = 3
"""A job without a delivery limit is dead after this number of crashes: deliveries that ended with a worker's death."""
_HEAD = re.compile(rb"\d,(\d+)(?:/(\d+))?/?,")
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
) -> bytes:
    """Return a record header: `priority,attempts[/deliveries][/],key,group,limits,unique;`, without empty last parts.

    The names are stored names (`names.stored`). The slash before the key marks a job whose arguments are `hidden`.
    """
    if unique:
        return b"%b,%b;" % (
            head(priority, attempts, key, group, limits, deliveries=deliveries, hidden=hidden)[:-1]
            + (b"" if group else b","),
            unique.encode(),
        )
    budget = b"%d/%d" % (attempts, deliveries) if deliveries else b"%d" % attempts
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
