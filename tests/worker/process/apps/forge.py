"""Tasks in runner processes that fail in many ways; each attempt appends a line to the file `path`."""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NoReturn

from gates import opened, wait_for
from lockwork import Lockwork, current_job
from lockwork.errors import JobCancelled
from notes import note

lw = Lockwork()


@lw.task(executor="process")
def pids() -> tuple[int, int]:
    return os.getpid(), os.getppid()


@lw.task(executor="process")
async def pids_of_a_coroutine() -> tuple[int, int]:
    await asyncio.sleep(0)
    return os.getpid(), os.getppid()


@lw.task(executor="process", backoff=0, retries=2)
def dies_once(path: str, how: str) -> int:
    note(path)
    if current_job().attempt == 1:
        die(how)
    return current_job().attempt


@lw.task(executor="process", backoff=0, retries=1)
def always_dies(path: str, how: str) -> None:
    note(path)
    die(how)


@lw.task(executor="process", backoff=0, retries=0, max_deliveries=3)
def dies_as_often_as_it_may(path: str) -> None:
    note(path)
    die("exit")


def die(how: str) -> NoReturn:
    if how == "exit":
        os._exit(7)
    if how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    ctypes.string_at(0)
    raise AssertionError("still alive")


@lw.task(executor="process", max_deliveries=1)
def dies_later(path: str, gate: str) -> None:
    note(path)
    wait_for(gate)
    die("exit")


@lw.task
def waits_for_any(path: str) -> None:
    note(path)
    os.wait()


@lw.task
async def ignores_deaths(path: str) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    note(path)


@lw.task(executor="process")
def gated(path: str, gate: str) -> int:
    note(path)
    wait_for(gate)
    note(path, "done")
    return current_job().attempt


@lw.task
async def gated_coroutine(path: str, gate: str) -> int:
    note(path)
    await opened(gate)
    return current_job().attempt


@lw.task(executor="process", hard_timeout=1.5, retries=1, backoff=0)
def stubborn(path: str) -> None:
    note(path)
    never_end()


@lw.task(executor="process", timeout=1, hard_timeout=3, retries=0)
def stubborn_after_its_timeout(path: str) -> None:
    note(path)
    never_end(path)


@lw.task(hard_timeout=1.5, retries=1, backoff=0)
def stubborn_thread(path: str) -> None:
    note(path)
    never_end()


@lw.task(hard_timeout=1.5, retries=1, backoff=0)
async def blocks_the_loop(path: str) -> None:
    note(path)
    never_end()


@lw.task(hard_timeout=1.5, retries=1, backoff=0)
async def holds_the_interpreter(path: str) -> None:
    note(path)
    ctypes.PyDLL(None).sleep(600)


@lw.task(executor="process")
def holds_in_a_process(path: str) -> None:
    note(path)
    ctypes.PyDLL(None).sleep(600)


@lw.task(hard_timeout="10m")
async def quick(path: str) -> int:
    note(path)
    return current_job().attempt


def never_end(path: str | None = None) -> None:
    while True:
        try:
            while True:
                time.sleep(0.01)
        except BaseException as error:  # noqa: BLE001 - that is what it is there for
            if path is not None:
                note(path, type(error).__name__)


@lw.task(executor="process", timeout=1, retries=0)
def slow(path: str) -> None:
    note(path)
    wait_for("/nowhere")


@lw.task(executor="process")
def cancelled(path: str) -> None:
    note(path)
    try:
        wait_for("/nowhere")
    except JobCancelled:
        note(path, "cancelled", said=current_job().cancelled)
        raise


@lw.task(executor="process")
async def cancelled_coroutine(path: str) -> None:
    note(path)
    try:
        await asyncio.sleep(600)
    except asyncio.CancelledError:
        note(path, "cancelled", said=current_job().cancelled)
        raise


@lw.task(executor="process", backoff=0, retries=1)
def steps(path: str) -> dict[str, Any]:
    job = current_job()
    note(path)
    job.progress({"attempt": job.attempt})
    if job.attempt == 1:
        job.checkpoint("first", [1, 2])
        die("exit")
    return {**job.checkpoints, "fence": job.fence, "queue": job.queue, "tags": list(job.tags), "task": job.task}


@lw.task(executor="process")
def echo(value: Any) -> Any:
    return value


@lw.task(executor="process", retries=0)
def raises(text: str) -> None:
    raise LookupError(text)


@lw.task(executor="process", retries=3)
def returns_what_json_cannot_hold(path: str) -> Any:
    note(path)
    return object()


@lw.task(executor="process", retries=3, give_up_on=LookupError)
def gives_up(path: str) -> None:
    note(path)
    raise LookupError("no use")


@lw.task(executor="process")
def snoozes(path: str) -> int:
    note(path)
    if not Path(path + ".gate").exists():
        current_job().snooze(0.05)
    return current_job().attempt


@lw.task(executor="process")
def enqueues() -> str:
    return pids.enqueue().id


@lw.task(executor="process")
def relay(left: int) -> str:
    """Enqueue the next job just before this one ends; return its ID, or an empty string."""
    return relay.enqueue(left - 1).id if left else ""


kept: list[bytes] = []


@lw.task(executor="process")
def hoards(megabytes: int) -> int:
    kept.append(b"x" * (megabytes << 20))
    return os.getpid()


@lw.task(executor="process", hard_timeout=1.5, retries=0)
def hides_behind_a_program(path: str) -> None:
    program = subprocess.Popen(["sleep", "600"])
    note(path, program=program.pid)
    never_end()


@lw.task(executor="process", retries=50, backoff=0)
def brief(path: str) -> None:
    note(path)
    time.sleep(0.03)


@lw.task(executor="process")
def runs_a_program() -> int:
    return subprocess.run(["false"], check=False).returncode


@lw.task(executor="process")
def prints(text: str) -> str:
    print(text)
    return sys.stdin.read()


@lw.task(executor="process", max_deliveries=1)
def forks(path: str) -> int:
    """Leave a process that keeps all files open."""
    left = os.fork()
    if left == 0:
        time.sleep(600)
        os._exit(0)
    note(path, left=left)
    die("exit")


@lw.task(executor="process", retries=0)
async def goes_on_twice(path: str) -> int:
    """The copy does not exit but raises, and so returns to the runner's own code."""
    note(path)
    copy = os.fork()
    if copy == 0:
        raise LookupError("in the copy")
    return os.waitpid(copy, 0)[0] - copy  # noqa: ASYNC222 - no other coroutine runs here


@lw.task(executor="process")
def goes_elsewhere(folder: str) -> str:
    os.chdir(folder)
    return str(Path.cwd())


@lw.task
async def goes_elsewhere_itself(folder: str) -> None:
    os.chdir(folder)


if os.environ.get("FORGE_FAILS_IN_RUNNERS") and "lockwork.worker.process.runner" in " ".join(sys.orig_argv):
    os._exit(9)
if os.environ.get("FORGE_IGNORES_DEATHS"):
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
