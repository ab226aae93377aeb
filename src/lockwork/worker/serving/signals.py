"""Signals of a process that runs jobs: it leaves them to its supervisor; the copies that jobs fork of it do not."""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType

from lockwork.worker.signals import heard


def leave_to_supervisor() -> None:
    """The terminal's Ctrl-C and a service manager's signals are for the supervisor, which then tells us."""
    # handled, not ignored: programs that jobs start would inherit that
    usual = {number: signal.signal(number, _minded_elsewhere) for number in heard()}
    held = threading.local()

    def hold() -> None:
        # one that comes to the copy before its handlers are there would be lost, and who sent it would wait for ever
        held.mask = signal.pthread_sigmask(signal.SIG_BLOCK, usual)

    def let_go() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, held.mask)

    def let_go_in_copy() -> None:
        signal.set_wakeup_fd(-1)  # the event loop's, which is still there in the process that was copied
        for number, handler in usual.items():
            if signal.getsignal(number) is _minded_elsewhere:
                signal.signal(number, handler)
        let_go()

    os.register_at_fork(before=hold, after_in_parent=let_go, after_in_child=let_go_in_copy)


def _minded_elsewhere(_number: int, _frame: FrameType | None) -> None:
    pass
