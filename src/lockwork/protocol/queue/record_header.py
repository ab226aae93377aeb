"""How a stored job begins, the part that the server reads; what is behind it, the body, is the app's."""

from __future__ import annotations

import re
from typing import NamedTuple

MAX_CRASHES = 3
"""Deliveries after which a job is dead if each ended with the death of its worker, and it has no cap of deliveries."""
_HEAD = re.compile(rb"\d,(\d+)(?:/(\d+))?/?,")
_HIDDEN = re.compile(rb"\d,[\d/]*/,")


class JobLimits(NamedTuple):
    """What a group of jobs may do: so many `at_once`, and `jobs` in `per_ms`; 0 is no limit."""

    at_once: int = 0
    jobs: int = 0
    per_ms: int = 0


class Budget(NamedTuple):
    """How often a job may run: it is dead after so many failed `attempts`, or after so many `deliveries` of any kind.

    Without a cap of deliveries (0), it is also dead after MAX_CRASHES of its deliveries ended with the worker's death.
    """

    attempts: int
    deliveries: int = 0

    def left_after_failure(self, attempt: int, crashes: int) -> bool:
        """Return True if the job runs again when this attempt fails; `crashes` of those before it were crashes."""
        return attempt - crashes < self.attempts and (not self.deliveries or attempt < self.deliveries)

    def left_after_crash(self, attempt: int, crashes: int) -> bool:
        """Return True if the job runs again when the process dies that runs this attempt."""
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
    """How a record begins: `priority,attempts[/deliveries][/],key,group,limits,unique;`, without empty last parts.

    The names are stored ones (`names.stored`). The slash before the key marks a job whose arguments are `hidden`. The
    server reads nothing of what follows, the body.
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
    """Return the key of a record's job as it is stored; nothing where it has none."""
    return stored.split(b",", 3)[2]


def is_hidden(stored: bytes) -> bool:
    """Return whether the arguments of a record's job are hidden on pages and in commands."""
    return _HIDDEN.match(stored) is not None


def budget(stored: bytes) -> Budget:
    """Return how often a record's job may run; not at all when its header cannot be read."""
    found = _HEAD.match(stored)
    return Budget(int(found[1]), int(found[2] or 0)) if found else Budget(0)


class Names(NamedTuple):
    """What a record's header names, as it is stored; empty where the job has none."""

    key: str = ""
    group: str = ""
    unique: str = ""


def names(stored: bytes) -> Names:
    """Return the key, the group and the unique name of a record's job."""
    end = stored.find(b";")
    parts = stored[: end if end >= 0 else len(stored)].decode(errors="replace").split(",")
    if len(parts) < 4:
        return Names()
    # behind the task's name, in which there is no slash
    return Names(parts[2], parts[3], parts[5].partition("/")[2] if len(parts) > 5 else "")
