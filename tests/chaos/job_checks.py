"""What a history of jobs must show beside that each ran and ended once: why any ran again, and keys and groups kept.

Only the attempt that counts in the end is looked at for keys and groups: one that was taken from a frozen process may
wake up beside its successor, and is refused when it wants to settle.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

Line = dict[str, Any]
_SETTLED = 5.0
"""Seconds after which a job that has run is settled, if its process was well."""


@dataclass(frozen=True)
class Trouble:
    """A process was killed, or frozen for a while; Unix time."""

    pid: int
    since: float
    until: float


def unexplained(lines: Sequence[Line], troubles: Sequence[Trouble], given_up: set[int]) -> list[str]:
    """Attempts that another one followed although nothing had happened to their process while they ran (Q2)."""
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
        number, attempt, pid = line["number"], line["attempt"], line["pid"]
        if line["event"] != "run" or attempt == last[number]:
            continue
        ended = ends.get((number, attempt), float("inf"))
        found = [
            trouble
            for trouble in of_process.get(pid, ())
            if line["fence"] / 1e6 <= trouble.until and trouble.since <= ended + _SETTLED
        ]
        if not found and (pid in of_process or pid not in given_up):
            problems.append(f"attempt {attempt} of job {number} was not the last, and its process {pid} was well")
    return problems


def unconfirmed(lines: Sequence[Line], troubles: Sequence[Trouble]) -> set[tuple[int, int]]:
    """First attempts of which all but the last ran in a process that was frozen before it could confirm its offer.

    Its lease ended, so that the job went back as one that had not begun; then it woke up, and read the old message.
    """
    runs: dict[int, list[Line]] = defaultdict(list)
    for line in lines:
        if line["event"] == "run" and line["attempt"] == 1:
            runs[line["number"]].append(line)
    found = set()
    for number, its in runs.items():
        *early, _ = sorted(its, key=lambda line: line["fence"])
        if all(any(trouble.pid == line["pid"] and trouble.since <= line["at"] + _SETTLED
                   and line["fence"] / 1e6 <= trouble.until for trouble in troubles) for line in early):  # fmt: skip
            found.add((number, 1))
    return found


def key_problems(lines: Sequence[Line], keys: Mapping[int, str]) -> list[str]:
    """Jobs of one key are leased in order, and none begins before the one before it has ended."""
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
    """No more jobs of a group run at once than may."""
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
    """From when to when the last attempt of each job ran."""
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
