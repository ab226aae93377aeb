"""A worker with several queues: order, shares, and wake-ups that must not get lost between queues."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

from clients import client_of
from history import History
from processes import until, worker
from sleeping import another_sleeps, idle, sleepers


def test_queues_without_weights_are_served_in_strict_order(
    shift: Any, own_url: str, apps: Path, history: History
) -> None:
    shift.mark_b.enqueue_many([(history.path,)] * 10)
    shift.mark_a.enqueue_many([(history.path,)] * 10)
    with worker("shift:lw", "--queues", "a,b", "-c", "1", "--burst", url=own_url, folder=apps) as process:
        assert process.wait() == 0
    assert "".join(line["queue"] for line in history.lines("ran")) == "a" * 10 + "b" * 10


def test_weights_share_the_slots(shift: Any, own_url: str, apps: Path, history: History) -> None:
    """Prefetch or strict priority would starve the light queue (celery#3434)."""
    shift.mark_b.enqueue_many([(history.path,)] * 100)
    shift.mark_a.enqueue_many([(history.path,)] * 100)
    with worker("shift:lw", "--queues", "a,b:4", "-c", "5", "--burst", url=own_url, folder=apps) as process:
        assert process.wait() == 0
    lines = [line["queue"] for line in history.lines("ran")]
    assert len(lines) == 200
    assert 17 <= lines[:100].count("a") <= 23


def test_queue_of_large_jobs_leaves_the_other_queue_its_share(
    shift: Any, own_url: str, apps: Path, history: History
) -> None:
    """A reply with 1 MiB of records is shorter than the queue's share of the slots."""
    shift.padded_b.enqueue_many([(history.path, "x" * 60_000)] * 600)
    with worker("shift:lw", "--queues", "a:1,b:1", "-c", "100", url=own_url, folder=apps):
        history.wait(200)
        shift.mark_a.enqueue_many([(history.path,)] * 20)
        before = len(history.lines("ran"))
        until(lambda: [line["queue"] for line in history.lines("ran")].count("a") == 20, "the small jobs run")
    queues = [line["queue"] for line in history.lines("ran")]
    last = len(queues) - queues[::-1].index("a")
    assert queues[before:last].count("b") <= 100


def test_queue_that_refuses_fetches_delays_no_other(shift: Any, own_url: str, apps: Path, history: History) -> None:
    with client_of(own_url) as admin:
        admin.set("lw:{q:a}:ready:1", "somebody else's")
        with worker("shift:lw", "--queues", "a,b", "-c", "2", url=own_url, folder=apps) as process:
            until(lambda: "jobs of queue a cannot be fetched" in process.errors, "it is refused")
            shift.mark_b.enqueue_many([(history.path,)] * 20)
            history.wait(20)
            admin.delete("lw:{q:a}:ready:1")
            until(lambda: "jobs of queue a can be fetched again" in process.errors, "it is refused no more")
            shift.mark_a.enqueue(history.path)
            history.wait(21)


def test_replacement_starts_without_queue_that_refuses_sessions(
    shift: Any, own_url: str, apps: Path, history: History, tmp_path: Path
) -> None:
    """The key of a queue's workers contains foreign data when the process dies."""
    gate = tmp_path / "gate"
    with client_of(own_url) as admin:
        with worker("shift:lw", "--queues", "a,b", "-c", "2", url=own_url, folder=apps) as process:
            shift.mark_b.enqueue(history.path)
            (before,) = history.wait(1)
            until(lambda: shift.lw.queue("b").status().succeeded == 1, "it is settled")
            admin.set("lw:{q:a}:workers", "somebody else's")
            os.kill(before["pid"], signal.SIGKILL)
            shift.mark_a.enqueue(history.path)
            shift.mark_b.enqueue_many([(history.path,)] * 20)
            assert {line["queue"] for line in history.wait(21)} == {"b"}
            assert "works without a for now" in process.errors
            gated = shift.gated_b.enqueue(history.path, str(gate))
            history.wait(22)
            admin.delete("lw:{q:a}:workers")
            assert history.wait(23)[-1]["queue"] == "a"
            gate.touch()
            assert gated.result(30) == 1
            assert process.errors.count("ended (") == 1, "only the one that was killed"
        assert shift.lw.queue("b").status().recovered == 0


def test_busy_worker_forwards_wake_up(shift: Any, own_url: str, apps: Path, history: History, tmp_path: Path) -> None:
    """A worker is idle on b while all its slots run jobs of a; the other worker must run the job of b at once."""
    gate = tmp_path / "gate"
    with worker("shift:lw", "--queues", "a,b", "-c", "1", url=own_url, folder=apps):
        sleepers(own_url, "b", 1)
        first = idle(own_url, "b")
        shift.gated_a.enqueue(history.path, str(gate))
        history.wait(1)
        with worker("shift:lw", "--queues", "b", "-c", "1", url=own_url, folder=apps):
            # the busy worker is the first of the idle workers, unless a poll on a Cluster moved it
            another_sleeps(own_url, "b", first)
            called = time.monotonic()
            shift.mark_b.enqueue(history.path)
            history.wait(2)
            assert time.monotonic() - called < 4  # an idle worker polls after five seconds
        gate.touch()


def test_stopping_worker_is_not_woken(shift: Any, own_url: str, apps: Path, history: History, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    with worker("shift:lw", "--queues", "a,b", "-c", "5", url=own_url, folder=apps) as stopping:
        shift.gated_a.enqueue(history.path, str(gate))
        history.wait(1)
        sleepers(own_url, "b", 1)
        stopping.send(signal.SIGTERM)
        sleepers(own_url, "b", 0)
        gate.touch()
        assert stopping.wait() == 0


def test_worker_accepts_long_lists_of_queues(shift: Any, own_url: str, apps: Path, history: History) -> None:
    """Their names exceed the 64 KiB that asyncio reads as one line by default."""
    names = ",".join([*(f"{'q' * 195}{number}" for number in range(400)), "default"])
    job = shift.mark.enqueue(history.path)
    with worker("shift:lw", "--queues", names, "--burst", url=own_url, folder=apps) as process:
        assert process.wait() == 0
    assert job.state() == "succeeded"
