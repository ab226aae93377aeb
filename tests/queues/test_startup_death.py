"""A worker process that dies before it has read its settings."""

from __future__ import annotations

import subprocess
import sys

from lockwork.worker.ipc.messages import RaiseUrgency, Urgency
from lockwork.worker.supervisor.child_process import WorkerProcess


def test_unread_settings_do_not_end_the_supervisor() -> None:
    """Unread settings stay in the buffer of the pipe, and closing the pipe sends them once more."""
    process = subprocess.Popen([sys.executable, "-c", ""], stdin=subprocess.PIPE)
    process.wait()
    child = WorkerProcess(process, "host/1/x", 0.0)
    child.send(RaiseUrgency(Urgency.STOP))
    child.close_input()
    assert process.stdin is not None
    assert process.stdin.closed
