"""More checks of a history of jobs: reasons for repeated runs, and the rules of keys and groups.

For keys and groups, only the last attempt counts: an attempt that was recovered from a frozen process may
continue beside its successor, and its outcome is refused.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

Line = dict[str, Any]
_SETTLED = 5.0
"""Seconds until the outcome of a job is settled in a healthy process."""


@dataclass(frozen=True)
class Trouble:
    """A process was killed, or frozen for some time; Unix time."""

    pid: int
    since: float
    until: float


def unexplained(lines: Sequence[Line], troubles: Sequence[Trouble], given_up: set[int]) -> list[str]:
    """Return attempts that were repeated without a kill or freeze of their process or its supervisor (Q2).

    A child that a supervisor starts while it is killed or frozen gets no signal, and loses its session, too.
    """
    of_process: dict[int, list[Trouble]] = defaultdict(list)
    for trouble in troubles:
        of_process[trouble.pid].append(trouble)
    last: dict[int, int] = {}
    ends: dict[tuple[int, int], float] = {}
    for line in lines:
        last[line["number"]] = max(last.get(line["number"], 0), line["attempt"])
        if line["event"] == "end":
            ends[line["number"], line["attempt"]] = line["at"]
    problems = []
    for line in lines:
        number, attempt, pid, parent = line["number"], line["attempt"], line["pid"], line["parent"]
        if line["event"] != "run" or attempt == last[number]:
            continue
        ended = ends.get((number, attempt), float("inf"))
        found = [
            trouble
            for trouble in [*of_process.get(pid, ()), *of_process.get(parent, ())]
            if line["fence"] / 1e6 <= trouble.until and trouble.since <= ended + _SETTLED
        ]
        # a long run has used each process id more than once
        signaled = any(trouble.until >= line["born"] for trouble in of_process.get(pid, ()))
        if not found and (signaled or pid not in given_up):
            problems.append(f"attempt {attempt} of job {number} was not the last, and its process {pid} was well")
    return problems


def unconfirmed(lines: Sequence[Line], troubles: Sequence[Trouble]) -> set[tuple[int, int]]:
    """Return first attempts whose earlier runs were in a process that was frozen before it confirmed its offer.

    The lease ended, so the job returned as not started; then the process continued and read the old message.
    """
    runs: dict[int, list[Line]] = defaultdict(list)
    for line in lines:
        if line["event"] == "run" and line["attempt"] == 1:
            runs[line["number"]].append(line)
    found = set()
    for number, runs_of_job in runs.items():
        *early, _ = sorted(runs_of_job, key=lambda line: line["fence"])
        if all(any(trouble.pid in (line["pid"], line["parent"]) and trouble.since <= line["at"] + _SETTLED
                   and line["fence"] / 1e6 <= trouble.until for trouble in troubles) for line in early):  # fmt: skip
            found.add((number, 1))
    return found


def key_problems(lines: Sequence[Line], keys: Mapping[int, str]) -> list[str]:
    """Check that jobs of a key are leased in order, and start after the end of the previous job."""
    fences: dict[int, list[int]] = defaultdict(list)
    for line in lines:
        if line["event"] == "run":
            fences[line["number"]].append(line["fence"])
    spans = _spans(lines)
    of_key: dict[str, list[int]] = defaultdict(list)
    for number in sorted(keys):
        of_key[keys[number]].append(number)
    problems = []
    for key, numbers in of_key.items():
        for one, other in pairwise(number for number in numbers if number in spans):
            if max(fences[one]) >= min(fences[other]):
                problems.append(f"job {other} of the key {key} was leased before job {one} had ended")
            elif spans[one][1] > spans[other][0]:
                problems.append(f"jobs {one} and {other} of the key {key} ran at once")
    return problems


def group_problems(lines: Sequence[Line], groups: Mapping[int, str], most: int) -> list[str]:
    """Check that at most `most` jobs of a group run at once."""
    moments: dict[str, list[tuple[float, int]]] = defaultdict(list)
    for number, (begin, end) in _spans(lines).items():
        if number in groups:
            moments[groups[number]] += [(begin, 1), (end, -1)]
    problems = []
    for group, found in moments.items():
        count = highest = 0
        for _, change in sorted(found):
            count += change
            highest = max(highest, count)
        if highest > most:
            problems.append(f"{highest} jobs of the group {group} ran at once")
    return problems


def _spans(lines: Sequence[Line]) -> dict[int, tuple[float, float]]:
    """Return the start and end of each job's last attempt."""
    begins: dict[int, Line] = {}
    for line in lines:
        if line["event"] == "run" and line["attempt"] >= begins.get(line["number"], line)["attempt"]:
            begins[line["number"]] = line
    spans = {}
    for line in lines:
        first = begins.get(line["number"])
        if line["event"] == "end" and first is not None and line["attempt"] == first["attempt"]:
            spans[line["number"]] = first["at"], line["at"]
    return spans
