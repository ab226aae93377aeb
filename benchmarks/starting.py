"""How long a worker takes from its command to its first job, and what it needs while it is idle.

`python -m benchmarks start` measures Lockwork beside a Python program that imports redis-py and pops one value.
`python -m benchmarks.starting` also starts the workers of other queues, where they are installed, in turns.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import NamedTuple

import redis

from benchmarks.figures import Bench, Figure
from benchmarks.peers.services import redis_server

IDLE = 14.0
"""Seconds until the memory and the connections of an idle worker are read."""
_LIMIT = 120.0
_ROUNDS = 5
_APPS = "benchmarks.starting_apps"
_BIN = Path(sys.executable).parent
_COMMANDS = {
    "lockwork": ("lockwork", "worker", f"{_APPS}:lockwork"),
    "taskiq": ("taskiq", "worker", f"{_APPS}:taskiq", "--workers", "1"),
    "celery": ("celery", "-A", f"{_APPS}:celery", "worker", "--concurrency", "1"),
    "dramatiq": ("dramatiq", f"{_APPS}:dramatiq", "--processes", "1"),
    "huey": ("huey_consumer", f"{_APPS}.huey"),
    "rq": ("rq", "worker"),
}
_FLOOR = """
import os, redis, time
redis.Redis.from_url(os.environ["LOCKWORK_URL"]).blpop(["floor"])
open(os.environ["BENCH_BEGAN"], "w").write(repr(time.monotonic()))
time.sleep(600)
"""


class Start(NamedTuple):
    """The start of a worker; the memory and connections are 0 if they were not measured."""

    first_job: float
    """Seconds from the command to the first job."""
    cpu: float
    """Seconds of processor time of all its processes until then."""
    rss: float
    pss: float
    """Resident memory of all processes in MB; of the pages that processes share, PSS counts each once."""
    connections: int


def start(bench: Bench) -> list[Figure]:
    """Start workers and floors in turns, and let the last ones idle."""
    rounds = [
        (started(bench.url, "lockwork", idle), started(bench.url, "", idle))
        for idle in [0.0] * (bench.rounds - 1) + [bench.seconds(IDLE, 1)]
    ]
    ours, floor = min(mine.first_job for mine, _ in rounds), min(bare.first_job for _, bare in rounds)
    cpu, bare_cpu = min(mine.cpu for mine, _ in rounds), min(bare.cpu for _, bare in rounds)
    (idle, bare), floor_is = rounds[-1], "import redis, BLPOP"
    return [
        Figure("lockwork worker to its first job", "ms", ours * 1000, floor * 1000, floor_is, None),
        Figure("... its processor time until then", "ms", cpu * 1000, bare_cpu * 1000, floor_is, None),
        Figure("idle worker, one process: RSS", "MB", idle.rss, bare.rss, floor_is, 75, less_is_better=True),
        Figure("idle worker, one process: PSS", "MB", idle.pss, bare.pss, floor_is, None),
        Figure(
            "idle worker, one process: connections", "", idle.connections, bare.connections, floor_is, 5,
            less_is_better=True,
        ),
    ]  # fmt: skip


def started(url: str, name: str, idle: float) -> Start:
    """Start the worker of a queue (the floor without a name), and end it `idle` seconds after its first job.

    If `idle` is not 0, measure its memory and connections then.
    """
    with redis.Redis.from_url(url) as client, tempfile.TemporaryDirectory() as folder:
        client.flushall()
        before, file = len(client.client_list()), Path(folder) / "began"
        environment = {**os.environ, "LOCKWORK_URL": url, "RQ_REDIS_URL": url, "BENCH_BEGAN": str(file)}
        if name:
            enqueue = f"from {_APPS} import MAKERS; MAKERS[{name!r}]()[1]()"
            subprocess.run([sys.executable, "-c", enqueue], env=environment, check=True)
            command = [str(_BIN / _COMMANDS[name][0]), *_COMMANDS[name][1:]]
        else:
            client.rpush("floor", 1)
            command = [sys.executable, "-c", _FLOOR]
        with (Path(folder) / "log").open("w+b") as log:
            called = time.monotonic()
            worker = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
            try:
                while not (file.exists() and (text := file.read_text())):
                    if worker.poll() is not None or time.monotonic() > called + _LIMIT:
                        log.seek(0)
                        raise SystemExit(f"{name} did not run its job:\n{log.read().decode()[-4000:]}")
                    time.sleep(0.002)
                first_job, cpu = float(text) - called, sum(map(_cpu, _processes(worker.pid)))
                if not idle:
                    return Start(first_job, cpu, 0.0, 0.0, 0)
                time.sleep(idle)
                sizes = [_memory(pid) for pid in _processes(worker.pid)]
                rss, pss = (sum(kilobytes) / 1024 for kilobytes in zip(*sizes, strict=True))
                return Start(first_job, cpu, rss, pss, len(client.client_list()) - before)
            finally:
                worker.terminate()
                with suppress(subprocess.TimeoutExpired):
                    worker.wait(10)
                worker.kill()
                worker.wait()


def _processes(pid: int) -> list[int]:
    """Return a process and all its descendants."""
    found = [pid]
    for thread in Path(f"/proc/{pid}/task").iterdir():
        for child in (thread / "children").read_text().split():
            found += _processes(int(child))
    return found


def _cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _memory(pid: int) -> tuple[int, int]:
    """Return the RSS and the PSS in KiB."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    sizes = {line.split()[0]: int(line.split()[1]) for line in lines[1:]}
    return sizes["Rss:"], sizes["Pss:"]


def _installed(names: Sequence[str]) -> list[str]:
    found: list[str] = []
    for name in names:
        with suppress(PackageNotFoundError):
            version(name)
            found.append(name)
    return found


def main() -> None:
    """Start all workers in turns, and print a table."""
    options = argparse.ArgumentParser(prog="python -m benchmarks.starting", description=__doc__)
    options.add_argument("names", nargs="*", metavar="NAME", help=f"which to start: {', '.join(_COMMANDS)}")
    options.add_argument("--rounds", type=int, default=_ROUNDS)
    chosen = options.parse_args()
    names = ["", *(chosen.names or _installed(list(_COMMANDS)))]
    measured: dict[str, list[Start]] = {name: [] for name in names}
    load = os.getloadavg()[0]
    with redis_server() as url:
        for number in range(chosen.rounds):
            for name in names:
                measured[name].append(started(url, name, IDLE if number == chosen.rounds - 1 else 0.0))
    print(f"{platform.platform()}, Python {platform.python_version()}, {os.cpu_count()} processors, load {load:.1f}")
    print("worker                 first job, ms: median (least to most)   CPU, ms   idle: RSS    PSS  connections")
    for name, starts in sorted(measured.items(), key=lambda each: statistics.median(x.first_job for x in each[1])):
        times = [start.first_job * 1000 for start in starts]
        cpu = statistics.median(start.cpu for start in starts) * 1000
        label = f"{name} {version(name)}" if name else "import redis, BLPOP"
        span = f"{statistics.median(times):,.0f} ({min(times):,.0f} to {max(times):,.0f})"
        idle = starts[-1]
        print(f"{label:22} {span:>39} {cpu:9,.0f} {idle.rss:8.0f} MB {idle.pss:4.0f} MB {idle.connections:6}")


if __name__ == "__main__":
    main()
