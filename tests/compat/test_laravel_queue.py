"""The function on the page about Laravel pushes jobs that Laravel's own worker runs."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import redis

from compat.laravel import CONNECTION
from docs.snippets import steps
from lockwork.runtime.embedded import Embedded
from processes import until

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "coming-from" / "laravel.md"
PACKAGES = "php-cli php-redis php-illuminate-queue php-illuminate-redis php-illuminate-events"
QUEUE = "mail"


@pytest.fixture
def push() -> Callable[..., str]:
    """The function of the page."""
    (code,) = [step.code for step in steps(PAGE) if step.file == "laravel_queue.py"]
    assert len([line for line in code.partition("def push")[2].splitlines() if line]) <= 26
    names: dict[str, Any] = {}
    exec(compile(code, "laravel_queue.py", "exec"), names)
    found: Callable[..., str] = names["push"]
    return found


@pytest.fixture
def work(server: Embedded) -> Callable[[], list[dict[str, Any]]]:
    """Run Laravel's worker until its queue is empty, and return what it did; skipped where it is not installed."""
    if reason := _lacking():
        pytest.skip(reason)
    socket = server.url.removeprefix("unix://").partition("?")[0]
    command = ["php", str(HERE / "laravel_worker.php"), socket, CONNECTION, QUEUE]

    def run() -> list[dict[str, Any]]:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        assert (done.returncode, done.stderr) == (0, "")
        return [json.loads(line) for line in done.stdout.splitlines()]

    return run


@cache
def _lacking() -> str:
    if shutil.which("php") is None:
        return f"PHP is not installed; on Debian: apt-get install {PACKAGES}"
    parts = "".join(f"require 'Illuminate/{part}/autoload.php';" for part in ("Queue", "Redis", "Events"))
    found = subprocess.run(
        ["php", "-r", f"{parts} exit(extension_loaded('redis') ? 0 : 1);"], capture_output=True, check=False, timeout=30
    )
    return "" if found.returncode == 0 else f"PHP lacks parts of Laravel; on Debian: apt-get install {PACKAGES}"


def test_pushed_job_runs_with_its_data_and_is_deleted(
    admin: redis.Redis, push: Callable[..., str], work: Callable[[], list[dict[str, Any]]]
) -> None:
    data = {"email": "ada@example.org", "name": "Zoë 张", "tags": ["new"]}
    job = push(admin, "SendWelcome", data, queue=QUEUE)
    assert work() == [{"attempt": 1, "id": job, "data": data}]
    assert admin.keys(f"{CONNECTION}queues:*") == []


def test_failing_job_is_released_until_its_tries_are_used(
    admin: redis.Redis, push: Callable[..., str], work: Callable[[], list[dict[str, Any]]]
) -> None:
    push(admin, "SendWelcome", {"failures": 2}, queue=QUEUE, tries=3)
    push(admin, "SendWelcome@fire", {"failures": 5}, queue=QUEUE, tries=2)
    attempts = [(line["data"]["failures"], line["attempt"]) for line in work()]
    assert sorted(attempts) == [(2, 1), (2, 2), (2, 3), (5, 1), (5, 2)]
    assert admin.keys(f"{CONNECTION}queues:*") == []


def test_delayed_job_waits_for_its_time(
    admin: redis.Redis, push: Callable[..., str], work: Callable[[], list[dict[str, Any]]]
) -> None:
    job = push(admin, "SendWelcome", {"later": True}, queue=QUEUE, delay=3600)
    assert work() == []
    delayed = f"{CONNECTION}queues:{QUEUE}:delayed"
    (payload,) = admin.zrange(delayed, 0, -1)
    assert isinstance(payload, bytes)
    admin.zadd(delayed, {payload: 0})
    assert [line["id"] for line in until(work, "the job has run")] == [job]


def test_payload_without_attempts_is_lost_in_laravel(
    admin: redis.Redis, push: Callable[..., str], work: Callable[[], list[dict[str, Any]]]
) -> None:
    push(admin, "SendWelcome", {}, queue=QUEUE)
    key = f"{CONNECTION}queues:{QUEUE}"
    (payload,) = admin.lrange(key, 0, -1)
    job = json.loads(payload)
    del job["attempts"]
    admin.lset(key, 0, json.dumps(job))
    assert work() == []
    assert admin.llen(key) == 0
