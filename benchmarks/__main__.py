"""`python -m benchmarks`: measures everything on a server of its own, and prints a table and JSON."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import fields
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks import (
    bounds,
    contention,
    enqueueing,
    growth,
    idling,
    listing,
    monitoring,
    renewal,
    searching,
    sharding,
    standing,
    starting,
    uncontended,
    waiters,
    working,
)
from benchmarks.figures import Bench, Figure
from lockwork.runtime.embedded import start_private

BENCHMARKS: dict[str, Callable[[Bench], list[Figure]]] = {
    "pair": uncontended.pair,
    "sticky": uncontended.sticky,
    "locks": uncontended.many_tasks,
    "contention": contention.sixteen,
    "handover": contention.hand_over,
    "waiters": waiters.crowd,
    "renewal": renewal.many_locks,
    "bulk": enqueueing.bulk,
    "enqueue": enqueueing.one_at_a_time,
    "tasks": enqueueing.from_many_tasks,
    "memory": enqueueing.waiting_job,
    "ended": enqueueing.ended_job,
    "drain": working.drain,
    "monitoring": monitoring.monitoring,
    "threads": working.threads,
    "latency": working.idle_latency,
    "start": starting.start,
    "flat": standing.flat,
    "growth": growth.growth,
    "search": searching.searching,
    "lists": listing.listing,
    "cluster": sharding.sharding,
    "idle": idling.idle,
    "bounds": bounds.bounds,
}


def main() -> None:
    """Read the command line and measure."""
    options = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    options.add_argument("names", nargs="*", metavar="NAME", help=f"which to run: {', '.join(BENCHMARKS)}")
    options.add_argument(
        "--quick", action="store_true", help="a hundredth of the work and one round: that all of it runs"
    )
    options.add_argument("--json", type=Path, metavar="FILE", help="write the figures there, too")
    chosen = options.parse_args()
    unknown = set(chosen.names) - set(BENCHMARKS)
    if unknown:
        options.error(f"no benchmark is named {', '.join(sorted(unknown))}: known are {', '.join(BENCHMARKS)}")
    figures: list[Figure] = []
    console, described = Console(stderr=True), _machine()
    with tempfile.TemporaryDirectory(prefix="lockwork-bench-") as folder, start_private(Path(folder)) as server:
        bench = Bench(server.url, rounds=1 if chosen.quick else 5, scale=0.01 if chosen.quick else 1.0)
        for name in chosen.names or BENCHMARKS:
            with console.status(f"measuring: {name}"):
                figures += BENCHMARKS[name](bench)
    Console(width=None if sys.stdout.isatty() else 190).print(_table(figures, f"{described}; {_load()} at the end"))
    text = json.dumps({"machine": described, "python": platform.python_version(), "figures": [*map(_line, figures)]})
    print(text)
    if chosen.json:
        chosen.json.write_text(text + "\n")


def _machine() -> str:
    """Describe the machine: its processors and their load decide the figures."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                model = line.partition(":")[2].strip()
                break
        else:
            model = platform.machine()
        return f"{os.cpu_count()} x {model}, {platform.platform()}, Python {platform.python_version()}, {_load()}"
    return f"{os.cpu_count()} processors, {platform.platform()}, Python {platform.python_version()}"


def _load() -> str:
    return f"load {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else ""


def _line(figure: Figure) -> dict[str, object]:
    values = {field.name: getattr(figure, field.name) for field in fields(figure)}
    return {**values, "ratio": figure.ratio, "spread": figure.spread, "reached": figure.reached}


def _table(figures: list[Figure], machine: str) -> Table:
    missed = sum(figure.reached is False for figure in figures)
    goals = sum(figure.reached is not None for figure in figures)
    table = Table(
        "figure", "ours", "floor", "ratio", "rounds", "goal", "", "others", title="Lockwork beside plain redis-py",
        caption=f"{machine}\nrounds: lowest and highest ratio of a round. {missed} of {goals} goals are missed.",
    )  # fmt: skip
    for column in table.columns[1:5]:
        column.justify = "right"
    for figure in figures:
        table.add_row(
            figure.name,
            f"{_short(figure.ours)} {figure.unit}",
            f"{_short(figure.floor)}  {figure.floor_is}",
            f"{figure.ratio:.2f}",
            "{:.2f} to {:.2f}".format(*figure.spread) if figure.spread else "",
            _goal(figure),
            {None: "", True: "reached", False: "[red]MISSED[/]"}[figure.reached],
            "\n".join(f"{_short(value)} {library}" for library, value in figure.others),
        )
    return table


def _goal(figure: Figure) -> str:
    if figure.goal is None:
        return ""
    sign = "≤" if figure.less_is_better else "≥"
    return f"{sign} {figure.goal:g} x floor" if figure.goal_is_ratio else f"{sign} {figure.goal:,g} {figure.unit}"


def _short(value: float) -> str:
    if value >= 100 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.4f}" if 0.9 < value < 1 else f"{value:.2f}"


if __name__ == "__main__":
    main()
