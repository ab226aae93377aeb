"""Exit: ends a process within a time limit, even if jobs and their threads go on."""

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
    # handled, not ignored: programs that jobs start would inherit that
    usual = {number: signal.signal(number, _minded_elsewhere) for number in handled_signals()}
    held = threading.local()

    def hold() -> None:
        # one that comes to the copy before its handlers are there would be lost, and who sent it would wait for ever
        held.mask = signal.pthread_sigmask(signal.SIG_BLOCK, usual)

    def close_input() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, held.mask)

    def let_go_in_copy() -> None:
        signal.set_wakeup_fd(-1)  # the event loop's, which is still there in the process that was copied
        for number, handler in usual.items():
            if signal.getsignal(number) is _minded_elsewhere:
                signal.signal(number, handler)
        close_input()

    os.register_at_fork(before=hold, after_in_parent=close_input, after_in_child=let_go_in_copy)


def _minded_elsewhere(_number: int, _frame: FrameType | None) -> None:
    pass


log: Log = Log("lockwork.worker")


def leave_within(seconds: float, status: int) -> None:
    """End this process after so many seconds, unless it ends before."""
    timer = threading.Timer(seconds, os._exit, [status])
    timer.daemon = True
    timer.start()


def leave_after(pipe: int, seconds: float, status: int) -> None:
    """End this process so many seconds after the other end of `pipe` was closed, unless it ends before."""
    # a descriptor of our own: another one's number may come to mean something else
    threading.Thread(target=_watch, args=(os.dup(pipe), seconds, status), name="lockwork-orphan", daemon=True).start()


def _watch(pipe: int, seconds: float, status: int) -> None:
    poll = select.poll()
    poll.register(pipe, select.POLLHUP)  # what is written there is for others to read
    poll.poll()
    threading.Event().wait(seconds)
    log.error(
        "the supervisor has exited, and jobs do not end: this process exits, and its jobs return when its lease expires"
    )
    os._exit(status)
