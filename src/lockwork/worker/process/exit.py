"""Leaving: a process that has to go does so after a while, whatever its jobs and their threads are busy with."""

from __future__ import annotations

import os
import select
import threading

from lockwork.logs import Log

log: Log = Log("lockwork.worker")


def leave_within(seconds: float, status: int) -> None:
    """End this process after so many seconds, unless it ends by itself before."""
    timer = threading.Timer(seconds, os._exit, [status])
    timer.daemon = True
    timer.start()


def leave_after(pipe: int, seconds: float, status: int) -> None:
    """End this process so many seconds after the other end of `pipe` was closed, unless it ends by itself before."""
    # a descriptor of our own: another one's number may come to mean something else
    threading.Thread(target=_watch, args=(os.dup(pipe), seconds, status), name="lockwork-orphan", daemon=True).start()


def _watch(pipe: int, seconds: float, status: int) -> None:
    poll = select.poll()
    poll.register(pipe, select.POLLHUP)  # what is written there is for others to read
    poll.poll()
    threading.Event().wait(seconds)
    log.error("the supervisor is gone, and jobs do not end: this process leaves them to the end of its lease")
    os._exit(status)
