"""Clients that forge messages on every channel while jobs run and a lock changes holders.

They send unreadable messages, offers and grants with wrong seals, and repetitions of received messages.
"""

from __future__ import annotations

import random
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from pathlib import Path

import pytest
import redis

from chaos import tiers
from chaos.checkers import job_problems, lock_problems
from chaos.players import Players
from chaos.report import Report
from chaos.tiers import SEED
from chaos.worker_processes import WorkerProcesses
from lockwork.protocol.keys import QueueKeys
from processes import until

PIECE = "jobs"
SECONDS = tiers.counts(PIECE).seconds
MONITORS = 3
LATEST = 3.0
"""Seconds until a job starts and between two holders; a lost wake-up would delay by five seconds."""
FORGED = 1_000_000
"""The number of a job that was never enqueued."""
_ODD = ("", "x", "a b", "1 2 3", "look", f"1 {10**30}", "\x00", "9" * 5000, "y" * 200_000)

pytestmark = pytest.mark.timeout(SECONDS * 3 + 120)


class Forgers:
    """Clients that may only subscribe and publish."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._heard: deque[tuple[bytes, bytes]] = deque(maxlen=200)
        self._stop = threading.Event()
        self.sent = self.errors = 0
        self._threads = [threading.Thread(target=self._listen) for _ in range(MONITORS)]
        self._threads.append(threading.Thread(target=self._publish))

    @contextmanager
    def at_work(self) -> Iterator[None]:
        for thread in self._threads:
            thread.start()
        try:
            yield
        finally:
            self._stop.set()
            for thread in self._threads:
                thread.join()

    def _listen(self) -> None:
        with redis.Redis.from_url(self._url) as client, client.pubsub() as monitor:
            monitor.psubscribe("*")
            while not self._stop.is_set():
                message = monitor.get_message(timeout=0.1)
                if message and message["type"] == "pmessage":
                    self._heard.append((message["channel"], message["data"]))

    def _publish(self) -> None:
        draw, queue = random.Random(SEED), QueueKeys("lw", "default").jobs
        with redis.Redis.from_url(self._url) as client:
            while not self._stop.wait(0.02):
                pipeline = client.pipeline(transaction=False)
                heard = list(self._heard)
                tickets = [queue, *(data.split(b" ", 1)[0].decode(errors="replace") for _, data in heard[-5:])]
                for channel in client.pubsub_channels("lw:wake:*"):
                    text = self._words(draw)
                    pipeline.publish(channel, f"{draw.choice(tickets)} {text}" if draw.random() < 0.9 else text)
                for channel, data in draw.sample(heard, min(2, len(heard))):
                    pipeline.publish(channel, data)
                self.sent += len(pipeline.execute())

    def _words(self, draw: random.Random) -> str:
        seal, fence = f"{draw.getrandbits(160):040x}", time.time_ns() // 1000
        return draw.choice([
            draw.choice(_ODD),
            f'{seal} 1 {fence} ~ forged 1,3,,;["step",[{FORGED}]]',
            f'1 {fence} ~ forged 1,3,,;["step",[{FORGED}]]',
            f"{seal} {fence} {fence + 3_600_000_000} {fence}",
            f"{fence} {fence + 3_600_000_000} {fence}",
        ])  # fmt: skip


def test_forged_messages_neither_lose_delay_nor_start_jobs(
    chaos_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, report: Report
) -> None:
    monkeypatch.setenv("CHAOS_LONGEST", "0.005")
    draw, enqueued = random.Random(SEED), []
    strangers = Forgers(chaos_url)
    with ExitStack() as stack:
        running = WorkerProcesses(stack, chaos_url, tmp_path, 2, lease="3s", places=10)
        players = Players(stack, chaos_url, tmp_path / "turns", "turns.py", "real", 4)
        until(lambda: len({line["pid"] for line in players.history.lines("enter")}) == 4, "each had a turn", 60)
        with strangers.at_work():
            end, began = time.monotonic() + SECONDS, players.entered()
            while time.monotonic() < end:
                enqueued.append(time.time())
                running.step.enqueue(len(enqueued) - 1)
                threading.Event().wait(draw.uniform(0, 0.05))
            status = running.finish()
            turns = players.entered() - began
        jobs, lines = running.history.lines("run"), players.history.lines()
    with redis.Redis.from_url(chaos_url, decode_responses=True) as client:
        accepted = [int(fence) for fence in client.lrange("accepted", 0, -1)]
        value = int(client.hget("store", "value") or 0)
    late = max(line["at"] - enqueued[line["number"]] for line in jobs if line["number"] < FORGED)
    entries = sorted(line["at"] for line in lines if line["event"] == "enter")
    gap = max(after - before for before, after in pairwise(entries))
    problems = job_problems(jobs, status, len(enqueued)) + lock_problems(lines, accepted, value)
    report.run(
        f"{len(enqueued):,} jobs one by one, {turns:,} grants of a lock",
        f"{strangers.sent:,} forged messages",
        f"latest start after {late:.1f} s, longest gap between two holders {gap:.1f} s",
        problems,
    )
    assert problems == []
    assert {line["number"] for line in jobs} == set(range(len(enqueued)))
    assert strangers.sent > 10 * SECONDS
    assert turns > 20
    assert max(late, gap) < LATEST
