"""A program leaves no open socket, file or task at its end: Python's development mode reports none."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import zygote
from lockwork.worker.environment import LOOPS
from ports import free_port
from processes import until
from scraping import answer

APP = """
import asyncio, os, threading
from lockwork import Lockwork

lw = Lockwork()

@lw.task
async def on_loop(n: int) -> int:
    return n

@lw.task
def in_thread(n: int) -> int:
    with lw.lock("a"):
        return n

@lw.task(executor="process")
def in_process(n: int) -> int:
    return n

@lw.lifespan
async def lifespan():
    await on_loop.aenqueue(0)
    yield

def used() -> None:
    for task in (on_loop, in_thread, in_process):
        task.enqueue(1)
    with lw.lock("a", wait=30):
        print(len(lw.queues()))

async def aused() -> None:
    await on_loop.aenqueue_many([(1,), (2,)])
    async with lw.lock("a", wait=30):
        print(len(await lw.aqueues()))
"""
SCRIPTS = {
    "sync": "used()",
    "held": "lw.lock('b').acquire(); lw.semaphore('c', 2).acquire()",
    "threads": """
many = [threading.Thread(target=used) for _ in range(3)]
[each.start() for each in many]
[each.join() for each in many]
""",
    "raises": "used(); raise SystemExit(0)",
    "asyncio": "asyncio.run(aused())",
    "asyncio twice": "asyncio.run(aused()); used(); asyncio.run(aused())",
    "uvloop": "import uvloop; uvloop.run(aused())",
    "cancelled waiter": """
async def waits() -> None:
    async with lw.lock("w"):
        waiting = asyncio.create_task(lw.lock("w").aacquire())
        await asyncio.sleep(0.2)
asyncio.run(waits())
asyncio.run(waits())
""",
    "closed": "used(); asyncio.run(aused()); lw.close()",
}
COMMANDS = (
    "status",
    "doctor",
    "jobs",
    "workers",
    "locks",
    "queue",
    "dead",
    "schedules",
    "flows",
    "stocks",
    "metrics --once",
    "enqueue on_loop --args [1]",
    "run --lock d -- true",
    "worker exits:lw --once",
    "worker exits:lw --burst --loop asyncio",
    "worker exits:lw --burst --loop uvloop",
    "worker exits:nothing",
)
BAD = ("ResourceWarning", "Exception ignored", "was destroyed", "never awaited", "Traceback")


MODE = {"PYTHONDEVMODE": "1", "PYTHONWARNINGS": "error::ResourceWarning"}


@pytest.fixture(scope="module", autouse=True)
def development_mode() -> None:
    """Start the process that is copied, before a test counts its sockets."""
    zygote.start(tuple(MODE.items()))


@pytest.fixture
def developed(own_url: str, tmp_path: Path) -> Callable[..., subprocess.Popen[bytes]]:
    """Start Python in its development mode, in a folder with an app, on a private server."""
    (tmp_path / "exits.py").write_text(APP)
    environment = {**os.environ, **MODE, "LOCKWORK_URL": own_url}

    def start(*command: str, **changes: str) -> subprocess.Popen[bytes]:
        return zygote.popen(
            [sys.executable, *command],
            cwd=tmp_path,
            env=environment | changes,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    return start


def check(process: subprocess.Popen[bytes]) -> None:
    said = process.communicate(timeout=60)[0].decode()
    assert not [word for word in BAD if word in said], said


@pytest.mark.parametrize("script", SCRIPTS)
@pytest.mark.parametrize("embedded", [False, True], ids=["url", "embedded"])
def test_script_that_ends(developed: Any, tmp_path: Path, script: str, embedded: bool) -> None:
    if embedded and script not in ("sync", "asyncio"):
        pytest.skip("one of a kind is enough")
    (tmp_path / "script.py").write_text(
        f"from exits import *\nfrom exits import asyncio, threading\n{SCRIPTS[script]}\n"
    )
    changes = {"LOCKWORK_URL": "", "LOCKWORK_HOME": str(tmp_path / "home")} if embedded else {}
    process = developed("script.py", **changes)
    check(process)
    assert process.returncode == 0


@pytest.mark.parametrize("command", COMMANDS)
def test_command_that_ends(developed: Any, command: str) -> None:
    check(developed("-m", "lockwork", *command.split()))


@pytest.mark.parametrize("loop", LOOPS)
def test_worker_that_is_stopped(developed: Any, own_url: str, tmp_path: Path, loop: str) -> None:
    port = str(free_port())
    process = developed(
        "-m", "lockwork", "worker", "exits:lw", "--loop", loop, "--processes", "2", "--health-port", port
    )
    check(
        developed("-c", "from exits import *\nfor task in (on_loop, in_thread, in_process): task.enqueue(1).result(40)")
    )
    process.send_signal(signal.SIGTERM)
    check(process)
    assert process.returncode == 0


@pytest.mark.parametrize("command", ["dashboard", "metrics"])
def test_server_that_is_stopped(developed: Any, command: str) -> None:
    port = free_port()
    process = developed("-m", "lockwork", command, "--port", str(port))
    until(lambda: answer(port, "/metrics")[0], "it answers")
    process.send_signal(signal.SIGTERM)
    check(process)
