"""The state of a runner that is free again before the outcome of its previous job was processed."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import suppress

import pytest

from lockwork.errors import JobCancelled
from lockwork.protocol.queue.leases import Leased, Outcome
from lockwork.worker.execution import runner_handle
from lockwork.worker.execution.runner_handle import RunnerHandle, RunnerTask, SpawnSpec
from lockwork.worker.ipc.runner_messages import RunnerJob, Stop
from lockwork.worker.settings import ProcessSettings, WorkerOptions

RUNNER = """
import socket, sys
from lockwork.protocol.queue.leases import Outcome
from lockwork.worker.ipc.runner_messages import Begun, Free, RunnerEnded, Stop, packed, read_message, read_settings

line = socket.socket(fileno=int(sys.argv[1]))
read_settings(line)
line.sendall(packed(Free()))
while (message := read_message(line)) is not None:
    if isinstance(message, Stop):
        line.sendall(packed(RunnerEnded(Outcome(message.id, b"", "c"))) + packed(Free()))
    else:
        line.sendall(packed(Begun()))
        if message.job.id == "copied":
            for id, token in ("copied", b"old"), ("other", b""):
                line.sendall(packed(RunnerEnded(Outcome(id, token, "d"))) + packed(Free()))
        if message.job.id != "slow":
            line.sendall(packed(RunnerEnded(Outcome(message.job.id, b"", "s"))) + packed(Free()))
        if message.job.id == "copied":
            line.sendall(packed(Free()))
"""


class Owner:
    """Calls `then` when the runner becomes free."""

    def __init__(self) -> None:
        self.free, self.gone = asyncio.Event(), asyncio.Event()
        self.then: Callable[[], None] = lambda: None
        self.frees = 0

    def on_free(self, _host: RunnerHandle) -> None:
        self.frees += 1
        self.free.set()
        then, self.then = self.then, lambda: None
        then()

    def on_gone(self, _host: RunnerHandle) -> None:
        self.gone.set()


@pytest.fixture
def owner() -> Owner:
    return Owner()


@pytest.fixture
async def runner(monkeypatch: pytest.MonkeyPatch, owner: Owner) -> AsyncIterator[RunnerHandle]:
    def spawn(_place: SpawnSpec, descriptor: int) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-c", RUNNER, str(descriptor)]
        return subprocess.Popen(command, pass_fds=[descriptor], process_group=0)

    monkeypatch.setattr(runner_handle, "_spawn", spawn)
    place = SpawnSpec(ProcessSettings(WorkerOptions("app:lw", ["default"], 1, 1, 15, 30), "h/1/a"), "asyncio", ".")
    started = await runner_handle.start(place, owner)
    await asyncio.wait_for(owner.free.wait(), 30)
    yield started
    started.leave()
    await asyncio.wait_for(owner.gone.wait(), 30)


def job(id: str) -> Leased:
    return Leased(id, b"", b"", 1, 1)


async def test_next_job_is_accepted_before_the_last_outcome_arrives(runner: RunnerHandle, owner: Owner) -> None:
    errands: list[RunnerTask] = []
    first = runner.run("default", job("a"))
    owner.then = lambda: errands.append(runner.run("default", job("b")))
    assert await first.outcome(None) == Outcome("a", b"", "s")
    assert await errands[0].outcome(None) == Outcome("b", b"", "s")
    assert not runner.at_work


async def test_late_cancellation_does_not_stop_the_next_job(
    runner: RunnerHandle, owner: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job that is cancelled or times out after its end must not affect the next job."""
    errands: list[RunnerTask] = []
    sent: list[RunnerJob | Stop] = []
    send = runner.send

    def sending(message: RunnerJob | Stop) -> None:
        sent.append(message)
        send(message)

    monkeypatch.setattr(runner, "send", sending)
    waiting = asyncio.create_task(runner.run("default", job("a")).outcome(30))
    last = runner._runner_task
    assert last is not None

    def next_one() -> None:
        waiting.cancel()
        last._too_long(30)
        errands.append(runner.run("default", job("slow")))
        last.interrupt(JobCancelled)

    owner.then = next_one
    with suppress(asyncio.CancelledError):
        await waiting
    assert [message for message in sent if isinstance(message, Stop)] == []
    errands[0].interrupt(JobCancelled)
    assert await errands[0].outcome(None) == Outcome("slow", b"", "c")


async def test_messages_of_a_forked_copy_are_ignored(runner: RunnerHandle, owner: Owner) -> None:
    """A forked copy sends messages about other jobs, or that the runner is free."""
    assert await runner.run("default", job("copied")).outcome(None) == Outcome("copied", b"", "s")
    assert await runner.run("default", job("a")).outcome(None) == Outcome("a", b"", "s")
    runner.kill()
    await asyncio.wait_for(owner.gone.wait(), 30)
    assert owner.frees == 3
