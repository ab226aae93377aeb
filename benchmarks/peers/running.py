"""A run of one queue: jobs are enqueued by a process, run by workers, and each records its start."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import redis

from benchmarks.figures import quantile
from benchmarks.peers import jobs
from benchmarks.peers.catalog import NODE, Peer

LIMIT = 90
"""Seconds that a run may take."""
ENOUGH = 0.95
"""Share of the jobs to wait for: not every queue hands out its last ones at once."""
_PATIENCE = 5
"""Seconds after the last job was due, in which all must have started; otherwise the queue cannot keep up."""


@dataclass(frozen=True, slots=True)
class Latency:
    """Seconds from the time at which a job was due to its start."""

    p50: float
    p99: float
    p999: float
    started: float
    """Share of the jobs that had started at the end."""


class Failed(Exception):
    """A worker or a sender ended, or took too long."""


@dataclass(frozen=True, slots=True)
class Runner:
    """Runs queues on one pair of servers."""

    redis_url: str
    postgres: str | None

    def drain(self, peer: Peer, kind: str, count: int, processes: int) -> float:
        """Return the jobs per second of workers that find `count` jobs waiting, from the first start to the last."""
        with self._clean() as environment:
            self._send(peer, environment, kind, count)
            with self._workers(peer, environment, processes) as check:
                _until(lambda: jobs.count() >= ENOUGH * count, check)
            starts = [start for _, start in jobs.records()]
            return (len(starts) - 1) / (max(starts) - min(starts))

    def first_job(self, peer: Peer) -> float:
        """Return the seconds from the start of a worker's command to the start of a job that waits for it."""
        with self._clean() as environment:
            self._send(peer, environment, "noop", 1)
            begin = time.time()
            with self._workers(peer, environment, 1) as check:
                _until(lambda: jobs.count() >= 1, check)
            return next(jobs.records())[1] - begin

    def latency(self, peer: Peer, kind: str, rate: float, seconds: float, processes: int) -> Latency:
        """Return how long jobs wait that are enqueued at `rate` a second."""
        count = int(rate * seconds)
        with self._clean() as environment:
            self._send(peer, environment, kind, processes)  # workers have begun when they have run these
            with self._workers(peer, environment, processes) as check:
                _until(lambda: jobs.count() >= processes, check)
                time.sleep(1)  # others of several processes may still be starting
                self._send(peer, environment, kind, count, rate)
                end = time.monotonic() + _PATIENCE
                while jobs.count() < processes + count and time.monotonic() < end:
                    time.sleep(0.05)
            began = sorted(jobs.records())[processes:]
        waits = [start - due for due, start in began]
        started = min(len(waits) / count, 1.0)
        return Latency(quantile(waits, 0.5), quantile(waits, 0.99), quantile(waits, 0.999), started)

    @contextmanager
    def _clean(self) -> Iterator[dict[str, str]]:
        """Empty the server and make a folder for records; yields the environment of the processes."""
        with redis.Redis.from_url(self.redis_url) as client:
            client.flushall()
        folder = tempfile.mkdtemp(prefix="lockwork-bench-")
        os.environ["PEER_RECORDS"] = folder
        urls = {"PEER_REDIS": self.redis_url, "RQ_REDIS_URL": self.redis_url, "DOCKET_URL": self.redis_url,
                "PEER_NODE": str(NODE)}  # fmt: skip
        if self.postgres:
            urls["PEER_POSTGRES"] = self.postgres
        try:
            yield {**os.environ, **urls, "PYTHONPATH": str(Path.cwd())}
        finally:
            shutil.rmtree(folder)

    def _send(self, peer: Peer, environment: dict[str, str], kind: str, count: int, rate: float = 0) -> None:
        try:
            command = peer.sender(kind, count, rate)
            subprocess.run(command, env=environment, check=True, timeout=LIMIT, capture_output=True)
        except subprocess.CalledProcessError as error:
            raise Failed(f"{peer.name}: the sender failed:\n{error.stderr.decode()[-2000:]}") from None
        except subprocess.TimeoutExpired:
            raise Failed(f"{peer.name}: {count:,} jobs were not enqueued in {LIMIT} s") from None

    @contextmanager
    def _workers(self, peer: Peer, environment: dict[str, str], processes: int) -> Iterator[Callable[[], None]]:
        """Start workers; yields a function that raises an error if one has ended."""
        with tempfile.TemporaryFile() as log:
            workers = [
                subprocess.Popen(
                    peer.worker(processes), env=environment, stdout=log, stderr=log, start_new_session=True
                )
                for _ in range(1 if peer.own_processes else processes)
            ]

            def check() -> None:
                if any(worker.poll() is not None for worker in workers):
                    log.seek(0)
                    raise Failed(f"{peer.name}: a worker ended:\n{log.read().decode()[-2000:]}")

            try:
                yield check
            finally:
                for worker in workers:
                    worker.terminate()
                for worker in workers:
                    with suppress(subprocess.TimeoutExpired):
                        worker.wait(10)
                    with suppress(ProcessLookupError):
                        os.killpg(worker.pid, signal.SIGKILL)
                    worker.wait()


def _until(done: Callable[[], bool], check: Callable[[], None]) -> None:
    end = time.monotonic() + LIMIT
    while not done():
        check()
        if time.monotonic() > end:
            raise Failed(f"only {jobs.count():,} jobs had started after {LIMIT} s")
        time.sleep(0.02)
