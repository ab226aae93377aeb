"""A worker on several queues: order, shares, and wake-ups that must not get lost between them."""

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


def test_a_plain_list_is_strict_order(shift: Any, own_url: str, apps: Path, history: History) -> None:
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


def test_a_queue_that_refuses_fetches_delays_no_other(shift: Any, own_url: str, apps: Path, history: History) -> None:
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


def test_a_process_that_can_begin_on_the_other_queues_does(
    shift: Any, own_url: str, apps: Path, history: History, tmp_path: Path
) -> None:
    """What says who works on a queue is spoilt, and the process is dead: without a new one all queues would stand."""
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


def test_a_wake_up_that_a_busy_worker_cannot_use_goes_to_another(
    shift: Any, own_url: str, apps: Path, history: History, tmp_path: Path
) -> None:
    """One worker sleeps on b, fills up with jobs of a, and is told of one of b: the other is to run that at once."""
    gate = tmp_path / "gate"
    with worker("shift:lw", "--queues", "a,b", "-c", "1", url=own_url, folder=apps):
        sleepers(own_url, "b", 1)
        first = idle(own_url, "b")
        shift.gated_a.enqueue(history.path, str(gate))
        history.wait(1)
        with worker("shift:lw", "--queues", "b", "-c", "1", url=own_url, folder=apps):
            # the busy one is first in line: it has slept longest, unless a Cluster had it look again meanwhile
            another_sleeps(own_url, "b", first)
            called = time.monotonic()
            shift.mark_b.enqueue(history.path)
            history.wait(2)
            assert time.monotonic() - called < 4  # a sleeper looks again by itself after five seconds
        gate.touch()


def test_a_worker_that_stops_is_not_woken_any_more(
    shift: Any, own_url: str, apps: Path, history: History, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    with worker("shift:lw", "--queues", "a,b", "-c", "5", url=own_url, folder=apps) as stopping:
        shift.gated_a.enqueue(history.path, str(gate))
        history.wait(1)
        sleepers(own_url, "b", 1)
        stopping.send(signal.SIGTERM)
        sleepers(own_url, "b", 0)
        gate.touch()
        assert stopping.wait() == 0


def test_very_many_queues_with_long_names(shift: Any, own_url: str, apps: Path, history: History) -> None:
    """Their names are more than the 64 KiB that asyncio reads as one line unless it is told to."""
    names = ",".join([*(f"{'q' * 195}{number}" for number in range(400)), "default"])
    job = shift.mark.enqueue(history.path)
    with worker("shift:lw", "--queues", names, "--burst", url=own_url, folder=apps) as process:
        assert process.wait() == 0
    assert job.state() == "succeeded"
