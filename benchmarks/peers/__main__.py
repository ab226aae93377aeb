"""`make peers`: how fast, and how soon, Lockwork and other queues run jobs; all take turns on one server."""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import cast

from rich.console import Console
from rich.table import Table

from benchmarks.peers.catalog import PEERS, Peer
from benchmarks.peers.chart import bars
from benchmarks.peers.running import Failed, Runner
from benchmarks.peers.services import postgres_server, redis_server

_CPU_PROCESSES = 2


@dataclass(frozen=True)
class Session:
    """What to measure, and with which servers."""

    console: Console
    runner: Runner
    peers: Sequence[Peer]
    rounds: int
    scale: float
    """Share of the usual number of jobs and of the usual time."""

    def each(self, title: str, measure: Callable[[Peer], float]) -> dict[str, list[float]]:
        """Return what `measure` returns for each queue in each round; a queue that fails has fewer values."""
        values: dict[str, list[float]] = {peer.name: [] for peer in self.peers}
        for number in range(self.rounds):
            for peer in self.peers:
                with self.console.status(f"{title}, round {number + 1} of {self.rounds}: {peer.name}"):
                    try:
                        values[peer.name].append(measure(peer))
                    except Failed as error:
                        self.console.print(f"[red]{title}:[/] {error}", highlight=False)
        return values

    def drained(self, kind: str, processes: int) -> dict[str, list[float]]:
        """Return the jobs per second of each queue."""

        def measure(peer: Peer) -> float:
            return self.runner.drain(peer, kind, max(20, int(peer.jobs[kind] * self.scale)), processes)

        return self.each(f"drain, {kind}, {processes} processes", measure)


def noop(session: Session) -> list[dict[str, object]]:
    """Jobs that do nothing, in one process: what `--chart` draws."""
    return _drained(session, "noop", 1)


def drain(session: Session) -> list[dict[str, object]]:
    """Jobs that wait 1 ms, and jobs that compute for 10 ms."""
    kinds = (("io", 1), ("io", 4), ("cpu", _CPU_PROCESSES))
    return [line for kind, processes in kinds for line in _drained(session, kind, processes)]


def _drained(session: Session, kind: str, processes: int) -> list[dict[str, object]]:
    rates = session.drained(kind, processes)
    _print_rates(session, f"jobs/s, {kind}, {_plural(processes)}", rates)
    return _lines("drain", rates, kind=kind, processes=processes, unit="jobs/s")


def first(session: Session) -> list[dict[str, object]]:
    """Time from the start of a worker's command to the start of a job that waits for it."""
    seconds = session.each("first job", session.runner.first_job)
    table = Table("queue", "version", "median s", "rounds", title="from the worker's command to its first job")
    for name, values in _sorted(seconds, reverse=False):
        table.add_row(name, _version(session, name), f"{statistics.median(values):.2f}", _all(values, "{:.2f}"))
    session.console.print(table)
    return _lines("first job", seconds, unit="s")


def latency(session: Session) -> list[dict[str, object]]:
    """Time from the enqueue of a job to its start, at 1,000 jobs/s, and at shares of what each queue can do."""
    lines: list[dict[str, object]] = []
    for kind, processes in (("noop", 1), ("io", 1), ("cpu", _CPU_PROCESSES)):
        rates = session.drained(kind, processes)
        capacity = {name: statistics.median(values) for name, values in rates.items() if values}
        loads: list[tuple[str, Mapping[str, float]]] = [
            (f"{share:.0%} of its own rate", {name: rate * share for name, rate in capacity.items()})
            for share in (0.5, 0.9)
        ]
        if kind != "cpu":
            loads.insert(0, ("1,000 jobs/s", dict.fromkeys(capacity, 1000.0)))
        for label, load in loads:
            lines += _latencies(session, kind, processes, label, load)
    return lines


def _latencies(
    session: Session, kind: str, processes: int, label: str, load: Mapping[str, float]
) -> list[dict[str, object]]:
    table = Table("queue", "jobs/s", "p50 ms", "p99 ms", "p999 ms", "", title=f"enqueue to start, {kind}, {label}")
    lines: list[dict[str, object]] = []
    for peer in session.peers:
        if peer.name not in load:
            continue
        with session.console.status(f"latency, {kind}, {label}: {peer.name}"):
            try:
                found = session.runner.latency(peer, kind, load[peer.name], max(1, 6 * session.scale), processes)
            except Failed as error:
                session.console.print(f"[red]latency:[/] {error}", highlight=False)
                continue
        note = "" if found.started == 1 else f"only {found.started:.0%} had started"
        table.add_row(peer.name, f"{load[peer.name]:,.0f}", *map(_ms, (found.p50, found.p99, found.p999)), note)
        lines.append({"measure": "latency", "queue": peer.name, "kind": kind, "load": label, **asdict(found),
                      "processes": processes, "rate": load[peer.name]})  # fmt: skip
    session.console.print(table)
    return lines


