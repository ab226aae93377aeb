"""Ends a process within a time limit, even if jobs and their threads still run."""

from __future__ import annotations

import os
import select
import signal
import threading
from types import FrameType

from lockwork.logs import Log
from lockwork.worker.settings import handled_signals


def leave_to_supervisor() -> None:
    """Ignore the terminal's Ctrl-C and a service manager's signals: the supervisor handles them."""
    # handled, not ignored: programs that jobs start would inherit SIG_IGN
    usual = {number: signal.signal(number, _minded_elsewhere) for number in handled_signals()}
    held = threading.local()

    def hold() -> None:
        # a signal that reaches the copy before its handlers exist would be lost, and the sender would wait forever
        held.mask = signal.pthread_sigmask(signal.SIG_BLOCK, usual)

    def close_input() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, held.mask)

    def let_go_in_copy() -> None:
        signal.set_wakeup_fd(-1)  # the copied process inherited the wakeup descriptor of the parent's event loop
        for number, handler in usual.items():
            if signal.getsignal(number) is _minded_elsewhere:
                signal.signal(number, handler)
        close_input()

    os.register_at_fork(before=hold, after_in_parent=close_input, after_in_child=let_go_in_copy)


def _minded_elsewhere(_number: int, _frame: FrameType | None) -> None:
    pass


log: Log = Log("lockwork.worker")


def leave_within(seconds: float, status: int) -> None:
    """End this process after `seconds`, unless it ends before."""
    timer = threading.Timer(seconds, os._exit, [status])
    timer.daemon = True
    timer.start()


def leave_after(pipe: int, seconds: float, status: int) -> None:
    """End this process `seconds` after the other end of `pipe` was closed, unless it ends before."""
    # a duplicate: the original descriptor may be closed and its number reused
    threading.Thread(target=_watch, args=(os.dup(pipe), seconds, status), name="lockwork-orphan", daemon=True).start()


def _watch(pipe: int, seconds: float, status: int) -> None:
    poll = select.poll()
    poll.register(pipe, select.POLLHUP)  # another reader handles the data in the pipe
    poll.poll()
    threading.Event().wait(seconds)
    log.error(
        "the supervisor has exited, and jobs do not end: this process exits, and its jobs return when its lease expires"
    )
    os._exit(status)
