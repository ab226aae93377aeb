"""`make peers`: how fast one worker process of Lockwork, and of other Python queues, runs jobs that do nothing.

All take turns on one server. Each enqueues its jobs, then its worker starts; the clock runs from the first job to the
last, inside the worker.
"""

from __future__ import annotations

import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import redis
from rich.console import Console
from rich.table import Table

from lockwork.runtime.embedded.folder import program

ROUNDS = 3
LIMIT = 120
"""Seconds that a run may take."""
_MODULE = "benchmarks.peer_apps"
_BIN = Path(sys.executable).parent


class Peer(NamedTuple):
    """A queue: its package, the jobs of a run, how its worker starts, and what that is called in the table."""

    name: str
    jobs: int
    command: tuple[str, ...]
    shown: str


PEERS = (
    Peer("lockwork", 200_000, ("lockwork", "worker", f"{_MODULE}:lockwork", "--concurrency", "1000"), "asyncio"),
    Peer("taskiq", 10_000, ("taskiq", "worker", f"{_MODULE}:taskiq", "--workers", "1"), "asyncio, Redis streams"),
    Peer("celery", 10_000, ("celery", "-A", f"{_MODULE}:celery", "worker", "--pool", "solo", "--without-gossip",
                            "--without-mingle", "--without-heartbeat"), "solo pool, late acknowledgment"),
    Peer("dramatiq", 10_000, ("dramatiq", f"{_MODULE}:dramatiq", "--processes", "1", "--threads", "8"), "8 threads"),
    Peer("huey", 10_000, ("huey_consumer", f"{_MODULE}.huey", "--workers", "8"), "8 threads; a crash loses jobs"),
    Peer("rq", 2_000, ("rq", "worker", "--worker-class", "rq.worker.SimpleWorker"), "no fork for each job"),
)  # fmt: skip


def main() -> None:
    """Let all take turns, and print the median of each."""
    console = Console()
    rates: dict[str, list[float]] = {peer.name: [] for peer in PEERS}
    with tempfile.TemporaryDirectory(prefix="lockwork-bench-") as folder, _server(Path(folder)) as url:
        for number in range(ROUNDS):
            for peer in PEERS:
                with console.status(f"round {number + 1} of {ROUNDS}: {peer.name}"):
                    rates[peer.name].append(_rate(url, peer))
    medians = {name: statistics.median(found) for name, found in rates.items()}
    table = Table("queue", "version", "jobs/s", "Lockwork is faster by", "worker: one process")
    for peer in sorted(PEERS, key=lambda peer: -medians[peer.name]):
        rate, times = medians[peer.name], medians["lockwork"] / medians[peer.name]
        table.add_row(peer.name, version(peer.name), f"{rate:,.0f}", f"{times:.0f} x" if times > 1 else "", peer.shown)
    console.print(table)


def _rate(url: str, peer: Peer) -> float:
    """Jobs per second of one run."""
    environment = {**os.environ, "LOCKWORK_URL": url, "RQ_REDIS_URL": url, "PEER_JOBS": str(peer.jobs)}
    with redis.Redis.from_url(url) as client:
        client.flushall()
        enqueue = f"from {_MODULE} import MAKERS; MAKERS[{peer.name!r}]()[1]({peer.jobs})"
        subprocess.run([sys.executable, "-c", enqueue], env=environment, check=True, timeout=LIMIT)
        words = [str(_BIN / peer.command[0]), *peer.command[1:]]
        with tempfile.TemporaryFile() as log:
            worker = subprocess.Popen(words, env=environment, stdout=log, stderr=subprocess.STDOUT)
            try:
                end = time.monotonic() + LIMIT
                while not (found := client.get("jobs-per-second")):
                    if worker.poll() is not None or time.monotonic() > end:
                        log.seek(0)
                        raise SystemExit(f"{peer.name} did not run its jobs:\n{log.read().decode()[-4000:]}")
                    time.sleep(0.05)
            finally:
                worker.terminate()
                with suppress(subprocess.TimeoutExpired):
                    worker.wait(10)
                worker.kill()
                worker.wait()
    return float(found)


@contextmanager
def _server(folder: Path) -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    options = {"port": port, "bind": "127.0.0.1", "dir": folder, "save": "", "appendonly": "no"}
    words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    server = subprocess.Popen([program(), *words], stdout=subprocess.DEVNULL)
    try:
        with redis.Redis(port=port) as client:
            while True:
                with suppress(redis.ConnectionError):
                    client.ping()
                    break
                time.sleep(0.02)
        yield f"redis://127.0.0.1:{port}/0"
    finally:
        server.kill()
        server.wait(10)


if __name__ == "__main__":
    main()