def processes(session: Session) -> list[dict[str, object]]:
    """Enqueue to start at 1,000 jobs/s that wait 1 ms, with 2, 4 and 8 processes."""
    lines: list[dict[str, object]] = []
    for number in (2, 4, 8):
        load = {peer.name: 1000.0 for peer in session.peers}
        lines += _latencies(session, "io", number, f"1,000 jobs/s, {_plural(number)}", load)
    return lines


MEASURES = {"noop": noop, "drain": drain, "first": first, "latency": latency, "processes": processes}


def main() -> None:
    """Read the command line and measure."""
    options = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__)
    options.add_argument("measures", nargs="*", metavar="MEASURE", help=f"which: {', '.join(MEASURES)}; default: all")
    names = [peer.name for peer in PEERS]
    options.add_argument(
        "--only", metavar="QUEUE", action="append", choices=names, help=f"this queue; repeatable: {'; '.join(names)}"
    )
    options.add_argument("--quick", action="store_true", help="a tenth of the jobs and one round: that all of it runs")
    options.add_argument("--chart", type=Path, metavar="FILE", help="draw the rates of `noop` there (SVG)")
    options.add_argument("--json", type=Path, metavar="FILE", help="write the figures there, too")
    chosen = options.parse_args()
    unknown = set(chosen.measures) - set(MEASURES)
    if unknown:
        options.error(f"no measure is named {', '.join(sorted(unknown))}: known are {', '.join(MEASURES)}")
    if chosen.chart and chosen.measures and "noop" not in chosen.measures:
        options.error("--chart draws the measure noop: name it, too")
    console = Console(width=None if os.isatty(1) else 140)
    with redis_server() as url, postgres_server() as postgres:
        peers = [peer for peer in PEERS if peer.version and (postgres or peer.name != "procrastinate")]
        missing = sorted({peer.name for peer in PEERS} - {peer.name for peer in peers})
        if missing:
            console.print(f"not installed: {', '.join(missing)}")
        if chosen.only:
            peers = [peer for peer in peers if peer.name in chosen.only]
        session = Session(console, Runner(url, postgres), peers, 1 if chosen.quick else 3, 0.1 if chosen.quick else 1.0)
        lines = [line for name in chosen.measures or MEASURES for line in MEASURES[name](session)]
    machine = f"{platform.platform()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    versions = {peer.name: peer.version for peer in peers}
    console.print(machine)
    if chosen.chart:
        drawn = [line for line in lines if (line["measure"], line.get("kind")) == ("drain", "noop")]
        rates = {str(line["queue"]): cast("float", line["median"]) for line in drawn}
        chosen.chart.write_text(bars("Jobs that do nothing, run per second by one process", rates, "lockwork"))
    if chosen.json:
        chosen.json.write_text(
            json.dumps({"machine": machine, "versions": versions, "figures": lines}, indent=1) + "\n"
        )


def _print_rates(session: Session, title: str, rates: Mapping[str, list[float]]) -> None:
    kills = {peer.name: peer.kill for peer in session.peers}
    table = Table("queue", "version", "median", "rounds", "jobs of a killed worker", title=title)
    for name, values in _sorted(rates, reverse=True):
        median = f"{statistics.median(values):,.0f}"
        table.add_row(name, _version(session, name), median, _all(values, "{:,.0f}"), kills[name])
    session.console.print(table)


def _sorted(values: Mapping[str, list[float]], *, reverse: bool) -> Iterable[tuple[str, list[float]]]:
    present = [(name, found) for name, found in values.items() if found]
    return sorted(present, key=lambda item: statistics.median(item[1]), reverse=reverse)


def _lines(measure: str, values: Mapping[str, list[float]], **facts: object) -> list[dict[str, object]]:
    return [
        {"measure": measure, "queue": name, "median": statistics.median(found), "rounds": found, **facts}
        for name, found in values.items()
        if found
    ]


def _version(session: Session, name: str) -> str:
    return next(peer.version for peer in session.peers if peer.name == name)


def _all(values: Iterable[float], form: str) -> str:
    return " ".join(form.format(value) for value in values)


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:,.1f}"


def _plural(processes: int) -> str:
    return "1 process" if processes == 1 else f"{processes} processes"


if __name__ == "__main__":
    main()
