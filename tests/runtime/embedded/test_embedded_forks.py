"""Forks of a process that has opened an embedded server."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import zygote
from lockwork.runtime.embedded import open_shared
from runtime.embedded.users import LIMIT, MARKS, Watched, client

pytestmark = MARKS


def forked(run: str, folder: Path) -> subprocess.Popen[bytes]:
    """Start a process that opens a server, forks a child that executes `run` and waits, and prints both process IDs."""
    code = f"""
import os, select, signal, sys, pathlib
from lockwork.runtime.embedded import Embedded, open_shared, start_private
opened = {run.partition(":")[0]}(pathlib.Path(sys.argv[1]))
ready, done = os.pipe()
child = os.fork()
if child == 0:
    {run.partition(":")[2]}
    os.write(done, b"x")
    while True:
        signal.pause()
os.read(ready, 1)
print(opened.pid, child, flush=True)
while not select.select([sys.stdin], [], [], 0.1)[0]:
    pass  # a read without limit would not notice a signal that came just before it
opened.close()
"""
    return zygote.popen([sys.executable, "-c", code, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def pids(process: subprocess.Popen[bytes]) -> list[int]:
    assert process.stdout is not None
    return [int(word) for word in process.stdout.readline().split()]


def test_forked_child_keeps_the_shared_server(home: Path, watch: type[Watched]) -> None:
    process = forked("open_shared:pass", home)
    server, child = map(watch, pids(process))
    # the child has the same stdout, so reading it does not end here
    assert process.stdin is not None
    process.stdin.close()
    process.wait(LIMIT)
    with open_shared(home) as opened:
        assert opened.pid == server.pid
    assert server.alive()
    os.kill(child.pid, signal.SIGKILL)
    server.wait()
    assert process.stdout is not None
    process.stdout.close()


@pytest.mark.parametrize("how", ["open_shared", "start_private"])
def test_close_in_a_forked_child_keeps_the_parents_server(home: Path, watch: type[Watched], how: str) -> None:
    process = forked(f"{how}:opened.close()", home)
    server, child = map(watch, pids(process))
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    with client(f"unix://{home}/server.sock") as redis_client:
        assert redis_client.ping()
    process.communicate(timeout=LIMIT)
    server.wait()


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_private_server_ends_with_its_owner_despite_forked_child(
    home: Path, watch: type[Watched], end: signal.Signals
) -> None:
    process = forked("start_private:signal.signal(signal.SIGINT, signal.SIG_IGN)", home)
    server, child = map(watch, pids(process))
    guardian = watch(server.parent())
    process.send_signal(end)
    server.wait()
    guardian.wait()
    assert child.alive()
    os.kill(child.pid, signal.SIGKILL)
    process.communicate(timeout=LIMIT)
