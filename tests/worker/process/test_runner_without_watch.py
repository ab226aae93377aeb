"""A runner process without a thread that watches it is stopped, and its socket is closed."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from typing import Any, NoReturn

import pytest

from lockwork.worker.execution import runner_handle
from lockwork.worker.execution.runner_handle import SpawnSpec
from lockwork.worker.settings import ProcessSettings, WorkerOptions


async def test_runner_without_watcher_thread_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    spawned: list[subprocess.Popen[bytes]] = []

    def spawn(_place: SpawnSpec, _descriptor: int) -> subprocess.Popen[bytes]:
        spawned.append(subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]))
        return spawned[0]

    def no_thread(_thread: threading.Thread) -> NoReturn:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(runner_handle, "_spawn", spawn)
    monkeypatch.setattr(threading.Thread, "start", no_thread)
    owner: Any = None
    place = SpawnSpec(ProcessSettings(WorkerOptions("app:lw", ["default"], 1, 1, 15, 30), "h/1/a"), "asyncio", ".")
    with pytest.raises(RuntimeError, match="new thread"):
        await runner_handle.start(place, owner)
    assert spawned[0].returncode is not None
    await asyncio.sleep(0)
